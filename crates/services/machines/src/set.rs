//! Carries out MachineSets: adopts, releases, creates and deletes Machines, and writes the numbers.
//!
//! What is missing and which Machines go is decided by `machine::set`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::machine::{Machine, MachineSet, annotation};
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::write::in_time;
use cluster::{Outcome, Problem, Queue, problem};
use futures::StreamExt;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use machine::set::{self, Action, Next, Plan, Snapshot, Waiting};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::claim::{Claim, Claims};
use crate::context::{Context, UNREAD, positive};
use crate::expectations::Expectations;
use crate::index::node_name;
use crate::{delete, owners, write};

const MANAGER: &str = "machinist-machineset";

/// Sets are few, and a slow one must not hold up the others.
const WORKERS: usize = 8;

/// Machines that are written at once for one set. The API server is the limit; more only makes it queue.
const AT_ONCE: usize = 32;

/// A set waits for so long until no more of its Machines change, so that a thousand changes are a few plans.
const QUIET: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(300);

pub(crate) struct Sets {
    context: Arc<Context>,
    queue: Queue<Key>,
    expectations: Expectations,
    claims: Claims,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write machine {name}")]
    Machine {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot read machineset {name} before it adopts machines")]
    Owner {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write the status of machineset {name}")]
    Status {
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// The deployment that controls a set.
fn deployment_of(set: &MachineSet) -> Option<Key> {
    let owner = set.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let is_deployment = owner.kind == "MachineDeployment";
    is_deployment.then(|| Key::in_namespace(set.metadata.namespace.as_deref().unwrap_or_default(), &owner.name))
}

impl Sets {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, queue: Queue::default(), expectations: Expectations::default(), claims: Claims::default() }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(WORKERS, |key| self.clone().reconcile(key)).await;
    }

    /// The set itself changed.
    pub(crate) fn changed(&self, key: Key) {
        self.queue.add(key);
    }

    /// One of its Machines or their nodes changed.
    pub(crate) fn disturbed(&self, key: Key) {
        self.queue.add_quiet(key, QUIET, LONGEST);
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Outcome {
        let world = &self.context.world;
        let known = world.sets_known().and_then(|()| world.machines_known()).and_then(|()| world.nodes_known());
        if let Err(unread) = known {
            tracing::debug!(?key, %unread, "nothing is done for the set");
            return UNREAD;
        }
        let Some(set) = world.sets.get(&key) else {
            self.expectations.forget(&key);
            self.claims.forget(&key);
            self.context.forget::<MachineSet>(&key);
            return Outcome::Done;
        };
        // Looked for although nothing may have to go: others are waited for from when their claim was first seen.
        let claimed_elsewhere = self.claims.foreign(&key, &*set, &self.context.settings.identity);
        // What was just done does not show yet, and would be done again to others.
        if let Some(wait) = self.expectations.open(&key, &world.machines) {
            return Outcome::Again(wait);
        }
        let plan = self.plan(&key, &set);
        tracing::debug!(?key, actions = plan.actions.len(), next = ?plan.next, "planned");
        let takes_away = plan.actions.iter().any(|action| matches!(action, Action::Delete { .. }));
        if takes_away && let Some(wait) = claimed_elsewhere {
            tracing::debug!(?key, ?wait, "another process takes machines of the set away");
            return Outcome::Again(wait);
        }
        match self.apply(&key, &set, &plan).await {
            Ok(()) => self.outcome(&set, &plan),
            Err(Error::Status { source, .. } | Error::Machine { source, .. })
                if matches!(problem(&source), Problem::Conflict | Problem::NotFound) =>
            {
                Outcome::Retry
            }
            Err(error) => {
                tracing::warn!(?key, error = &error as &dyn std::error::Error, "cannot carry out the plan");
                self.context.tell(&*set, Severity::Warning, "ReconcileError", &cluster::error::chain(&error));
                Outcome::Retry
            }
        }
    }

    fn plan(&self, key: &Key, set: &MachineSet) -> Plan {
        let world = &self.context.world;
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let (members, in_the_way) = {
            let index = self.context.index.lock();
            (index.members(key, uid), index.nodes_in_the_way(key))
        };
        let machines: Vec<_> = members.iter().filter_map(|key| world.machines.get(key)).collect();
        let names = machines.iter().filter_map(|machine| node_name(machine));
        let nodes: HashMap<&str, _> = names.filter_map(|name| Some((name, world.node(name)?))).collect();
        let node = |name: &str| nodes.get(name).map(|node| &***node);
        let machines = machines.iter().map(|machine| &**machine);
        let deployment = deployment_of(set).and_then(|key| world.deployments.get(&key));
        let snapshot = Snapshot::from_objects(set, machines, node, Timestamp::now());
        let mut snapshot = snapshot.with_deployment(deployment.as_deref());
        snapshot.taken.extend(in_the_way);
        set::plan(&snapshot)
    }

    /// Carries out the actions beside each other and writes the status. A plan that takes machines away is claimed first: which
    /// ones go depends on what is seen of them, so two processes that both believe to lead could choose others.
    async fn apply(&self, key: &Key, set: &MachineSet, plan: &Plan) -> Result<(), Error> {
        let planned = Instant::now();
        let sets: Api<MachineSet> = Api::namespaced(self.context.world.client.clone(), &key.namespace);
        if plan.actions.iter().any(|action| matches!(action, Action::Adopt { .. })) {
            let may_adopt = owners::may_adopt(&sets, set).await;
            if !may_adopt.map_err(|source| Error::Owner { name: set.name_any(), source })? {
                tracing::debug!(?key, "the set is gone or going, and the watch does not show it yet");
                return Ok(());
            }
        }
        let leaving = plan.actions.iter().filter_map(|action| match action {
            Action::Delete { name, .. } => Some(name.as_str()),
            Action::Adopt { .. } | Action::Release { .. } | Action::Create(_) | Action::Mark { .. } => None,
        });
        let leaving: Vec<_> = leaving.collect();
        let identity = &self.context.settings.identity;
        let (claimed, claim) = match leaving.as_slice() {
            [] => (None, None),
            leaving => {
                let claimed = Claims::take(&sets, MANAGER, set, identity, leaving, planned).await;
                claimed
                    .map_err(|source| Error::Status { name: set.name_any(), source })
                    .map(|(set, claim)| (Some(set), Some(claim)))?
            }
        };
        let set = claimed.as_ref().unwrap_or(set);
        let mut results = futures::stream::iter(&plan.actions)
            .map(|action| self.act(key, set, claim.as_ref(), action))
            .buffer_unordered(AT_ONCE)
            .boxed();
        let mut first = None;
        while let Some(result) = results.next().await {
            // One Machine that is refused does not stop the others.
            first = first.or(result.err());
        }
        drop(results);
        self.write_status(set, plan).await?;
        first.map_or(Ok(()), Err)
    }

    async fn act(&self, key: &Key, set: &MachineSet, claim: Option<&Claim>, action: &Action) -> Result<(), Error> {
        let api: Api<Machine> = Api::namespaced(self.context.world.client.clone(), &key.namespace);
        let fail = |name: &str| {
            let name = name.to_owned();
            |source| Error::Machine { name, source }
        };
        match action {
            Action::Adopt { name, uid } => {
                let adopted = owners::adopt(&api, MANAGER, name, uid, owners::controller(set)).await;
                self.context.metrics.wrote("Machine");
                adopted.map_err(fail(name))
            }
            Action::Release { name, uid } => {
                let own = set.metadata.uid.as_deref().unwrap_or_default();
                let released = owners::release(&api, MANAGER, name, uid, own).await;
                self.context.metrics.wrote("Machine");
                released.map_err(fail(name))
            }
            Action::Create(machine) => self.create(key, set, &api, machine).await,
            // The claim shows as a change, and what is left is planned and claimed again.
            Action::Delete { .. } if claim.is_none_or(|claim| !claim.is_good()) => Ok(()),
            Action::Delete { name, uid } => {
                tracing::info!(machineset = key.name, machine = name, "deleting a machine");
                let machine = Key::in_namespace(&key.namespace, name);
                self.expectations.deleted(key, machine.clone(), uid);
                let deleted = delete::by_uid(&api, name, uid).await;
                if let Err(error) = &deleted {
                    self.expectations.failed(key, &machine, error);
                }
                self.context.metrics.wrote("Machine");
                deleted.map_err(fail(name))
            }
            Action::Mark { name, matches } => {
                let annotations = json!({ annotation::MATCHES_TEMPLATE: matches.to_string() });
                let patch: Value = json!({ "metadata": { "annotations": annotations } });
                let marked = cluster::write::merge(&api, MANAGER, name, &patch).await;
                self.context.metrics.wrote("Machine");
                marked.map(|_| ()).map_err(fail(name))
            }
        }
    }

    async fn create(&self, key: &Key, set: &MachineSet, api: &Api<Machine>, machine: &Machine) -> Result<(), Error> {
        let name = machine.name_any();
        tracing::info!(machineset = key.name, machine = name, "creating a machine");
        let expected = Key::in_namespace(&key.namespace, &name);
        self.expectations.created(key, expected.clone());
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match in_time(api.create(&parameters, machine)).await {
            Ok(_) => {
                self.context.metrics.wrote("Machine");
                Ok(())
            }
            // An earlier plan asked for the same name.
            Err(error) if problem(&error) == Problem::Conflict => Ok(()),
            Err(source) => {
                self.expectations.failed(key, &expected, &source);
                let message = cluster::error::chain(&source);
                self.context.tell(set, Severity::Warning, "FailedCreate", &message);
                Err(Error::Machine { name, source })
            }
        }
    }

    async fn write_status(&self, set: &MachineSet, plan: &Plan) -> Result<(), Error> {
        let old = set.status.clone().unwrap_or_default();
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<MachineSet> = Api::namespaced(self.context.world.client.clone(), &namespace);
        let written = write::status(&api, MANAGER, set, &old, &plan.status).await;
        if written.map_err(|source| Error::Status { name: set.name_any(), source })?.is_some() {
            self.context.metrics.wrote("MachineSet");
        }
        Ok(())
    }

    fn outcome(&self, set: &MachineSet, plan: &Plan) -> Outcome {
        if let Next::OnChange(Waiting::Invalid(problem)) = &plan.next {
            self.context.tell(set, Severity::Warning, "ReconcileError", &problem.to_string());
        }
        match &plan.next {
            Next::OnChange(_) => Outcome::Done,
            Next::After(delay, _) => Outcome::Again(positive(*delay)),
        }
    }
}
