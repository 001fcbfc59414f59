//! Carries out MachineDeployments: makes sets, sizes them, keeps their history.
//!
//! Which set grows and which shrinks is decided by `machine::deployment`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::Translate;
use api::machine::{MachineDeployment, MachineSet};
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::write::in_time;
use cluster::{Outcome, Problem, Queue, problem};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use machine::deployment::{self, Action, Next, Plan, SetChange, Snapshot, Waiting};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::context::{Context, UNREAD, positive};
use crate::write::is_as_new;
use crate::{delete, owners, write};

const MANAGER: &str = "machinist-machinedeployment";

const WORKERS: usize = 4;

/// A deployment waits for so long until no more of its sets change.
const QUIET: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(300);

pub(crate) struct Deployments {
    context: Arc<Context>,
    queue: Queue<Key>,
    /// Sets as this process last wrote them, until the watch shows as much. A plan on what they were before would count
    /// machines that it asked for as room for more.
    written: Mutex<HashMap<Key, MachineSet>>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {what} {name}")]
struct Error {
    what: &'static str,
    name: String,
    #[source]
    source: kube::Error,
}

impl Deployments {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, queue: Queue::default(), written: Mutex::default() }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(WORKERS, |key| self.clone().reconcile(key)).await;
    }

    /// The deployment itself changed.
    pub(crate) fn changed(&self, key: Key) {
        self.queue.add(key);
    }

    /// One of its sets changed.
    pub(crate) fn disturbed(&self, key: Key) {
        self.queue.add_quiet(key, QUIET, LONGEST);
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Outcome {
        let world = &self.context.world;
        if let Err(unread) = world.deployments_known().and_then(|()| world.sets_known()) {
            tracing::debug!(?key, %unread, "nothing is done for the deployment");
            return UNREAD;
        }
        let Some(deployment) = world.deployments.get(&key) else {
            self.context.forget::<MachineDeployment>(&key);
            return Outcome::Done;
        };
        let sets = world.sets.all();
        let sets = sets.iter().filter(|set| set.metadata.namespace.as_deref() == Some(&*key.namespace));
        let sets: Vec<MachineSet> = sets.map(|set| self.latest(set)).collect();
        let snapshot = Snapshot { deployment: (*deployment).clone(), sets, now: Timestamp::now() };
        let plan = deployment::plan(&snapshot);
        tracing::debug!(?key, actions = ?plan.actions, next = ?plan.next, "planned");
        if let Waiting::Invalid(problem) = plan.next.waiting() {
            self.context.tell(&*deployment, Severity::Warning, "ReconcileError", &problem.to_string());
        }
        match self.apply(&snapshot, &plan).await {
            Ok(()) => match plan.next {
                Next::OnChange(_) => Outcome::Done,
                Next::After(delay, _) => Outcome::Again(positive(delay)),
            },
            // Somebody wrote in between; what is decided next is decided on what is there then.
            Err(error) if matches!(problem(&error.source), Problem::Conflict | Problem::NotFound) => Outcome::Retry,
            Err(error) => {
                tracing::warn!(?key, error = &error as &dyn std::error::Error, "cannot carry out the plan");
                let message = cluster::error::chain(&error);
                self.context.tell(&*deployment, Severity::Warning, "ReconcileError", &message);
                Outcome::Retry
            }
        }
    }

    /// A set as it was last seen or written.
    fn latest(&self, seen: &MachineSet) -> MachineSet {
        let (key, mut written) = (Key::of(seen), self.written.lock());
        let is_ahead = |own: &MachineSet| own.metadata.uid == seen.metadata.uid && !is_as_new(seen, own);
        if written.get(&key).is_some_and(|own| !is_ahead(own)) {
            written.remove(&key);
        }
        written.get(&key).unwrap_or(seen).clone()
    }

    async fn apply(&self, snapshot: &Snapshot, plan: &Plan) -> Result<(), Error> {
        let mut deployment = snapshot.deployment.clone();
        let namespace = deployment.namespace().unwrap_or_default();
        let client = &self.context.world.client;
        let sets: Api<MachineSet> = Api::namespaced(client.clone(), &namespace);
        let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), &namespace);
        if plan.actions.iter().any(|action| matches!(action, Action::Adopt { .. })) {
            let may_adopt = owners::may_adopt(&deployments, &deployment).await;
            if !may_adopt.map_err(|source| self.failed(&deployment.name_any(), source))? {
                return Ok(());
            }
        }
        for action in &plan.actions {
            if let Action::Annotate(annotations) = action {
                let patch = json!({ "metadata": { "annotations": annotations } });
                let written = write::merge(&deployments, MANAGER, &deployment, patch).await;
                deployment = written.map_err(|source| self.failed(&deployment.name_any(), source))?;
            } else {
                self.act(&sets, snapshot, action).await?;
            }
        }
        let old = deployment.status.clone().unwrap_or_default();
        let written = write::status(&deployments, MANAGER, &deployment, &old, &plan.status).await;
        if written.map_err(|source| self.failed(&deployment.name_any(), source))?.is_some() {
            self.context.metrics.wrote("MachineDeployment");
        }
        Ok(())
    }

    fn failed(&self, name: &str, source: kube::Error) -> Error {
        Error { what: "machinedeployment", name: name.to_owned(), source }
    }

    async fn act(&self, sets: &Api<MachineSet>, snapshot: &Snapshot, action: &Action) -> Result<(), Error> {
        let fail = |name: &str| {
            let name = name.to_owned();
            |source| Error { what: "machineset", name, source }
        };
        match action {
            Action::Adopt { name, uid } => {
                let owner = owners::controller(&snapshot.deployment);
                owners::adopt(sets, MANAGER, name, uid, owner).await.map_err(fail(name))?;
            }
            Action::Create(set) => {
                let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                let created = in_time(sets.create(&parameters, set)).await;
                created.map_err(fail(&set.name_any()))?;
            }
            Action::Update { name, uid, change } => {
                let is_it = |set: &&MachineSet| set.uid().as_deref() == Some(uid);
                let Some(set) = snapshot.sets.iter().find(is_it) else { return Ok(()) };
                let mut written = write::merge(sets, MANAGER, set, changed(change)).await.map_err(fail(name))?;
                written.translate();
                self.written.lock().insert(Key::of(&written), written);
            }
            Action::Delete { name, uid } => {
                // A set of the history that was scaled up a moment ago stays, with its machines.
                let is_it = |set: &&MachineSet| set.uid().as_deref() == Some(uid);
                let Some(set) = snapshot.sets.iter().find(is_it) else { return Ok(()) };
                delete::unchanged(sets, set).await.map_err(fail(name))?;
            }
            // It is about the deployment itself.
            Action::Annotate(_) => {}
        }
        self.context.metrics.wrote("MachineSet");
        Ok(())
    }
}

fn changed(change: &SetChange) -> Value {
    let SetChange { replicas, min_ready_seconds, annotations } = change;
    let mut patch = json!({ "metadata": { "annotations": annotations }, "spec": {} });
    if let Some(replicas) = replicas {
        patch["spec"]["replicas"] = json!(replicas);
    }
    if let Some(seconds) = min_ready_seconds {
        patch["spec"]["minReadySeconds"] = json!(seconds);
    }
    patch
}
