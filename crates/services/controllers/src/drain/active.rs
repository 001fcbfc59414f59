//! One node that is being drained: its pods, watched, and what the API said to evictions.

use std::collections::{BTreeMap, BTreeSet};

use api::known::Reading;
use cluster::watch::State;
use cluster::{Queue, Store, Watch};
use drain::{Condition, PodFacts, Refusal};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;
use tokio::task::JoinSet;

pub(super) struct Active {
    pods: Store<PodFacts>,
    /// Answers to evictions by pod uid. Losing them costs a question, nothing more.
    pub(super) refusals: BTreeMap<String, Refusal>,
    /// What was already told to people, so that each look does not tell it again.
    pub(super) said: BTreeSet<String>,
    /// What blocked it at the last look.
    pub(super) blocked: Option<String>,
    /// It waits for a place in its pool's ledger.
    pub(super) is_withheld: bool,
    /// Conditions as last written.
    pub(super) conditions: Vec<Condition>,
    _watching: JoinSet<()>,
}

impl Active {
    /// Watches the pods of `node`; each change brings the node back to the queue.
    pub(super) fn start(client: &Client, node: &str, queue: &Queue<String>) -> Self {
        let mut watch: Watch<PodFacts> = Watch::default();
        let mut changes = watch.subscribe();
        let pods = watch.store();
        let mut watching = JoinSet::new();
        // A list from a cache could miss a pod that was bound a moment ago.
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let api: Api<Pod> = Api::all(client.clone());
        watching.spawn(watch.run(api, config, |pod: Pod| PodFacts::from_object(&pod)));
        let (store, name, queue) = (pods.clone(), node.to_owned(), queue.clone());
        watching.spawn(async move {
            store.settled().await;
            queue.add(name.clone());
            while changes.recv().await.is_some() {
                queue.add(name.clone());
            }
        });
        Self {
            pods,
            refusals: BTreeMap::new(),
            said: BTreeSet::new(),
            blocked: None,
            is_withheld: false,
            conditions: Vec::new(),
            _watching: watching,
        }
    }

    /// What is known of the pods, once the API has given a first answer. Answers about pods that are gone are forgotten.
    pub(super) fn pods(&mut self) -> Option<Reading<Vec<PodFacts>>> {
        if self.pods.state() == State::Starting {
            return None;
        }
        let pods = self.pods.reading().map(|pods| pods.iter().map(|pod| (**pod).clone()).collect::<Vec<_>>());
        if let Reading::Known { value, .. } = &pods {
            self.refusals.retain(|uid, _| value.iter().any(|pod| pod.uid == *uid));
        }
        Some(pods)
    }
}
