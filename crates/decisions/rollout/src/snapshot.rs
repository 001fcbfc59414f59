//! Everything that one pool's plan is made from.
//!
//! A controller keeps one snapshot per pool and takes changes in as they come; a command line builds one from files
//! with [`Snapshot::from_objects`]. The plan depends on nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::known::{Reading, Unread};
use api::machineconfiguration::{
    CertExpiry, ControllerConfig, MachineConfig, MachineConfigNode, MachineConfigPool, MachineConfigPoolConfiguration,
    MachineConfigPoolStatus, MachineOSBuild, MachineOSConfig,
};
use api::machinist::{PoolLedger, PoolPolicy};
use api::managed::last_writer;
use api::pause::Pause;
use api::{annotations, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::control_plane::{EtcdMember, Peer};
use crate::goal::{Goal, Layering};
use crate::ledger::Ledger;
use crate::membership::{Contested, Membership, NodeSelector, Pools};
use crate::node::NodeFacts;
use crate::pool_nodes::{PoolNodes, Rules};
use crate::report::Report;

/// How long a pool's target must stay the same before a node gets it, unless the pool's policy says otherwise. Long
/// enough for `kubectl apply` of a folder, so that half of it never reboots a node.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(5);

/// The path of what a pool wants, in `managedFields`.
pub const CONFIGURATION: &str = "/f:spec/f:configuration";

/// The input of [`crate::plan`].
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub pool: PoolFacts,
    pub nodes: PoolNodes,
    pub ledger: Ledger,
    pub settings: Settings,
    /// Members of etcd that run as pods; known to be none where etcd runs elsewhere. Only the control plane's pools look
    /// at it.
    pub etcd: Reading<Vec<EtcdMember>>,
    /// A kind that this snapshot is made of and that cannot be read now: then no node is targeted, because others may be
    /// down that are not seen to be.
    pub unread: Option<Unread>,
    pub peer: Option<Peer>,
    pub certificates: Vec<CertExpiry>,
    /// Rendered configs of this pool that exist, among those that people have set as targets of its nodes.
    pub rendered: BTreeSet<String>,
    /// Nodes that this pool and another custom pool want.
    pub contested: Vec<Contested>,
    /// The config server gives this pool's config to anyone.
    pub is_open: bool,
    pub now: Timestamp,
}

/// What the pool's object says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolFacts {
    pub name: String,
    pub uid: Option<String>,
    pub generation: Option<i64>,
    pub deleting: bool,
    pub paused: bool,
    /// Who paused it, why and until when, as far as they say so.
    pub pause: Option<String>,
    pub max_unavailable: Option<IntOrString>,
    pub configuration: Option<MachineConfigPoolConfiguration>,
    /// When that was last written, by the API server's clock.
    pub configured_at: Option<Timestamp>,
    /// The config that may be tried again although a trial of it was reverted.
    pub approved: Option<String>,
    pub selector: SelectorFacts,
    pub status: MachineConfigPoolStatus,
}

/// What is wrong with the pool's node selector, if anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SelectorFacts {
    #[default]
    Fine,
    Missing,
    Everything,
    Broken(String),
}

/// What does not come from objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub settle: SignedDuration,
    /// Who plans, for the ledger.
    pub holder: String,
    /// The node that runs the leader of our controllers.
    pub leader_node: Option<String>,
    /// The control plane's topology, which daemons read from an annotation.
    pub topology: Option<String>,
    pub image_mode_status_reporting: bool,
}

/// The objects that a snapshot is read from.
#[derive(Clone, Debug)]
pub struct Objects<'a> {
    pub pool: &'a MachineConfigPool,
    pub pools: &'a [MachineConfigPool],
    pub nodes: &'a [Node],
    pub machine_config_nodes: &'a [MachineConfigNode],
    /// Pods among which etcd members are looked for.
    pub pods: Reading<&'a [Pod]>,
    pub ledger: Option<&'a PoolLedger>,
    pub policy: Option<&'a PoolPolicy>,
    /// MachineConfigs, of which only the names are read: a person's request for one that is not known to exist is none.
    pub configs: Reading<&'a [MachineConfig]>,
    pub controller_config: Option<&'a ControllerConfig>,
    pub machine_os_config: Option<&'a MachineOSConfig>,
    pub machine_os_build: Option<&'a MachineOSBuild>,
}

impl<'a> Objects<'a> {
    /// A pool among all pools, and all nodes.
    pub fn new(pool: &'a MachineConfigPool, pools: &'a [MachineConfigPool], nodes: &'a [Node]) -> Self {
        Self {
            pool,
            pools,
            nodes,
            machine_config_nodes: &[],
            pods: Reading::default(),
            ledger: None,
            policy: None,
            configs: Reading::default(),
            controller_config: None,
            machine_os_config: None,
            machine_os_build: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            settle: SETTLE,
            holder: String::new(),
            leader_node: None,
            topology: None,
            image_mode_status_reporting: false,
        }
    }
}

impl Snapshot {
    /// Reads everything from scratch. What the pool's policy says comes before the settings.
    pub fn from_objects(objects: Objects<'_>, settings: Settings, now: Timestamp) -> Self {
        let pools = Pools::from_objects(objects.pools);
        let mut snapshot = Self::new(PoolFacts::from_object(objects.pool), settings, now);
        let layering = Layering::from_objects(objects.machine_os_config, objects.machine_os_build);
        snapshot.observe_pool(snapshot.pool.clone(), layering);
        snapshot.ledger = Ledger::from_object(objects.ledger);
        snapshot.certificates = objects.controller_config.map(certificates).unwrap_or_default();
        snapshot.etcd = objects.pods.clone().map(|pods| pods.iter().filter_map(EtcdMember::from_pod).collect());
        let reports = objects.machine_config_nodes.iter();
        let reports = reports.filter_map(|report| Some((report.metadata.name.as_deref()?, report))).collect();
        for node in objects.nodes {
            snapshot.sort_in(&pools, NodeFacts::from_object(node), &reports);
        }
        snapshot.peer = find_peer(&snapshot, &pools, &objects);
        if let Some(settle) = objects.policy.and_then(settle) {
            snapshot.settings.settle = settle;
        }
        snapshot.is_open = objects.policy.is_some_and(is_open);
        if let Ok(configs) = objects.configs.fresh("machineconfigs", now) {
            let names: BTreeSet<&str> = configs.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
            snapshot.observe_configs(|config| names.contains(config));
        }
        snapshot
    }

    /// Takes in which of the rendered configs that people have set as targets of this pool's nodes exist.
    pub fn observe_configs(&mut self, exists: impl Fn(&str) -> bool) {
        let prefix = format!("{}{}-", names::RENDERED_PREFIX, self.pool.name);
        let is_own = |config: &String| config.strip_prefix(&prefix).is_some_and(|hash| !hash.contains('-'));
        let hand_set = self.nodes.index().hand_set.iter().filter_map(|node| self.nodes.get(node));
        let configs = hand_set.filter_map(|facts| facts.desired.clone());
        self.rendered = configs.filter(|config| is_own(config) && exists(config)).collect();
    }

    /// Takes in a node if it is this pool's, or if this pool is one of several that want it.
    fn sort_in(&mut self, pools: &Pools, facts: NodeFacts, reports: &BTreeMap<&str, &MachineConfigNode>) {
        self.nodes.seen_until(facts.resource_version.number);
        let report = reports.get(facts.name.as_str()).map(|report| Report::from_object(report)).unwrap_or_default();
        match pools.of(&facts) {
            Membership::Member { primary, .. } if primary == self.pool.name => {
                self.nodes.observe_report(&facts.name, report);
                self.nodes.observe(facts);
            }
            Membership::Contested(contested) if contested.pools.contains(&self.pool.name) => {
                self.contested.push(Contested { reported: report.contested, ..contested });
            }
            Membership::Member { .. } | Membership::Contested(_) | Membership::Unmanaged => {}
        }
    }

    /// A snapshot of a pool without nodes.
    pub fn new(pool: PoolFacts, settings: Settings, now: Timestamp) -> Self {
        let mut snapshot = Self {
            pool: PoolFacts::default(),
            nodes: PoolNodes::default(),
            ledger: Ledger::default(),
            settings,
            etcd: Reading::default(),
            unread: None,
            peer: None,
            certificates: Vec::new(),
            rendered: BTreeSet::new(),
            contested: Vec::new(),
            is_open: false,
            now,
        };
        snapshot.observe_pool(pool, None);
        snapshot
    }

    /// Takes in the pool as it is now, and its image build where it has one.
    pub fn observe_pool(&mut self, pool: PoolFacts, layering: Option<Layering>) {
        self.nodes.set_rules(Rules {
            goal: Goal { config: pool.target().to_owned(), layering },
            image_mode_status_reporting: self.settings.image_mode_status_reporting,
            topology: self.settings.topology.clone(),
            refusals: self.nodes.rules().refusals.clone(),
        });
        self.pool = pool;
    }

    /// Takes in which hosts cannot take the pool's target: `refusal` says why, from what a node runs and the word of its
    /// daemon about its host.
    pub fn observe_hosts(&mut self, refusal: impl Fn(&str, &str) -> Option<String>) {
        let told = self.nodes.iter().filter_map(|it| Some((it.current.as_deref()?, it.os_updates.as_deref()?)));
        let hosts: BTreeSet<(&str, &str)> = told.collect();
        let refusals = hosts.into_iter().filter_map(|(current, word)| {
            let why = refusal(current, word)?;
            Some(((current.to_owned(), word.to_owned()), why))
        });
        let refusals = refusals.collect();
        self.nodes.set_rules(Rules { refusals, ..self.nodes.rules().clone() });
    }

    /// How many nodes hold a place.
    pub fn places_taken(&self) -> usize {
        self.ledger.open_claims(&self.nodes).len()
    }

    /// Takes in a node of this pool.
    pub fn observe_node(&mut self, facts: impl Into<Arc<NodeFacts>>) {
        self.nodes.observe(facts);
    }

    /// Takes in what a MachineConfigNode says.
    pub fn observe_report(&mut self, node: &str, report: Report) {
        self.nodes.observe_report(node, report);
    }
}

impl PoolFacts {
    /// Reads a pool.
    pub fn from_object(pool: &MachineConfigPool) -> Self {
        Self {
            name: pool.metadata.name.clone().unwrap_or_default(),
            uid: pool.metadata.uid.clone(),
            generation: pool.metadata.generation,
            deleting: pool.metadata.deletion_timestamp.is_some(),
            paused: pool.spec.paused.unwrap_or(false),
            pause: Pause::of(pool).and_then(|pause| pause.noted()),
            max_unavailable: pool.spec.max_unavailable.clone(),
            configuration: pool.spec.configuration.clone(),
            configured_at: last_writer(&pool.metadata, CONFIGURATION).and_then(|writer| writer.at),
            approved: pool.metadata.annotations.as_ref().and_then(|all| all.get(annotations::APPROVE)).cloned(),
            selector: match NodeSelector::from_pool(pool) {
                NodeSelector::Labels(_) => SelectorFacts::Fine,
                NodeSelector::Missing => SelectorFacts::Missing,
                NodeSelector::Everything => SelectorFacts::Everything,
                NodeSelector::Broken(error) => SelectorFacts::Broken(error.to_string()),
            },
            status: pool.status.clone().unwrap_or_default(),
        }
    }

    /// The rendered config that the pool wants; empty while there is none.
    pub fn target(&self) -> &str {
        self.configuration.as_ref().and_then(|configuration| configuration.name.as_deref()).unwrap_or_default()
    }
}

/// How long the pool's target must stay the same, if its policy says so. The schema admits only durations such as `5s` and
/// `1m30s`; what slips through counts as absent.
pub fn settle(policy: &PoolPolicy) -> Option<SignedDuration> {
    policy.spec.settle.as_deref()?.parse().ok()
}

/// Whether the config server gives the pool's config to anyone.
pub fn is_open(policy: &PoolPolicy) -> bool {
    policy.spec.config_server.as_ref().and_then(|server| server.open).unwrap_or(false)
}

/// The node that runs the leader of the controllers: the one of the pod that the Lease names.
pub fn leader_node(lease: &Lease, pods: &[Pod]) -> Option<String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    let pod = pods.iter().find(|pod| pod.metadata.name.as_deref() == Some(holder))?;
    pod.spec.as_ref()?.node_name.clone()
}

/// When the certificates that nodes trust for the API server expire.
pub fn certificates(config: &ControllerConfig) -> Vec<CertExpiry> {
    let all = config.status.iter().flat_map(|status| &status.controller_certificates);
    let serving = all.filter(|certificate| certificate.bundle_file == "KubeAPIServerServingCAData");
    let expiry = serving.map(|certificate| CertExpiry {
        bundle: certificate.bundle_file.clone(),
        subject: certificate.subject.clone(),
        expiry: certificate.not_after.clone(),
    });
    expiry.collect()
}

/// The other pool of the control plane, seen through its own nodes.
fn find_peer(snapshot: &Snapshot, pools: &Pools, objects: &Objects<'_>) -> Option<Peer> {
    let name = match snapshot.pool.name.as_str() {
        names::POOL_MASTER => names::POOL_ARBITER,
        names::POOL_ARBITER => names::POOL_MASTER,
        _ => return None,
    };
    let pool = objects.pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(name))?;
    let mut peer = Snapshot::new(PoolFacts::from_object(pool), snapshot.settings.clone(), snapshot.now);
    for node in objects.nodes {
        peer.sort_in(pools, NodeFacts::from_object(node), &BTreeMap::new());
    }
    Some(Peer::of(name, peer.pool.paused, &peer.nodes))
}
