//! What runs on the instances: kubelets that register and report, pods, and the parts of a cluster that watch them.
//!
//! It keeps the true times at which a node was well or not, whatever the node's own clock says.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::draining::Emptying;

use super::api::{Api, Guard, Kept, time};
use super::cloud::{Cloud, Entry};

/// A kubelet that is silent for so long has a node that is not ready.
const PATIENCE: SignedDuration = SignedDuration::from_secs(40);

/// How long a kubelet takes to register again once its node was deleted.
const REGISTERS_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// A pod needs so long to end.
const PODS_END: SignedDuration = SignedDuration::from_secs(5);

/// What ails a kubelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Illness {
    #[default]
    None,
    /// It says nothing.
    Silent,
    /// It says that it is not ready.
    Complains,
}

/// One booted instance.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) node: String,
    pub(crate) illness: Illness,
    ill_since: Option<Timestamp>,
    /// Offset of its clock.
    pub(crate) clock: SignedDuration,
    /// It registers again when its node is deleted.
    pub(crate) persistent: bool,
    without_node: Option<Timestamp>,
    pub(crate) pods: usize,
    /// A disruption budget protects its pods.
    pub(crate) protected: bool,
    pods_end: Option<Timestamp>,
    has_registered: bool,
}

/// How long a node was truly not ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) from: Timestamp,
    pub(crate) to: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// By the id of the instance.
    pub(crate) all: BTreeMap<String, Host>,
    /// The last time that each node (by uid) was not ready.
    pub(crate) unready: BTreeMap<String, Stretch>,
    /// Nodes are called as their Machines are.
    pub(crate) named_after_machines: bool,
    /// Something removes nodes whose instance is gone.
    pub(crate) collects: bool,
}

impl Hosts {
    /// Lets kubelets and the node controllers do what is due.
    pub(crate) fn live(&mut self, api: &mut Api, cloud: &Cloud) {
        let now = api.now;
        self.all.retain(|id, _| cloud.entries.contains_key(id));
        for entry in cloud.entries.values().filter(|entry| entry.boots.is_some_and(|at| at <= now)) {
            if entry.mark.cluster == super::cloud::CLUSTER && entry.leaving.is_none() && !entry.has_failed(now) {
                self.boot(entry);
            }
        }
        let ids: Vec<String> = self.all.keys().cloned().collect();
        for id in ids {
            self.report(&id, api, cloud);
        }
        self.watch_nodes(api, cloud);
    }

    /// When something happens next by the passing of time alone.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let times = self.all.values().flat_map(|host| {
            let silent = host.ill_since.map(|since| since + PATIENCE);
            [silent, host.pods_end, host.without_node.map(|since| since + REGISTERS_AGAIN)]
        });
        times.flatten().filter(|at| *at > now).min()
    }

    pub(crate) fn of_node(&mut self, node: &str) -> Option<&mut Host> {
        self.all.values_mut().find(|host| host.node == node)
    }

    pub(crate) fn ail(&mut self, id: &str, illness: Illness, now: Timestamp) {
        if let Some(host) = self.all.get_mut(id) {
            host.illness = illness;
            host.ill_since = (illness != Illness::None).then_some(now);
        }
    }

    /// Evicts what may be evicted, and says how far the node is.
    pub(crate) fn empty(&mut self, node: &str, unreachable: bool, now: Timestamp) -> Emptying {
        let Some(host) = self.of_node(node) else { return Emptying::default() };
        if unreachable {
            host.pods = 0;
        }
        if host.pods > 0 && host.protected {
            return Emptying { left: host.pods, blocked: vec!["a budget protects the pods".to_owned()] };
        }
        if host.pods > 0 {
            host.pods_end.get_or_insert(now + PODS_END);
        }
        Emptying { left: host.pods, blocked: Vec::new() }
    }

    fn boot(&mut self, entry: &Entry) {
        let node = match self.named_after_machines {
            true => entry.mark.machine.clone(),
            false => entry.id.rsplit('/').next().unwrap_or_default().to_owned(),
        };
        self.all.entry(entry.id.clone()).or_insert_with(|| Host {
            node,
            illness: Illness::None,
            ill_since: None,
            clock: SignedDuration::ZERO,
            persistent: true,
            without_node: None,
            pods: 2,
            protected: false,
            pods_end: None,
            has_registered: false,
        });
    }

    fn report(&mut self, id: &str, api: &mut Api, cloud: &Cloud) {
        let now = api.now;
        let Some(host) = self.all.get_mut(id) else { return };
        if host.pods_end.is_some_and(|at| at <= now) {
            (host.pods, host.pods_end) = (0, None);
        }
        if host.illness == Illness::Silent {
            return;
        }
        let Some(node) = api.get::<Node>(&host.node) else {
            let since = *host.without_node.get_or_insert(now);
            let is_due = !host.has_registered || (host.persistent && now.duration_since(since) >= REGISTERS_AGAIN);
            if is_due && let Some(entry) = cloud.entries.get(id) {
                host.has_registered = true;
                let _exists = api.create(registered(entry, &host.node, now + host.clock));
            }
            return;
        };
        host.without_node = None;
        let status = if host.illness == Illness::Complains { "False" } else { "True" };
        if ready(node).is_none_or(|ready| ready.status != status) {
            let (name, at) = (host.node.clone(), now + host.clock);
            let _gone = api.edit::<Node>(&name, &Guard::default(), |node| set_ready(node, status, at));
        }
    }

    /// The node controller: silent kubelets, and nodes whose instance is gone.
    fn watch_nodes(&mut self, api: &mut Api, cloud: &Cloud) {
        let now = api.now;
        let nodes: Vec<_> = api.all::<Node>().cloned().collect();
        for node in nodes {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
            let host = self.all.values().find(|host| host.node == node.name());
            let silent = match host {
                Some(host) if host.illness == Illness::Silent => {
                    host.ill_since.is_some_and(|since| now.duration_since(since) >= PATIENCE)
                }
                Some(_) => false,
                None => true,
            };
            if silent && ready(&node).is_none_or(|ready| ready.status != "Unknown") {
                let _gone = api.edit::<Node>(node.name(), &Guard::default(), |node| set_ready(node, "Unknown", now));
            }
            if self.collects && host.is_none() && !cloud.entries.contains_key(&id) {
                let _gone = api.delete::<Node>(node.name(), &node.guard());
            }
        }
        for node in api.all::<Node>() {
            let is_ready = ready(node).is_some_and(|ready| ready.status == "True");
            let stretch = self.unready.get(node.uid()).copied();
            match (is_ready, stretch) {
                (false, None | Some(Stretch { to: Some(_), .. })) => {
                    self.unready.insert(node.uid().to_owned(), Stretch { from: now, to: None });
                }
                (true, Some(Stretch { from, to: None })) => {
                    self.unready.insert(node.uid().to_owned(), Stretch { from, to: Some(now) });
                }
                (false, Some(_)) | (true, _) => {}
            }
        }
    }
}

fn registered(entry: &Entry, name: &str, at: Timestamp) -> Node {
    let is_master = entry.mark.machine.contains("master");
    let role = if is_master { "node-role.kubernetes.io/control-plane" } else { "node-role.kubernetes.io/worker" };
    let mut node = Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(role.to_owned(), String::new())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec { provider_id: Some(entry.id.clone()), ..NodeSpec::default() }),
        status: Some(NodeStatus {
            addresses: Some(vec![NodeAddress { address: name.to_owned(), type_: "Hostname".to_owned() }]),
            ..NodeStatus::default()
        }),
    };
    set_ready(&mut node, "True", at);
    node
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

fn set_ready(node: &mut Node, status: &str, at: Timestamp) {
    let condition = NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(time(at)),
        ..NodeCondition::default()
    };
    node.status.get_or_insert_default().conditions = Some(vec![condition]);
}
