//! The pods of nodes that are being drained: watched while that lasts, and what the API said to their evictions.

use std::collections::{BTreeSet, HashMap};

use api::known::{Reading, Unread};
use cluster::Queue;
use cluster::pods::NodePods;
use cluster::watch::Key;
use drain::{DisruptionBudget, Options, PodFacts, Work};
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;

/// The drains of this process, by Machine.
pub(super) struct Drains {
    active: Mutex<HashMap<Key, Active>>,
    queue: Queue<Key>,
}

/// One node that is being emptied.
struct Active {
    node: String,
    pods: NodePods,
}

impl Drains {
    pub(super) fn new(queue: Queue<Key>) -> Self {
        Self { active: Mutex::default(), queue }
    }

    /// What there is to do on a node now. `None` while its pods are being listed for the first time; the Machine is queued
    /// when they are there, and whenever they change.
    pub(super) fn work(
        &self,
        client: &Client,
        machine: &Key,
        node: &str,
        budgets: &[DisruptionBudget],
        daemon_sets: &Reading<BTreeSet<String>>,
        options: &Options,
    ) -> Option<Result<Work, Unread>> {
        let mut active = self.active.lock();
        if active.get(machine).is_some_and(|drain| drain.node != node) {
            active.remove(machine);
        }
        let drain = active.entry(machine.clone()).or_insert_with(|| Active {
            node: node.to_owned(),
            pods: NodePods::watch(client, node, machine.clone(), &self.queue),
        });
        let pods = drain.pods.reading()?;
        let now = Timestamp::now();
        let work = || {
            let pods = pods.fresh("pods", now)?;
            let daemon_sets = daemon_sets.fresh("daemonsets", now)?;
            let pods = pods.map(Vec::as_slice);
            Ok(drain::work(pods, budgets, drain.pods.refusals(), daemon_sets, options, now))
        };
        Some(work())
    }

    /// Asks for the evictions and remembers the answers.
    pub(super) async fn evict(&self, client: &Client, machine: &Key, pods: Vec<PodFacts>) {
        let answered = |pod, refusal| {
            if let Some(drain) = self.active.lock().get_mut(machine) {
                drain.pods.answered(pod, refusal);
            }
        };
        cluster::pods::evict(client, pods, answered).await;
    }

    /// Looks at every drain again.
    pub(super) fn wake(&self) {
        self.active.lock().keys().for_each(|key| self.queue.add(key.clone()));
    }

    pub(super) fn finish(&self, machine: &Key) {
        self.active.lock().remove(machine);
    }
}
