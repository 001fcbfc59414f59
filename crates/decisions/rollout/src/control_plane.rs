//! What is different about pools of control-plane nodes.
//!
//! They go one node at a time whatever `maxUnavailable` says, never below the quorum of etcd nor while its members cannot
//! be read, and the node that runs our own leader goes last.
//!
//! Members are counted by their pods, but a quorum is one of all members, also of those whose pod or Node is gone. So it is
//! a majority of the largest number that is known: the pods that are seen, and the most that the pool's ledger has recorded,
//! which begins with the members that any pod was told of when it joined. Where the operator of etcd keeps the list in its pods up to date, that list
//! alone counts. Where etcd does not run in pods, each node of the pool counts as a member, which is well while its node is.

mod members;

use std::borrow::Cow;

use api::known::Fresh;
use api::names;
use k8s_openapi::api::core::v1::Pod;

use crate::node::NodeFacts;
use crate::pool_nodes::PoolNodes;

/// Where etcd runs as static pods, and the labels of those pods that have them; elsewhere's, then OpenShift's.
pub const ETCD: [(&str, &str); 2] = [("kube-system", "component=etcd"), ("openshift-etcd", "")];

/// One etcd member that runs as a static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    pub node: String,
    pub ready: bool,
    /// The members that its pod names.
    pub named: Named,
}

/// How many members of etcd a pod names in its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Named {
    #[default]
    None,
    /// Those that there were when it joined.
    AtJoin(usize),
    /// Those that there are: an operator keeps the list up to date.
    Now(usize),
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

impl Named {
    /// Of two lists of one pod, the longer; one that is kept up to date before one that is not.
    pub(crate) fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now(one), Self::Now(other)) => Self::Now(one.max(other)),
            (Self::Now(count), _) | (_, Self::Now(count)) => Self::Now(count),
            (Self::AtJoin(one), Self::AtJoin(other)) => Self::AtJoin(one.max(other)),
            (named, Self::None) | (Self::None, named) => named,
        }
    }
}

/// Whether a pool holds nodes of the control plane.
pub fn is_control_plane(pool: &str) -> bool {
    matches!(pool, names::POOL_MASTER | names::POOL_ARBITER)
}

impl EtcdMember {
    /// A node whose member nobody sees, if it has one.
    fn of_node(node: &NodeFacts) -> Self {
        Self { node: node.name.clone(), ready: node.is_running(), named: Named::None }
    }

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
        is_member.then(|| Self { node, ready, named: members::named(pod) })
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

/// How many members etcd has at most, as far as pods and the ledger tell; none where none of them ever ran in a pod.
///
/// What a pod was told when it joined stays in its arguments for ever, also after members were removed. So that only makes
/// up for a number that was never recorded; one that somebody has lowered stays lowered.
pub fn members(seen: &[EtcdMember], recorded: Option<i32>) -> usize {
    let now = seen.iter().filter_map(|member| if let Named::Now(count) = member.named { Some(count) } else { None });
    let at_join = seen.iter().filter_map(|one| if let Named::AtJoin(count) = one.named { Some(count) } else { None });
    let is_current = !seen.is_empty() && now.clone().count() == seen.len();
    let known = now.max().unwrap_or_default().max(seen.len());
    let recorded = recorded.and_then(|recorded| usize::try_from(recorded).ok());
    let before = if is_current { None } else { recorded.or_else(|| at_join.max()) };
    known.max(before.unwrap_or_default())
}

/// The same for somebody who takes a member away for good: also those that the member on `newest` was told of, which joined
/// last. Where nobody removes members, each that joins makes up in the pods for one that is gone, and the ledger sees no more.
pub fn members_to_lose(seen: &[EtcdMember], recorded: Option<i32>, newest: Option<&str>) -> usize {
    let newest = newest.and_then(|node| seen.iter().find(|member| member.node == node));
    let told = match newest.map(|member| member.named) {
        Some(Named::AtJoin(count)) => count,
        Some(Named::None | Named::Now(_)) | None => 0,
    };
    members(seen, recorded).max(told)
}

/// Whether etcd keeps its quorum while `node` is down. That its member is down now does not help: it may be back by the time
/// the node is emptied, and the others may not. While a member is not seen, any node may be the one that runs it.
///
/// One or two members have no quorum to spare, so there it is enough that every other member is well.
pub(crate) fn keeps_quorum(
    seen: Fresh<&Vec<EtcdMember>>,
    recorded: Option<i32>,
    nodes: &PoolNodes,
    node: &str,
) -> bool {
    let (members, total) = match members(&seen, recorded) {
        0 => {
            let members: Vec<EtcdMember> = nodes.iter().map(EtcdMember::of_node).collect();
            let total = members.len();
            (Cow::Owned(members), total)
        }
        total => (Cow::Borrowed(seen.as_slice()), total),
    };
    let is_member = total > members.len() || members.iter().any(|member| member.node == node);
    let needed = if total <= 2 { total.saturating_sub(1) } else { total / 2 + 1 };
    let left = members.iter().filter(|member| member.ready && member.node != node).count();
    !is_member || left >= needed
}

#[cfg(test)]
mod tests {
    use api::known::Reading;
    use jiff::Timestamp;

    use super::*;

    fn members_of(ready: &[bool], named: Named) -> Vec<EtcdMember> {
        let member = |(n, ready): (usize, &bool)| EtcdMember { node: format!("m{n}"), ready: *ready, named };
        ready.iter().enumerate().map(member).collect()
    }

    fn keeps(members: Vec<EtcdMember>, recorded: Option<i32>, node: &str) -> bool {
        let members = Reading::known(members, Timestamp::UNIX_EPOCH);
        let members = members.fresh("pods", Timestamp::UNIX_EPOCH).expect("they were just read");
        super::keeps_quorum(members, recorded, &PoolNodes::default(), node)
    }

    fn keeps_quorum(ready: &[bool], node: &str) -> bool {
        keeps(members_of(ready, Named::None), None, node)
    }

    #[test]
    fn a_member_whose_node_is_gone_counts_until_etcd_has_removed_it() {
        let two = |named| members_of(&[true, true], named);
        assert!(!keeps(two(Named::None), Some(3), "m0"), "the ledger has seen three");
        assert!(!keeps(two(Named::AtJoin(3)), None, "m0"), "one of the two was told of three when it joined");
        assert!(!keeps(two(Named::Now(3)), None, "m0"), "the operator of etcd still counts three");
        assert!(keeps(two(Named::Now(2)), Some(3), "m0"), "the operator of etcd has removed it");
        assert!(keeps(two(Named::AtJoin(1)), Some(2), "m0"), "its number was lowered by hand");
        assert!(
            keeps(two(Named::AtJoin(3)), Some(2), "m0"),
            "what a pod was told when it joined does not raise it again"
        );
        let four = members_of(&[true, true, true, true], Named::None);
        assert!(keeps(four, Some(5), "m0"), "of five, three are left");
    }

    #[test]
    fn dead_members_whose_places_others_took_count_until_somebody_removes_them() {
        let at = |node: &str, count| EtcdMember { node: node.to_owned(), ready: true, named: Named::AtJoin(count) };
        let seen = [at("m2", 3), at("m3", 4), at("m4", 5), at("m5", 6)];
        assert_eq!(members(&seen, Some(4)), 4, "never more than four were there at once");
        assert_eq!(members_to_lose(&seen, Some(4), Some("m5")), 6, "three of the six are dead");
        let seen = [at("m2", 3), at("m4", 5), at("m6", 4)];
        assert_eq!(members_to_lose(&seen, Some(3), Some("m6")), 4, "the dead were removed before it joined");
    }

    #[test]
    fn members_that_were_removed_count_until_their_number_is_lowered() {
        let three = members_of(&[true, true, true], Named::AtJoin(4));
        assert_eq!((members(&three, None), members(&three, Some(4)), members(&three, Some(3))), (4, 4, 3));
        assert_eq!(members(&three, Some(1)), 3, "no fewer than are seen");
        assert!(keeps(three, Some(3), "m0"));
    }

    #[test]
    fn while_a_member_is_not_seen_any_node_may_run_it() {
        assert!(!keeps(members_of(&[true, false], Named::None), Some(3), "m9"));
        assert!(keeps(members_of(&[true, true], Named::None), Some(3), "m9"));
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
