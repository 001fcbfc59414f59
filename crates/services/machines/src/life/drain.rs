//! Empties the node of a Machine that is being deleted.
//!
//! Whether and in which order nodes are drained is decided by `machine::draining`, and which pods go by `drain`, the same
//! code that drains for a config change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::annotations;
use api::known::Reading;
use cluster::watch::Key;
use cluster::{Outcome, Problem, problem, write};
use drain::{Options, Ours, Work};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use machine::draining::{self, Action, Emptying, Next, Snapshot, Waiting};
use serde_json::json;

use super::{Error, MANAGER, Machines, Pass, Step};
use crate::context::{positive, severity};
use crate::index::node_name;
use crate::world::NodeRecord;

/// A kubelet that is silent does not confirm that its pods are gone. Upstream waits for so long.
const SILENT: SignedDuration = SignedDuration::from_secs(1);

/// The answers to evictions are looked at so often before others get their turn.
const ROUNDS: usize = 8;

/// The label `k8s-app` of the machine controllers and of their operator.
const OURS: [&str; 2] = ["controller", "machine-api-operator"];

/// How far a node is, and when to look again.
struct Progress {
    emptying: Emptying,
    retry_at: Option<Timestamp>,
}

impl Machines {
    /// Goes on with the drain. [`Step::On`] means that the node is drained, or need not be.
    pub(super) async fn drain(&self, pass: &mut Pass) -> Result<Step, Error> {
        let mut progress: Option<Progress> = None;
        for _ in 0..ROUNDS {
            let nodes = self.nodes(pass);
            let mut snapshot = self.drain_snapshot(pass, nodes.as_deref());
            snapshot.emptying = progress.as_ref().map(|progress| progress.emptying.clone());
            let plan = draining::plan(&snapshot);
            tracing::debug!(key = ?pass.key, actions = ?plan.actions, next = ?plan.next, "planned the drain");
            for action in &plan.actions {
                match action {
                    Action::Cordon { node } => {
                        tracing::info!(machine = pass.key.name, node, "draining the node");
                        pass.cordoned = self.cordon(node, nodes.as_deref()).await?;
                    }
                    Action::Event { warning, reason, message } => {
                        self.context.tell(&pass.machine, severity(*warning), reason, message);
                    }
                }
            }
            self.write_status(pass, &plan.status).await?;
            match plan.next {
                Next::Empty { node, unreachable } => match self.empty(pass, &node, unreachable).await {
                    Some(now) => progress = Some(now),
                    None => return Ok(Step::End(Outcome::Done)),
                },
                Next::OnChange(Waiting::Drained) => {
                    tracing::info!(machine = pass.key.name, node = node_name(&pass.machine), "the node is drained");
                    self.drains.finish(&pass.key);
                    return Ok(Step::On);
                }
                Next::OnChange(
                    Waiting::Nothing
                    | Waiting::PreDrainHook(_)
                    | Waiting::Turn { .. }
                    | Waiting::Nodes
                    | Waiting::Pods(_),
                ) => return Ok(Step::End(Outcome::Done)),
                Next::After(delay, waiting) => {
                    // An eviction that a budget refused may be allowed sooner than the drain is looked at again.
                    let retry_at =
                        progress.and_then(|progress| progress.retry_at).filter(|_| matches!(waiting, Waiting::Pods(_)));
                    let left = retry_at.map(|at| positive(at.duration_since(Timestamp::now())));
                    let delay = left.map_or(positive(delay), |left| left.min(positive(delay)));
                    return Ok(Step::End(Outcome::Again(delay)));
                }
            }
        }
        Ok(Step::End(Outcome::Again(Duration::ZERO)))
    }

    /// The Machine's node and those of the control plane, unless nodes cannot be believed now.
    fn nodes(&self, pass: &Pass) -> Option<Vec<Arc<NodeRecord>>> {
        let world = &self.context.world;
        world.nodes_known().ok()?;
        let mut names: BTreeSet<String> = self.context.index.lock().control_plane().into_iter().collect();
        names.extend(node_name(&pass.machine).map(str::to_owned));
        Some(names.iter().filter_map(|name| world.node(name)).collect())
    }

    fn drain_snapshot(&self, pass: &Pass, nodes: Option<&[Arc<NodeRecord>]>) -> Snapshot {
        let nodes: Option<Vec<_>> = nodes.map(|nodes| nodes.iter().map(|node| pass.known(node)).collect());
        let nodes: Option<Vec<&Node>> = nodes.as_ref().map(|nodes| nodes.iter().map(|node| &**node).collect());
        let rivals = self.rivals(&pass.machine).into_iter().map(|rival| rival.name).collect();
        let leaving = |node: &Node| {
            let name = node.metadata.annotations.as_ref()?.get(annotations::MACHINE)?;
            let (namespace, name) = name.split_once('/')?;
            let machine = self.context.world.machines.get(&Key::in_namespace(namespace, name))?;
            machine.metadata.deletion_timestamp.as_ref().map(|time| time.0)
        };
        Snapshot::from_objects(&pass.machine, nodes.as_deref(), leaving, rivals, Timestamp::now())
    }

    /// Evicts what may be evicted now, and says how far the node is. `None` while its pods are being listed.
    async fn empty(&self, pass: &Pass, node: &str, unreachable: bool) -> Option<Progress> {
        let client = &self.context.world.client;
        let skip_terminating_after = unreachable.then_some(SILENT);
        let options = Options { skip_terminating_after, ours: Some(self.ours(node)) };
        let mut asked = false;
        loop {
            let budgets: Vec<_> = self.context.world.budgets.all().iter().map(|budget| (**budget).clone()).collect();
            let daemon_sets = self.daemon_sets();
            let work = self.drains.work(client, &pass.key, node, &budgets, &daemon_sets, &options)?;
            let work = match work {
                Ok(work) => work,
                Err(unread) => {
                    let emptying = Emptying { left: 1, blocked: vec![unread.to_string()] };
                    return Some(Progress { emptying, retry_at: None });
                }
            };
            if asked || work.evict.is_empty() {
                return Some(Progress { emptying: emptying(&work), retry_at: work.retry_at });
            }
            self.drains.evict(client, &pass.key, work.evict).await;
            asked = true;
        }
    }

    /// The pods that go on with the drain. They leave last, and only if another node takes them.
    fn ours(&self, node: &str) -> Ours {
        let nodes = &self.context.world.nodes;
        let may_leave = nodes.contact().map(|()| {
            let others = nodes.all().into_iter().filter(|other| other.metadata.name.as_deref() != Some(node));
            others.into_iter().any(|other| draining::takes_controllers(&other))
        });
        let namespace = self.context.settings.namespace.clone();
        Ours { namespace, apps: OURS.map(str::to_owned).to_vec(), may_leave }
    }

    fn daemon_sets(&self) -> Reading<BTreeSet<String>> {
        let store = &self.context.world.daemon_sets;
        store
            .contact()
            .map(|()| store.keys().into_iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect())
    }

    /// Makes a node unschedulable and gives its uid.
    async fn cordon(&self, name: &str, nodes: Option<&[Arc<NodeRecord>]>) -> Result<Option<String>, Error> {
        let node = nodes.into_iter().flatten().find(|node| node.metadata.name.as_deref() == Some(name));
        let uid = node.and_then(|node| node.metadata.uid.as_deref());
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        let patch = json!({ "metadata": { "uid": uid }, "spec": { "unschedulable": true } });
        match write::merge(&api, MANAGER, name, &patch).await {
            Ok(node) => Ok(node.metadata.uid),
            // The node is gone, or another one has its name; the next look sees it.
            Err(error) if matches!(problem(&error), Problem::NotFound | Problem::Conflict) => Ok(None),
            Err(source) => Err(Error::Node { node: name.to_owned(), source }),
        }
    }
}

fn emptying(work: &Work) -> Emptying {
    let blocked: BTreeSet<&str> = work.blocked.iter().map(|blocked| blocked.pod.as_str()).collect();
    let evicting = work.evict.iter().filter(|pod| !blocked.contains(pod.full_name().as_str())).count();
    Emptying {
        left: evicting + work.queued + work.deferred + work.terminating.len() + blocked.len(),
        blocked: (!work.blocked.is_empty()).then(|| drain::eviction::list(&work.blocked)).into_iter().collect(),
    }
}
