//! What is different about pools of control-plane nodes.
//!
//! They go one node at a time whatever `maxUnavailable` says, never below the quorum of etcd nor while its members cannot
//! be read, and the node that runs our own leader goes last.

use api::known::Fresh;
use api::names;
use k8s_openapi::api::core::v1::Pod;

use crate::pool_nodes::PoolNodes;

/// Where etcd runs as static pods, and the labels of those pods that have them; elsewhere's, then OpenShift's.
pub const ETCD: [(&str, &str); 2] = [("kube-system", "component=etcd"), ("openshift-etcd", "")];

/// One etcd member that runs as a static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    pub node: String,
    pub ready: bool,
}

/// The other pool of the control plane, where there is one: `arbiter` for `master`, `master` for `arbiter`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    pub pool: String,
    pub unavailable: usize,
    /// Nodes whose turn is still to come.
    pub waiting: usize,
    pub paused: bool,
}

/// Whether a pool holds nodes of the control plane.
pub fn is_control_plane(pool: &str) -> bool {
    matches!(pool, names::POOL_MASTER | names::POOL_ARBITER)
}

impl EtcdMember {
    /// Reads a pod; most pods are no etcd members.
    pub fn from_pod(pod: &Pod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let labelled = |key: &str, value: &str| labels.get(key).is_some_and(|found| found == value);
        let is_member = match pod.metadata.namespace.as_deref()? {
            "kube-system" => labelled("component", "etcd"),
            "openshift-etcd" => labelled("app", "etcd") || labelled("k8s-app", "etcd"),
            _ => false,
        };
        let node = pod.spec.as_ref()?.node_name.clone()?;
        let ready = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = ready.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        is_member.then_some(Self { node, ready })
    }
}

impl Peer {
    /// How a pool looks to its peer.
    pub fn of(pool: &str, paused: bool, nodes: &PoolNodes) -> Self {
        let index = nodes.index();
        Self {
            pool: pool.to_owned(),
            unavailable: index.counts.unavailable,
            waiting: index.waiting.len() + index.impaired.len(),
            paused,
        }
    }

    /// Why `pool` has to wait for this peer.
    pub(crate) fn blocks(&self, pool: &str) -> bool {
        match pool {
            names::POOL_MASTER => self.pool == names::POOL_ARBITER && self.unavailable > 0,
            names::POOL_ARBITER => {
                let upcoming = if self.paused { 0 } else { self.waiting };
                self.pool == names::POOL_MASTER && self.unavailable + upcoming > 0
            }
            _ => false,
        }
    }
}

/// Whether etcd keeps its quorum while `node` is down. That its member is down now does not help: it may be back by the time
/// the node is emptied, and the others may not.
///
/// One or two members have no quorum to spare, so there it is enough that every other member is well.
pub(crate) fn keeps_quorum(members: Fresh<&Vec<EtcdMember>>, node: &str) -> bool {
    let is_member = members.iter().any(|member| member.node == node);
    let total = members.len();
    let needed = if total <= 2 { total.saturating_sub(1) } else { total / 2 + 1 };
    let left = members.iter().filter(|member| member.ready && member.node != node).count();
    !is_member || left >= needed
}

#[cfg(test)]
mod tests {
    use api::known::Reading;
    use jiff::Timestamp;

    use super::*;

    fn keeps_quorum(ready: &[bool], node: &str) -> bool {
        let member = |(n, ready): (usize, &bool)| EtcdMember { node: format!("m{n}"), ready: *ready };
        let members = Reading::known(ready.iter().enumerate().map(member).collect(), Timestamp::UNIX_EPOCH);
        super::keeps_quorum(members.fresh("pods", Timestamp::UNIX_EPOCH).expect("they were just read"), node)
    }

    #[test]
    fn three_members_spare_one() {
        assert!(keeps_quorum(&[true, true, true], "m0"));
        assert!(!keeps_quorum(&[true, false, true], "m0"));
    }

    #[test]
    fn a_member_that_is_down_may_go_while_the_others_have_a_quorum() {
        assert!(keeps_quorum(&[true, false, true], "m1"));
        assert!(!keeps_quorum(&[true, false, false], "m1"));
    }

    #[test]
    fn a_node_without_a_member_may_always_go() {
        assert!(keeps_quorum(&[true, false, false], "arbiter"));
    }

    #[test]
    fn a_single_member_may_go() {
        assert!(keeps_quorum(&[true], "m0"));
        assert!(keeps_quorum(&[], "m0"));
    }

    #[test]
    fn of_two_members_the_other_must_be_well() {
        assert!(keeps_quorum(&[true, true], "m0"));
        assert!(!keeps_quorum(&[true, false], "m0"));
    }
}
