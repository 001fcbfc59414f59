//! Everything an explanation is made from, read from objects once.
//!
//! What other decisions say about the same objects (which pool a node belongs to, what a pool waits for, which pods a
//! drain cannot move) is handed in, so that people read what the controllers will really do.

mod installation;
mod machines;

use std::collections::{BTreeMap, BTreeSet};

use api::config::{ClusterImagePolicy, ClusterOperator, ImagePolicy};
use api::known::Reading;
use api::machine::{Machine, MachineHealthCheck, MachineSet};
use api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
    MachineConfigPoolStatus,
};
use api::machinist::{PoolLedger, PoolPolicy, RenderedProvenance};
use api::managed::{self, last_writer};
use api::names::{node_condition, state};
use api::pause::Pause;
use api::selector::Selector;
use api::{annotations, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use serde::Serialize;

use crate::Unread;

pub use installation::{DaemonFacts, DaemonPod, OperatorFacts, Refused, RequestFacts};
pub use machines::{HealthCheckFacts, MachineFacts, MachineSetFacts, Symptom, Trouble};

/// The input of every explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub pools: BTreeMap<String, PoolFacts>,
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Names of the MachineConfigs that exist.
    pub configs: Reading<BTreeSet<String>>,
    /// Names of the rendered configs that can be made again from their archive.
    pub archived: BTreeSet<String>,
    pub workloads: Vec<Workload>,
    pub generators: Vec<Generator>,
    pub certificates: Vec<Certificate>,
    /// ClusterOperators of ours that are not well.
    pub operators: Vec<OperatorFacts>,
    /// The DaemonSet of the node daemon, where it runs as one.
    pub daemons: Vec<DaemonFacts>,
    /// Kubelets that wait for a certificate.
    pub requests: Vec<RequestFacts>,
    /// Mirrors and policies that are not in force.
    pub refused: Vec<Refused>,
    /// By name; those of other namespaces than the machine API's own by `namespace/name`.
    pub machines: BTreeMap<String, MachineFacts>,
    /// By name, like machines.
    pub machine_sets: BTreeMap<String, MachineSetFacts>,
    pub health_checks: Vec<HealthCheckFacts>,
    /// Whose absence says nothing.
    pub unread: Unread,
    pub now: Timestamp,
}

/// What the pool's object and its ledger say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolFacts {
    pub name: String,
    pub paused: bool,
    /// The rendered config the pool wants; empty while there is none.
    pub target: String,
    /// Since when it wants it.
    pub target_since: Option<Timestamp>,
    /// The last config that every node had.
    pub last_good: Option<String>,
    pub status: MachineConfigPoolStatus,
    pub standstill: Option<Standstill>,
    pub claims: Vec<Claim>,
    /// Nodes whose turn comes next, or has come since the ledger was written.
    pub in_line: BTreeSet<String>,
    pub held: Vec<Held>,
    /// Who paused it, why and until when; absent while it is not paused.
    pub pause: Option<Pause>,
    /// There is a MachineConfig that the pool selects.
    pub has_fragments: bool,
    /// Which MachineConfigs the pool selects, as `kubectl get -l` takes it.
    pub selects: Option<String>,
    /// MachineConfigs of users that the last config that worked was made without.
    pub came_since: Vec<String>,
}

/// Why a pool's rollout takes no further node now. The words of the rollout's own plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standstill {
    Settled,
    Misconfigured(String),
    NoConfiguration,
    Paused,
    TrialReverted {
        config: String,
        node: String,
    },
    /// The target has to stay the same for this long from now on.
    Settling {
        left: SignedDuration,
    },
    Budget {
        limit: usize,
        used: usize,
    },
    Nodes {
        in_progress: usize,
    },
    Held {
        nodes: usize,
    },
    /// Any other reason, as a sentence.
    Other(String),
    /// The ledger or the nodes were not read, for this reason.
    Unknown(String),
}

/// A node's share of the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub node: String,
    pub config: String,
    pub since: Option<Timestamp>,
}

/// A config that no further node gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub config: String,
    pub node: String,
    pub reason: Option<String>,
}

/// Where a node belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Member {
    #[default]
    Unmanaged,
    Pool(String),
    /// It was born into this pool and does not have that pool's labels yet.
    Born(String),
    /// Several custom pools want it, so it follows none.
    Contested(Vec<String>),
}

/// What a Node, its MachineConfigNode and its drain say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    pub name: String,
    pub member: Member,
    pub is_windows: bool,
    pub current: Option<String>,
    pub desired: Option<String>,
    /// The image that it shall get and does not run, as the rollout judges it.
    pub image: Option<String>,
    /// It runs what it was asked to run, and its daemon rests: the rollout's own verdict.
    pub done: bool,
    /// The daemon's own word; empty before it first spoke.
    pub state: String,
    pub reason: Option<String>,
    /// When it got its target.
    pub targeted: Option<Timestamp>,
    /// When the daemon last reported anything.
    pub reported: Option<Timestamp>,
    /// The message of the step that it is at.
    pub step: Option<String>,
    /// The type of that step's condition.
    pub step_type: Option<String>,
    /// The zone that the node's label names.
    pub zone: Option<String>,
    pub ready: bool,
    pub ready_since: Option<Timestamp>,
    pub rebooting: bool,
    pub unschedulable: bool,
    pub cordoned_by: Option<String>,
    pub hold: Option<String>,
    pub reverted: Option<String>,
    pub drain_started: Option<Timestamp>,
    pub is_draining: bool,
    /// The daemon asks for pods to return.
    pub is_uncordoning: bool,
    /// The controller asked the daemon whether it is there, and got no answer yet.
    pub is_silent: bool,
    /// Why its host cannot take what its pool wants.
    pub unfit: Option<String>,
    /// What keeps the drain from finishing.
    pub blockers: Vec<Blocker>,
    /// The daemon's pod on this node, where it runs as one.
    pub daemon_pod: Option<String>,
}

/// A pod that a drain cannot move, and the budgets that protect it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    pub namespace: String,
    pub pod: String,
    pub owner: Option<String>,
    /// How many pods the owner runs, where that is known.
    pub replicas: Option<i32>,
    /// Names of the budgets, in the pod's namespace.
    pub budgets: Vec<String>,
    /// The budget lets no pod go however many there are.
    pub never: bool,
}

/// A Deployment of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub namespace: String,
    pub name: String,
    pub replicas: i32,
    pub available: i32,
    /// Why a pod of it is on no node, in the scheduler's words.
    pub unscheduled: Option<String>,
}

/// A KubeletConfig or ContainerRuntimeConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    /// The kind in small letters, as kubectl takes it.
    pub kind: &'static str,
    pub name: String,
    pub deleting_since: Option<Timestamp>,
    /// Finalizers whose MachineConfig is known not to be there any more, or never was.
    pub dangling: Vec<String>,
    /// Its last condition, when that says that it failed.
    pub failure: Option<String>,
}

/// A certificate that nodes depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub bundle: String,
    pub subject: String,
    pub not_after: Timestamp,
}

/// The objects that a snapshot is read from. A list that could not be read is empty, and `unread` says so.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub pools: Vec<MachineConfigPool>,
    pub nodes: Vec<Node>,
    pub machine_config_nodes: Vec<MachineConfigNode>,
    pub ledgers: Vec<PoolLedger>,
    pub pool_policies: Vec<PoolPolicy>,
    /// The node that runs the leader of the controllers, which goes last; absent where nobody knows.
    pub leader_node: Option<String>,
    pub configs: Reading<Vec<MachineConfig>>,
    /// Pods among which members of etcd are looked for.
    pub etcd: Reading<Vec<Pod>>,
    pub provenances: Vec<RenderedProvenance>,
    /// Pods of our own namespace.
    pub pods: Vec<Pod>,
    pub deployments: Vec<Deployment>,
    pub kubelet_configs: Vec<KubeletConfig>,
    pub container_runtime_configs: Vec<ContainerRuntimeConfig>,
    pub controller_configs: Vec<ControllerConfig>,
    /// Certificates that were read elsewhere: those that the ControllerConfig's status does not tell of.
    pub certificates: Vec<Certificate>,
    pub cluster_operators: Vec<ClusterOperator>,
    /// DaemonSets of our own namespace.
    pub daemon_sets: Vec<DaemonSet>,
    pub requests: Vec<CertificateSigningRequest>,
    pub cluster_image_policies: Vec<ClusterImagePolicy>,
    pub image_policies: Vec<ImagePolicy>,
    pub machines: Vec<Machine>,
    pub machine_sets: Vec<MachineSet>,
    pub health_checks: Vec<MachineHealthCheck>,
    /// Which of the lists are empty, or shorter, only because they could not be read.
    pub unread: Unread,
    /// Decided elsewhere: by pool, why hosts cannot take what it wants.
    pub refusals: BTreeMap<String, rollout::pool_nodes::Refusals>,
    /// Decided elsewhere: nodes whose hosts cannot take what their pool wants, and why.
    pub unfit: BTreeMap<String, String>,
    /// Decided elsewhere: where each node belongs.
    pub members: BTreeMap<String, Member>,
    /// Decided elsewhere: what each pool waits for.
    pub standstills: BTreeMap<String, Standstill>,
    /// Decided elsewhere: what each drain waits for, by node.
    pub blockers: BTreeMap<String, Vec<Blocker>>,
}

impl Snapshot {
    /// Reads objects. What cannot be read counts as unsaid.
    pub fn from_objects(objects: &Objects, now: Timestamp) -> Self {
        let archived = objects.provenances.iter().filter(|provenance| provenance.spec.archive.is_some());
        let names = |configs: &Vec<MachineConfig>| configs.iter().map(ResourceExt::name_any).collect::<BTreeSet<_>>();
        let configs = objects.configs.as_ref().map(names);
        let daemons = daemon_pods(&objects.pods);
        let reports: BTreeMap<String, &MachineConfigNode> =
            objects.machine_config_nodes.iter().map(|report| (report.name_any(), report)).collect();
        let ledgers: BTreeMap<String, &PoolLedger> =
            objects.ledgers.iter().map(|ledger| (ledger.name_any(), ledger)).collect();
        let pool = |pool: &MachineConfigPool| {
            let mut facts = PoolFacts::from_objects(pool, ledgers.get(&pool.name_any()).copied());
            facts.standstill = objects.standstills.get(&facts.name).cloned();
            let fragments = fragments(pool, &objects.configs);
            facts.has_fragments = fragments.as_ref().is_none_or(|names| !names.is_empty());
            facts.came_since = came_since(pool, &facts, fragments.unwrap_or_default());
            (facts.name.clone(), facts)
        };
        let node = |node: &Node| {
            let name = node.name_any();
            let mut facts = NodeFacts::from_objects(node, reports.get(&name).copied());
            facts.member = objects.members.get(&name).cloned().unwrap_or_default();
            facts.unfit = objects.unfit.get(&name).cloned();
            facts.blockers = objects.blockers.get(&name).cloned().unwrap_or_default();
            facts.daemon_pod = daemons.get(&name).cloned();
            (name, facts)
        };
        Self {
            pools: objects.pools.iter().map(pool).collect(),
            nodes: objects.nodes.iter().map(node).collect(),
            archived: archived.map(ResourceExt::name_any).collect(),
            workloads: objects.deployments.iter().map(|one| Workload::from_objects(one, &objects.pods)).collect(),
            generators: generators(objects, &configs, now),
            configs,
            certificates: objects
                .controller_configs
                .iter()
                .flat_map(certificates)
                .chain(objects.certificates.iter().cloned())
                .collect(),
            operators: objects.cluster_operators.iter().filter_map(OperatorFacts::from_object).collect(),
            daemons: daemons_of(objects),
            requests: objects.requests.iter().filter_map(RequestFacts::from_object).collect(),
            refused: refused(objects),
            machines: objects.machines.iter().map(MachineFacts::keyed).collect(),
            machine_sets: objects.machine_sets.iter().map(MachineSetFacts::keyed).collect(),
            health_checks: objects.health_checks.iter().filter_map(HealthCheckFacts::from_object).collect(),
            unread: objects.unread.clone(),
            now,
        }
    }

    /// Whether a MachineConfig is known not to exist.
    pub(crate) fn is_gone(&self, config: &str) -> bool {
        is_gone(&self.configs, config, self.now)
    }

    /// The nodes that follow a pool, by name.
    pub fn nodes_of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a NodeFacts> {
        self.nodes.values().filter(move |node| matches!(&node.member, Member::Pool(name) if name == pool))
    }
}

impl Snapshot {
    /// The machines of a set, by the names that the snapshot has them under.
    pub fn machines_of<'a>(&'a self, set: &'a MachineSetFacts) -> impl Iterator<Item = &'a str> {
        let own = self.machines.iter().filter(|(_, machine)| {
            machine.namespace == set.namespace && machine.set.as_deref() == Some(set.name.as_str())
        });
        own.map(|(key, _)| key.as_str())
    }
}

impl PoolFacts {
    fn from_objects(pool: &MachineConfigPool, ledger: Option<&PoolLedger>) -> Self {
        let name_of = |configuration: Option<&api::machineconfiguration::MachineConfigPoolConfiguration>| {
            configuration.and_then(|configuration| configuration.name.clone()).filter(|name| !name.is_empty())
        };
        let status = pool.status.clone().unwrap_or_default();
        let target = name_of(pool.spec.configuration.as_ref()).unwrap_or_default();
        let spec = ledger.map(|ledger| ledger.spec.clone()).unwrap_or_default();
        let claimed_for = spec.target.as_ref().map(|target| target.config.clone()).unwrap_or_default();
        let config_of = |config: String| if config.is_empty() { claimed_for.clone() } else { config };
        let wanted = spec.target.filter(|wanted| wanted.config == target);
        Self {
            name: pool.name_any(),
            paused: pool.spec.paused.unwrap_or(false),
            target_since: wanted.and_then(|wanted| wanted.since).map(|time| time.0),
            last_good: name_of(status.configuration.as_ref()),
            status,
            standstill: None,
            in_line: spec.next.into_iter().map(|claim| claim.node).collect(),
            claims: spec
                .claims
                .into_iter()
                .map(|claim| Claim {
                    node: claim.node,
                    config: config_of(claim.config),
                    since: claim.since.map(|time| time.0),
                })
                .collect(),
            held: spec
                .held
                .into_iter()
                .filter(|held| held.config == target)
                .map(|held| Held { config: held.config, node: held.node, reason: held.reason })
                .collect(),
            pause: Pause::of(pool),
            has_fragments: true,
            selects: pool.spec.machine_config_selector.as_ref().and_then(selection),
            came_since: Vec::new(),
            target,
        }
    }
}

impl NodeFacts {
    fn from_objects(node: &Node, report: Option<&MachineConfigNode>) -> Self {
        let metadata = &node.metadata;
        let said = |key: &str| metadata.annotations.as_ref()?.get(key).filter(|value| !value.is_empty()).cloned();
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.clone().find(|condition| condition.type_ == "Ready");
        let steps = report.and_then(|report| report.status.as_ref()).map(|status| status.conditions.as_slice());
        let steps = steps.unwrap_or_default();
        let desired_drain = said(annotations::DESIRED_DRAIN);
        let planned = rollout::NodeFacts::from_object(node);
        // The step that a daemon is at is the one that is neither done nor still to come.
        let step = steps.iter().find(|step| step.status == "Unknown" && step.type_ != node_condition::UPDATED);
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            is_windows: metadata.labels.as_ref().and_then(|all| all.get(labels::OS)).is_some_and(|os| os == "windows"),
            current: said(annotations::CURRENT_CONFIG),
            desired: said(annotations::DESIRED_CONFIG),
            image: planned.desired_image.clone().filter(|_| !planned.is_image_done()),
            done: planned.is_done(),
            state: said(annotations::STATE).unwrap_or_default(),
            reason: said(annotations::REASON),
            targeted: last_writer(metadata, managed::DESIRED_CONFIG).and_then(|writer| writer.at),
            reported: steps.iter().map(|step| step.last_transition_time.0).max(),
            step: step.map(|step| step.message.clone()).filter(|message| !message.is_empty()),
            step_type: step.map(|step| step.type_.clone()),
            zone: metadata.labels.as_ref().and_then(|all| all.get(labels::ZONE)).cloned(),
            // Before the first heartbeat nothing is known, which is not the same as being down.
            ready: ready.is_none_or(|ready| ready.status == "True"),
            ready_since: ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0),
            rebooting: said(annotations::POST_CONFIG_ACTION).as_deref() == Some(state::REBOOTING),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            cordoned_by: said(annotations::CORDONED_BY),
            hold: metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(annotations::HOLD))
                .filter(|hold| *hold != "false")
                .cloned(),
            reverted: said(annotations::REVERTED),
            drain_started: said(annotations::DRAIN_STARTED).and_then(|time| time.parse().ok()),
            is_uncordoning: desired_drain.as_deref().is_some_and(|drain| drain.starts_with("uncordon-"))
                && desired_drain != said(annotations::LAST_APPLIED_DRAIN),
            is_silent: said(annotations::PROBE).is_some() && said(annotations::PROBE) != said(annotations::ANSWERED),
            is_draining: planned.is_draining(),
            ..Self::default()
        }
    }

    pub fn is_degraded(&self) -> bool {
        self.state == state::DEGRADED || self.state == state::UNRECONCILABLE
    }
}

impl Workload {
    fn from_objects(deployment: &Deployment, pods: &[Pod]) -> Self {
        let name = deployment.name_any();
        let own = pods.iter().filter(|pod| pod.labels().get(labels::K8S_APP) == Some(&name));
        let conditions = own.flat_map(|pod| pod.status.iter().flat_map(|status| status.conditions.iter().flatten()));
        let mut unscheduled = conditions.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
        Self {
            unscheduled: unscheduled.find_map(|condition| condition.message.clone()),
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            replicas: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            available: deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0),
        }
    }
}

/// The MachineConfigs for this pool, those of users alone; rendered ones carry no role. Nothing where that is not known.
fn fragments(pool: &MachineConfigPool, configs: &Reading<Vec<MachineConfig>>) -> Option<Vec<MachineConfig>> {
    let Reading::Known { value: configs, .. } = configs else { return None };
    let selector = Selector::parse(pool.spec.machine_config_selector.as_ref()?).ok()?;
    Some(configs.iter().filter(|config| selector.matches(config.labels())).cloned().collect())
}

/// What users have added since the config that worked: the last one that could be rendered, or that every node has reached.
fn came_since(pool: &MachineConfigPool, facts: &PoolFacts, fragments: Vec<MachineConfig>) -> Vec<String> {
    let good = match crate::pool::render_problem(facts) {
        Some(_) => pool.spec.configuration.as_ref(),
        None => pool.status.as_ref().and_then(|status| status.configuration.as_ref()),
    };
    let sources = good.map(|configuration| configuration.source.as_slice()).unwrap_or_default();
    if sources.is_empty() {
        return Vec::new();
    }
    let is_new = |config: &MachineConfig| {
        !sources.iter().any(|source| source.name.as_deref() == config.metadata.name.as_deref())
    };
    // What a controller made comes back when it is deleted.
    let is_made =
        |config: &MachineConfig| config.annotations().contains_key(annotations::GENERATED_BY_CONTROLLER_VERSION);
    fragments.iter().filter(|config| is_new(config) && !is_made(config)).map(ResourceExt::name_any).collect()
}

/// A selector as `kubectl get -l` takes it.
fn selection(selector: &LabelSelector) -> Option<String> {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| Some(format!("{key}={value}")));
    let expressions = selector.match_expressions.iter().flatten().map(|it| {
        let (key, values) = (&it.key, it.values.as_deref().unwrap_or_default().join(","));
        Some(match it.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        })
    });
    let parts: Vec<String> = equal.chain(expressions).collect::<Option<_>>()?;
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The node daemon's DaemonSet, without other DaemonSets of the namespace.
fn daemons_of(objects: &Objects) -> Vec<DaemonFacts> {
    let daemons = objects.daemon_sets.iter().filter(|set| set.name_any() == "machine-config-daemon");
    daemons.map(|set| DaemonFacts::from_objects(set, &objects.pods)).collect()
}

fn refused(objects: &Objects) -> Vec<Refused> {
    let cluster = objects.cluster_image_policies.iter().filter_map(Refused::cluster_policy);
    let policies = objects.image_policies.iter().filter_map(Refused::policy);
    let Reading::Known { value: configs, .. } = &objects.configs else { return cluster.chain(policies).collect() };
    let mut refused: Vec<Refused> = cluster.chain(policies).collect();
    for one in configs.iter().flat_map(Refused::left_out) {
        // Each pool's config has a note of its own.
        if !refused.iter().any(|it| (&it.kind, &it.namespace, &it.name) == (&one.kind, &one.namespace, &one.name)) {
            refused.push(one);
        }
    }
    refused
}

fn daemon_pods(pods: &[Pod]) -> BTreeMap<String, String> {
    let daemons =
        pods.iter().filter(|pod| pod.labels().get("k8s-app").is_some_and(|app| app == "machine-config-daemon"));
    let placed = daemons.filter_map(|pod| Some((pod.spec.as_ref()?.node_name.clone()?, pod.name_any())));
    placed.collect()
}

fn generators(objects: &Objects, configs: &Reading<BTreeSet<String>>, now: Timestamp) -> Vec<Generator> {
    let dangling = |meta: &kube::api::ObjectMeta| -> Vec<String> {
        let finalizers = meta.finalizers.iter().flatten();
        finalizers.filter(|finalizer| is_gone(configs, finalizer, now)).cloned().collect()
    };
    let deleting = |meta: &kube::api::ObjectMeta| meta.deletion_timestamp.as_ref().map(|time| time.0);
    let failure = |last: Option<(&str, &str, &str)>| {
        let (type_, status, message) = last?;
        (type_ == "Failure" && status != "False").then(|| message.to_owned())
    };
    let kubelet = objects.kubelet_configs.iter().map(|config| {
        let conditions = config.status.iter().flat_map(|status| &status.conditions);
        let last = conditions.last().map(|it| (it.type_.as_str(), it.status.as_str(), it.message.as_str()));
        Generator {
            kind: "kubeletconfig",
            name: config.name_any(),
            deleting_since: deleting(&config.metadata),
            dangling: dangling(&config.metadata),
            failure: failure(last),
        }
    });
    let runtime = objects.container_runtime_configs.iter().map(|config| {
        let conditions = config.status.iter().flat_map(|status| &status.conditions);
        let last = conditions.last().map(|it| (it.type_.as_str(), it.status.as_str(), it.message.as_str()));
        Generator {
            kind: "containerruntimeconfig",
            name: config.name_any(),
            deleting_since: deleting(&config.metadata),
            dangling: dangling(&config.metadata),
            failure: failure(last),
        }
    });
    kubelet.chain(runtime).collect()
}

/// Whether a MachineConfig is known not to exist.
fn is_gone(configs: &Reading<BTreeSet<String>>, name: &str, now: Timestamp) -> bool {
    configs.fresh("machineconfigs", now).is_ok_and(|configs| !configs.contains(name))
}

fn certificates(config: &ControllerConfig) -> Vec<Certificate> {
    let all = config.status.iter().flat_map(|status| &status.controller_certificates);
    let read = all.filter_map(|certificate| {
        Some(Certificate {
            bundle: certificate.bundle_file.clone(),
            subject: certificate.subject.clone(),
            not_after: certificate.not_after.as_ref()?.0,
        })
    });
    read.collect()
}
