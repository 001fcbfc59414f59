//! The objects that a plan is made from.

use std::collections::BTreeMap;

use api::known::Reading;
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigNode, MachineConfigPool};
use api::machinist::{ClusterSettings, PoolLedger, PoolPolicy};
use api::operator::MachineConfiguration;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use rollout::node::State;
use rollout::{Membership, NodeFacts, Pools};

use crate::plan::Left;

/// A cluster as it was read, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub pools: Vec<MachineConfigPool>,
    pub nodes: Vec<Node>,
    pub machine_config_nodes: Vec<MachineConfigNode>,
    pub ledgers: Vec<PoolLedger>,
    pub pool_policies: Vec<PoolPolicy>,
    /// The node that runs the leader of the controllers, which goes last; absent where nobody knows.
    pub leader_node: Option<String>,
    /// Pods of etcd, which the control plane's order depends on.
    pub etcd: Reading<Vec<Pod>>,
    /// Every MachineConfig, whole.
    pub configs: Vec<MachineConfig>,
    // Without these another config would be rendered, or another disruption foretold, than there will be.
    pub controller_configs: Vec<ControllerConfig>,
    pub settings: Vec<ClusterSettings>,
    pub policies: Vec<MachineConfiguration>,
    pub now: Timestamp,
}

impl Cluster {
    /// A MachineConfig by name.
    #[must_use]
    pub fn config(&self, name: &str) -> Option<&MachineConfig> {
        self.configs.iter().find(|config| config.metadata.name.as_deref() == Some(name))
    }

    /// Nodes of pools that are not what their pool wants and that no plan would move: they failed, drifted or are at work.
    #[must_use]
    pub fn unwell(&self) -> Vec<Left> {
        let members = self.members();
        let is_member = |node: &&Node| matches!(members.get(&node.name_any()), Some(Membership::Member { .. }));
        let nodes = self.nodes.iter().filter(is_member).map(NodeFacts::from_object);
        let mut unwell: Vec<_> = nodes.filter_map(|node| Some(Left { why: not_so(&node)?, node: node.name })).collect();
        unwell.sort_by(|one, other| one.node.cmp(&other.node));
        unwell
    }

    /// The settings of a pool for which upstream has no field.
    #[must_use]
    pub fn policy(&self, pool: &str) -> Option<&PoolPolicy> {
        self.pool_policies.iter().find(|policy| policy.metadata.name.as_deref() == Some(pool))
    }

    /// What the rollout says about the membership of each node.
    #[must_use]
    pub fn members(&self) -> BTreeMap<String, Membership> {
        let pools = Pools::from_objects(&self.pools);
        let member = |node: &Node| (node.name_any(), pools.of(&NodeFacts::from_object(node)));
        self.nodes.iter().map(member).collect()
    }
}

/// What keeps a node from being what it should be, as its daemon says.
fn not_so(node: &NodeFacts) -> Option<String> {
    let because = |word: &str| match &node.reason {
        Some(reason) => format!("is {word}: {reason}"),
        None => format!("is {word} and does not say why"),
    };
    match &node.state {
        State::Degraded => Some(because("Degraded")),
        State::Unreconcilable => Some(because("Unreconcilable")),
        State::Working => Some("is being updated".to_owned()),
        State::Unknown(state) => Some(format!("reports the state {state:?}, which no daemon writes")),
        State::Unreported | State::Done if node.desired.is_some() && node.desired != node.current => {
            Some(format!("has not reached {}", node.desired.as_deref().unwrap_or_default()))
        }
        State::Unreported | State::Done => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::nothing_to_do;

    fn node(name: &str, pool: &str, state: &str, more: &Value) -> Node {
        let mut annotations = json!({
            "machineconfiguration.openshift.io/currentConfig": "rendered-worker-a",
            "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-a",
            "machineconfiguration.openshift.io/state": state,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            annotations[format!("machineconfiguration.openshift.io/{key}")] = value.clone();
        }
        let metadata = json!({"name": name, "labels": {"pool": pool}, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).expect("a node")
    }

    #[test]
    fn a_plan_that_moves_nobody_names_the_nodes_that_are_not_what_their_pool_wants() {
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "worker"}}, "configuration": {"name": "rendered-worker-a"}},
        });
        let drifted = json!({"reason": "content mismatch for file \"/etc/motd\""});
        let cluster = Cluster {
            pools: vec![serde_json::from_value(pool).expect("a pool")],
            nodes: vec![
                node("two", "worker", "Degraded", &drifted),
                node("one", "worker", "Done", &json!({"desiredConfig": "rendered-worker-b"})),
                node("well", "worker", "Done", &json!({})),
                node("nobodys", "other", "Degraded", &json!({})),
            ],
            ..Cluster::default()
        };
        let unwell = cluster.unwell();
        let told: Vec<_> = unwell.iter().map(|left| format!("{} {}", left.node, left.why)).collect();
        let expected =
            ["one has not reached rendered-worker-b", "two is Degraded: content mismatch for file \"/etc/motd\""];
        assert_eq!(told, expected);
        let says = nothing_to_do(&unwell);
        assert!(says.contains("2 nodes are not what their pools want") && !says.contains("every node has"), "{says}");
        assert!(nothing_to_do(&[]).ends_with("every node has what its pool wants."));
    }
}
