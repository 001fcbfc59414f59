//! Tells the cluster autoscaler on each MachineSet what a machine of it would offer, so that a set can grow from zero.
//!
//! What is written is decided by `machine::capacity`; what a machine offers is the provider's to know. This has a queue of its
//! own: a catalogue that does not answer must not keep sets from growing and shrinking.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::labels;
use api::machine::MachineSet;
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::{Outcome, Problem, Queue, problem};
use kube::ResourceExt;
use kube::api::Api;
use machine::capacity::{self, Snapshot};
use machine::provider::{Capacity, Error, Mark, Request, SecretPurpose, Secrets};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::{Context, UNREAD};
use crate::life::{SecretCache, in_time};
use crate::write;

const MANAGER: &str = "machinist-capacity";

const WORKERS: usize = 4;

/// How long an answer is used again. Catalogues change with new types of machines, which old specs do not name.
const MOMENT: Duration = Duration::from_secs(3600);

/// When a provider that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(60);

pub(crate) struct Capacities {
    context: Arc<Context>,
    queue: Queue<Key>,
    secrets: SecretCache,
    /// What providers said, by namespace and spec.
    known: Mutex<HashMap<(String, String), Answer>>,
}

/// What a provider said, and when.
type Answer = (Instant, Option<Capacity>);

impl Capacities {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let secrets = SecretCache::new(context.world.client.clone());
        Self { context, queue: Queue::default(), secrets, known: Mutex::default() }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(WORKERS, |key| self.clone().reconcile(key)).await;
    }

    pub(crate) fn changed(&self, key: Key) {
        self.queue.add(key);
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Outcome {
        let world = &self.context.world;
        if world.sets_known().is_err() {
            return UNREAD;
        }
        let set = world.sets.get(&key).filter(|set| set.metadata.deletion_timestamp.is_none());
        let Some(set) = set else { return Outcome::Done };
        let spec = set.spec.template.as_ref().and_then(|template| template.spec.as_ref()?.provider_value());
        let Some(spec) = spec else { return Outcome::Done };
        let capacity = match self.capacity(&key, &set, spec).await {
            Ok(capacity) => capacity,
            Err(error) => {
                self.context.tell(&*set, Severity::Warning, "FailedUpdate", &error.message);
                return Outcome::Again(AGAIN);
            }
        };
        if capacity.is_none() {
            let message = "Failed to set autoscaling from zero annotations, instance type unknown";
            self.context.tell(&*set, Severity::Warning, "FailedUpdate", message);
        }
        let plan = capacity::plan(&Snapshot { set: &set, capacity: Ok(capacity) });
        if plan.annotations.is_empty() {
            return Outcome::Done;
        }
        let api: Api<MachineSet> = Api::namespaced(world.client.clone(), &key.namespace);
        let patch = json!({ "metadata": { "annotations": plan.annotations } });
        match write::merge(&api, MANAGER, &*set, patch).await {
            Ok(_) => {
                self.context.metrics.wrote("MachineSet");
                Outcome::Done
            }
            Err(error) if problem(&error) == Problem::NotFound => Outcome::Done,
            Err(error) if problem(&error) == Problem::Conflict => Outcome::Retry,
            Err(error) => {
                tracing::warn!(?key, error = &error as &dyn std::error::Error, "cannot say what a machine offers");
                Outcome::Retry
            }
        }
    }

    async fn capacity(&self, key: &Key, set: &MachineSet, spec: &Value) -> Result<Option<Capacity>, Error> {
        let entry = (key.namespace.clone(), spec.to_string());
        if let Some(capacity) = self.remembered(&entry) {
            return Ok(capacity);
        }
        let request = self.request(key, set, spec).await?;
        let capacity = in_time(self.context.provider.capacity(&request)).await?;
        self.known.lock().insert(entry, (Instant::now(), capacity.clone()));
        Ok(capacity)
    }

    fn remembered(&self, entry: &(String, String)) -> Option<Option<Capacity>> {
        let mut known = self.known.lock();
        known.retain(|_, (at, _)| at.elapsed() < MOMENT);
        known.get(entry).map(|(_, capacity)| capacity.clone())
    }

    async fn request(&self, key: &Key, set: &MachineSet, spec: &Value) -> Result<Request, Error> {
        let mut secrets = Secrets::default();
        for need in self.context.provider.rules().secrets(spec) {
            if need.purpose == SecretPurpose::Credentials {
                let namespace = need.namespace.as_deref().unwrap_or(&key.namespace);
                secrets.credentials = self.secrets.get(namespace, &need.name, &need.field).await?;
            }
        }
        let template = set.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
        let labels: BTreeMap<_, _> = template.map(|metadata| metadata.labels.clone()).unwrap_or_default();
        Ok(Request {
            mark: Mark {
                cluster: labels.get(labels::MACHINE_CLUSTER).cloned().unwrap_or_default(),
                namespace: key.namespace.clone(),
                machine: key.name.clone(),
                uid: set.uid().unwrap_or_default(),
            },
            labels,
            control_plane: false,
            spec: Arc::new(spec.clone()),
            provider_id: None,
            provider_status: None,
            intent: None,
            secrets: Arc::new(secrets),
        })
    }
}
