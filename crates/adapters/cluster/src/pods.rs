//! Watches the pods of a node that is being drained, evicts them on request, and keeps the API's responses.
//!
//! The crate `drain` decides which pods have to go and when an eviction is retried.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

use api::known::Reading;
use drain::eviction::{AT_ONCE, Cause};
use drain::{PodFacts, Refusal};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, Preconditions};
use kube::runtime::watcher;
use tokio::task::JoinSet;

use crate::watch::{State, Store, Watch};
use crate::{Problem, Queue, problem, write};

/// The pods of one node.
pub struct NodePods {
    store: Store<PodFacts>,
    /// Refused evictions by pod uid. Losing them only costs another request.
    refusals: BTreeMap<String, Refusal>,
    _watching: JoinSet<()>,
}

impl NodePods {
    /// Watches the pods of `node`. The first list and every change put `key` into the queue.
    pub fn watch<K>(client: &Client, node: &str, key: K, queue: &Queue<K>) -> Self
    where
        K: Clone + Debug + Ord + Hash + Send + 'static,
    {
        let mut watch: Watch<PodFacts> = Watch::default();
        let mut changes = watch.subscribe();
        let store = watch.store();
        let mut watching = JoinSet::new();
        // A list from the API server's cache could miss a pod that was bound a moment ago.
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let api: Api<Pod> = Api::all(client.clone());
        watching.spawn(watch.run(api, config, |pod: Pod| PodFacts::from_object(&pod)));
        let (listed, queue) = (store.clone(), queue.clone());
        watching.spawn(async move {
            listed.settled().await;
            queue.add(key.clone());
            while changes.recv().await.is_some() {
                queue.add(key.clone());
            }
        });
        Self { store, refusals: BTreeMap::new(), _watching: watching }
    }

    /// Returns the state of the pods once the API has responded for the first time. Refusals of pods that are gone are
    /// dropped.
    pub fn reading(&mut self) -> Option<Reading<Vec<PodFacts>>> {
        if self.store.state() == State::Starting {
            return None;
        }
        let pods = self.store.reading().map(|pods| pods.iter().map(|pod| (**pod).clone()).collect::<Vec<_>>());
        if let Reading::Known { value, .. } = &pods {
            self.refusals.retain(|uid, _| value.iter().any(|pod| pod.uid == *uid));
        }
        Some(pods)
    }

    /// Returns the latest refusals of evictions by pod uid.
    pub fn refusals(&self) -> &BTreeMap<String, Refusal> {
        &self.refusals
    }

    /// Records a response to [`evict`].
    pub fn answered(&mut self, pod: PodFacts, refusal: Option<Cause>) {
        match refusal {
            Some(cause) => self.refusals.insert(pod.uid, Refusal { at: Timestamp::now(), cause }),
            None => self.refusals.remove(&pod.uid),
        };
    }
}

/// Evicts pods with bounded concurrency and passes every response to `answered`. No cause means that the eviction was
/// accepted.
pub async fn evict(client: &Client, pods: Vec<PodFacts>, mut answered: impl FnMut(PodFacts, Option<Cause>)) {
    let answers = futures::stream::iter(pods).map(async |pod| {
        let refusal = ask(client, &pod).await;
        (pod, refusal)
    });
    let mut answers = answers.buffer_unordered(AT_ONCE).boxed();
    while let Some((pod, refusal)) = answers.next().await {
        answered(pod, refusal);
    }
}

async fn ask(client: &Client, pod: &PodFacts) -> Option<Cause> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let delete_options = Some(DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() });
    let parameters = EvictParams { delete_options, ..EvictParams::default() };
    // The client's own retries are off: a refusal has to be shown to people.
    match write::in_time(api.evict(&pod.name, &parameters)).await {
        Ok(_) => None,
        // The pod was replaced by one of the same name with another uid.
        Err(error) if problem(&error) == Problem::Conflict => None,
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let causes: Vec<String> = causes.map(|cause| cause.message.clone()).collect();
            Cause::of_answer(status.code, &status.message, &causes)
        }
        Err(error) => Some(Cause::Failed { message: error.to_string() }),
    }
}
