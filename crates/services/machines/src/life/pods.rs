//! The pods of nodes that are being drained: watched while that lasts, and what the API said to their evictions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::known::{Reading, Unread};
use cluster::watch::{Key, State};
use cluster::{Problem, Queue, Store, Watch, problem, write};
use drain::eviction::Cause;
use drain::{DisruptionBudget, Options, PodFacts, Refusal, Work};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, Preconditions};
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// The drains of this process, by Machine.
pub(super) struct Drains {
    active: Mutex<HashMap<Key, Active>>,
    queue: Queue<Key>,
}

/// One node that is being emptied.
struct Active {
    node: String,
    pods: Store<PodFacts>,
    /// Answers to evictions by pod uid. Losing them costs a question, nothing more.
    refusals: BTreeMap<String, Refusal>,
    _watching: JoinSet<()>,
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
        let drain = active.entry(machine.clone()).or_insert_with(|| Active::start(client, machine, node, &self.queue));
        if drain.pods.state() == State::Starting {
            return None;
        }
        let now = Timestamp::now();
        let pods = drain.pods.reading().map(|pods| pods.iter().map(|pod| (**pod).clone()).collect::<Vec<_>>());
        if let Reading::Known { value, .. } = &pods {
            drain.refusals.retain(|uid, _| value.iter().any(|pod| pod.uid == *uid));
        }
        let work = || {
            let pods = pods.fresh("pods", now)?;
            let daemon_sets = daemon_sets.fresh("daemonsets", now)?;
            let pods = pods.map(Vec::as_slice);
            Ok(drain::work(pods, budgets, &drain.refusals, daemon_sets, options, now))
        };
        Some(work())
    }

    /// Asks for the evictions and remembers the answers.
    pub(super) async fn evict(&self, client: &Client, machine: &Key, pods: Vec<PodFacts>) {
        let answers = futures::stream::iter(pods).map(async |pod| {
            let refusal = ask(client, &pod).await;
            (pod, refusal)
        });
        let mut answers = answers.buffer_unordered(drain::eviction::AT_ONCE).boxed();
        while let Some((pod, refusal)) = answers.next().await {
            let mut active = self.active.lock();
            let Some(drain) = active.get_mut(machine) else { continue };
            match refusal {
                Some(cause) => drain.refusals.insert(pod.uid, Refusal { at: Timestamp::now(), cause }),
                None => drain.refusals.remove(&pod.uid),
            };
        }
    }

    /// Looks at every drain again.
    pub(super) fn wake(&self) {
        self.active.lock().keys().for_each(|key| self.queue.add(key.clone()));
    }

    pub(super) fn finish(&self, machine: &Key) {
        self.active.lock().remove(machine);
    }
}

impl Active {
    fn start(client: &Client, machine: &Key, node: &str, queue: &Queue<Key>) -> Self {
        let mut watch: Watch<PodFacts> = Watch::default();
        let mut changes = watch.subscribe();
        let pods = watch.store();
        let mut watching = JoinSet::new();
        // A list from a cache could miss a pod that was bound a moment ago.
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let api: Api<Pod> = Api::all(client.clone());
        watching.spawn(watch.run(api, config, |pod: Pod| PodFacts::from_object(&pod)));
        let (store, key, queue) = (pods.clone(), machine.clone(), queue.clone());
        watching.spawn(async move {
            store.settled().await;
            queue.add(key.clone());
            while changes.recv().await.is_some() {
                queue.add(key.clone());
            }
        });
        Self { node: node.to_owned(), pods, refusals: BTreeMap::new(), _watching: watching }
    }
}

/// Asks for one eviction. Nothing means that the pod is on its way out.
async fn ask(client: &Client, pod: &PodFacts) -> Option<Cause> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let delete_options = Some(DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() });
    let parameters = EvictParams { delete_options, ..EvictParams::default() };
    match write::in_time(api.evict(&pod.name, &parameters)).await {
        Ok(_) => None,
        // A pod of the same name with another uid is not the one that was seen.
        Err(error) if problem(&error) == Problem::Conflict => None,
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let causes: Vec<String> = causes.map(|cause| cause.message.clone()).collect();
            Cause::of_answer(status.code, &status.message, &causes)
        }
        Err(error) => Some(Cause::Failed { message: error.to_string() }),
    }
}
