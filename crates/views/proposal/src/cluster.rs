//! The objects that a plan is made from.

use std::collections::BTreeMap;

use api::known::Reading;
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigNode, MachineConfigPool};
use api::machinist::{ClusterSettings, PoolLedger};
use api::operator::MachineConfiguration;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use rollout::{Membership, Pools};

/// A cluster as it was read, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub pools: Vec<MachineConfigPool>,
    pub nodes: Vec<Node>,
    pub machine_config_nodes: Vec<MachineConfigNode>,
    pub ledgers: Vec<PoolLedger>,
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

    /// What the rollout says about the membership of each node.
    #[must_use]
    pub fn members(&self) -> BTreeMap<String, Membership> {
        let pools = Pools::from_objects(&self.pools);
        let member = |node: &Node| (node.name_any(), pools.of_node(&node.name_any(), node.labels()));
        self.nodes.iter().map(member).collect()
    }
}
