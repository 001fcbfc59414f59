//! The pods of a node that is being emptied: watched while that lasts, evicted on request, and what the API said to it.
//!
//! Which pods have to go and when each is asked again is decided in the crate `drain`.

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
    /// Answers to evictions by pod uid. Losing them costs a question, nothing more.
    refusals: BTreeMap<String, Refusal>,
    _watching: JoinSet<()>,
}

impl NodePods {
    /// Watches the pods of `node`. The first list and each change bring `key` back to the queue.
    pub fn watch<K>(client: &Client, node: &str, key: K, queue: &Queue<K>) -> Self
    where
        K: Clone + Debug + Ord + Hash + Send + 'static,
    {
        let mut watch: Watch<PodFacts> = Watch::default();
        let mut changes = watch.subscribe();
        let store = watch.store();
        let mut watching = JoinSet::new();
        // A list from a cache could miss a pod that was bound a moment ago.
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

    /// What is known of the pods, once the API has given a first answer. Answers about pods that are gone are forgotten.
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

    /// What the API last said to evictions, by pod uid.
    pub fn refusals(&self) -> &BTreeMap<String, Refusal> {
        &self.refusals
    }

    /// Notes an answer of [`evict`].
    pub fn answered(&mut self, pod: PodFacts, refusal: Option<Cause>) {
        match refusal {
            Some(cause) => self.refusals.insert(pod.uid, Refusal { at: Timestamp::now(), cause }),
            None => self.refusals.remove(&pod.uid),
        };
    }
}

/// Asks for evictions, some at a time, and hands each answer on. No cause means that the pod is on its way out.
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
    // The client would wait and retry a refusal by itself; here a refusal is an answer that people must see.
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
