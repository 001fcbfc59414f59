//! Carries out MachineHealthChecks: looks at the machines they select, and remediates those that the plan names.
//!
//! Checks of both vintages go the same way. Those of 2019 say in a ConfigMap what makes a node unhealthy, and have no status.
//!
//! Who is unhealthy and how many are remediated at once is decided by `machine::health`.

mod requests;
mod subject;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::annotations;
use api::healthchecking::MachineHealthCheck as LegacyCheck;
use api::known::Unread;
use api::machine::{Machine, MachineHealthCheck};
use cluster::watch::Key;
use cluster::{Outcome, Problem, Queue, problem};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::Api;
use machine::health::{self, Action, Event, Next, Plan, REBOOT, Snapshot, Strategy, Waiting};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::claim::Claims;
use crate::context::{Context, UNREAD, positive, severity};
use crate::expectations::Expectations;
use crate::index::node_name;
use crate::world::NodeRecord;
use crate::{delete, write};
use requests::Requests;
use subject::Subject;
pub(crate) use subject::Vintage;

const MANAGER: &str = "machinist-machinehealthcheck";

const WORKERS: usize = 4;

/// A check waits for so long until no more of its machines and nodes change: each look costs as much as it has machines.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);

/// How often requests for remediation and the ConfigMap are looked at, which are not watched.
const UNWATCHED: Duration = Duration::from_secs(30);

pub(crate) struct Checks {
    context: Arc<Context>,
    vintage: Vintage,
    queue: Queue<Key>,
    expectations: Expectations,
    /// What the last plan of each check told.
    said: Mutex<HashMap<Key, BTreeSet<String>>>,
    /// Since when this process has seen machines of each check unwell. A node's own clock may be wrong, so its word alone
    /// never spends a timeout; a process that starts anew waits for all of it once more.
    suspected: Mutex<HashMap<Key, BTreeMap<String, Timestamp>>>,
    /// In how many places of their sets this process has seen machines of each check. One that starts anew takes every place
    /// that no machine holds for one whose machine was taken away.
    strength: Mutex<HashMap<Key, BTreeMap<String, usize>>>,
    claims: Claims,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write {what} {name}")]
    Write {
        what: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot read what {check:?} asks for")]
    Template {
        check: Key,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Unread(#[from] Unread),
}

/// What became of the machines of a plan.
#[derive(Default)]
struct Remediation {
    /// The check as it is since it was claimed.
    claimed: Option<Subject>,
    /// Machines that nothing was done to.
    untold: BTreeSet<String>,
    /// Machines for which no request could be made, with the reason.
    refused: Vec<(String, String)>,
    first: Option<Error>,
    /// When to look again because of them.
    wait: Option<Duration>,
}

/// The machine, or its node, that an action does something to.
fn machine_of(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteMachine { name, .. } | Action::AnnotateMachine { name } => Some(name),
        Action::CreateRequest { machine, .. } | Action::DeleteRequest { machine } => Some(machine),
        Action::RebootNode { node } => Some(node),
        Action::Event(_) => None,
    }
}

impl Checks {
    pub(crate) fn new(context: Arc<Context>, vintage: Vintage) -> Self {
        Self {
            context,
            vintage,
            queue: Queue::default(),
            expectations: Expectations::default(),
            said: Mutex::default(),
            suspected: Mutex::default(),
            strength: Mutex::default(),
            claims: Claims::default(),
        }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(WORKERS, |key| self.clone().reconcile(key)).await;
    }

    /// The check itself changed.
    pub(crate) fn changed(&self, key: Key) {
        self.queue.add(key);
    }

    /// Machines of its namespace or their nodes changed.
    pub(crate) fn disturbed(&self, key: Key) {
        self.queue.add_quiet(key, QUIET, LONGEST);
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Outcome {
        let world = &self.context.world;
        // A check that was paused or deleted meanwhile must not go on.
        let known = match self.vintage {
            Vintage::Today => world.checks_known(),
            Vintage::Legacy => world.legacy_checks_known(),
        };
        let known = known.and_then(|()| world.machines_known()).and_then(|()| world.sets_known());
        let known = known.and_then(|()| world.control_planes_known());
        if let Err(unread) = known.and_then(|()| world.nodes_known()) {
            tracing::debug!(?key, %unread, "nothing is judged");
            if let Some(check) = self.subject(&key) {
                check.tell_once(&self.context, "CannotJudge", &format!("no machine is judged: {unread}"));
            }
            return UNREAD;
        }
        let Some(check) = self.subject(&key) else {
            self.forget(&key);
            return Outcome::Done;
        };
        // Looked for although no machine may be unhealthy: others are waited for from when their claim was first seen.
        check.foreign_claim(&self.claims, &key, &self.context.settings.identity);
        // A machine whose deletion does not show yet would not count for the brake.
        if let Some(wait) = self.expectations.open(&key, &world.machines) {
            return Outcome::Again(wait);
        }
        match self.look(&key, &check).await {
            Ok(outcome) => outcome,
            Err(Error::Write { source, .. }) if problem(&source) == Problem::Conflict => Outcome::Retry,
            Err(error) => {
                tracing::warn!(?key, error = &error as &dyn std::error::Error, "cannot carry out the plan");
                let message = cluster::error::chain(&error);
                check.tell_once(&self.context, "ReconcileError", &message);
                Outcome::Retry
            }
        }
    }

    async fn look(&self, key: &Key, check: &Subject) -> Result<Outcome, Error> {
        let Some(mut snapshot) = self.snapshot(key, check).await? else { return Ok(Outcome::Done) };
        let mut unread = None;
        let requests = match &snapshot.check {
            Ok(health::Check { strategy: Strategy::Template(template), .. }) => {
                match Requests::find(&self.context.world.client, &key.namespace, template).await {
                    Ok(found) => {
                        snapshot.template_exists = found.template_exists();
                        snapshot.requests = found.names();
                        Some(found)
                    }
                    // The rest of the check's status is still true.
                    Err(source) => {
                        snapshot.template_exists = false;
                        snapshot.template_unread = Some(cluster::error::chain(&source));
                        unread = Some(Error::Template { check: key.clone(), source });
                        None
                    }
                }
            }
            Ok(_) | Err(_) => None,
        };
        snapshot.suspected = Some(self.suspected.lock().get(key).cloned().unwrap_or_default());
        snapshot.strength = self.strength.lock().get(key).cloned();
        let mut plan = health::plan(&snapshot);
        self.suspected.lock().insert(key.clone(), plan.suspected(&snapshot));
        if let Some(strength) = &plan.strength {
            self.strength.lock().insert(key.clone(), strength.clone());
        }
        tracing::debug!(?key, actions = ?plan.actions, next = ?plan.next, "planned");
        let is_restricted = matches!(
            plan.next,
            Next::OnChange(Waiting::TooManyUnhealthy { .. } | Waiting::SharedChange { .. })
                | Next::After(_, Waiting::TooManyUnhealthy { .. } | Waiting::SharedChange { .. })
        );
        if self.vintage == Vintage::Today {
            self.context.metrics.checked(key, snapshot.targets.len(), is_restricted);
        }
        let Remediation { claimed, untold, refused, first, wait } =
            self.remediate(key, check, (&snapshot, &plan), requests.as_ref()).await?;
        health::report_requests(&mut plan.status, &refused, untold.is_empty(), Timestamp::now());
        self.tell(key, check, &plan, &untold);
        if let Subject::Today(check) = claimed.as_ref().unwrap_or(check) {
            self.write_status(check, &plan).await?;
        }
        first.or(unread).map_or(Ok(()), Err)?;
        let outcome = match (plan.next, wait) {
            (Next::OnChange(_), None) => Outcome::Done,
            (Next::OnChange(_), Some(wait)) => Outcome::Again(wait),
            (Next::After(delay, _), wait) => {
                Outcome::Again(wait.map_or(positive(delay), |wait| wait.min(positive(delay))))
            }
        };
        let is_watched = requests.is_none() && self.vintage == Vintage::Today;
        Ok(match outcome {
            Outcome::Done if !is_watched => Outcome::Again(UNWATCHED),
            Outcome::Again(delay) if !is_watched => Outcome::Again(delay.min(UNWATCHED)),
            outcome => outcome,
        })
    }

    /// Carries out what the plan does to machines, under a claim on the check.
    async fn remediate(
        &self,
        key: &Key,
        check: &Subject,
        (snapshot, plan): (&Snapshot, &Plan),
        requests: Option<&Requests>,
    ) -> Result<Remediation, Error> {
        let (mut done, planned) = (Remediation::default(), Instant::now());
        let machines: Vec<&str> = plan.actions.iter().filter_map(machine_of).collect();
        if machines.is_empty() {
            return Ok(done);
        }
        let all = || machines.iter().map(|&name| name.to_owned()).collect();
        done.wait = check.foreign_claim(&self.claims, key, &self.context.settings.identity);
        if done.wait.is_some() {
            let message = "another process claimed this check a moment ago; machines wait until it is done";
            check.tell_once(&self.context, "ClaimedElsewhere", message);
            return Ok(Remediation { untold: all(), ..done });
        }
        let (claimed, claim) = check.claim(&self.context, machines.as_slice(), planned).await?;
        done.claimed = Some(claimed);
        for action in &plan.actions {
            let Some(machine) = machine_of(action) else { continue };
            if !claim.is_good() {
                done.untold.insert(machine.to_owned());
                done.wait = Some(Duration::ZERO);
                continue;
            }
            // One machine that cannot be remediated does not stop the others.
            if let Err(error) = self.act(key, snapshot, requests, action).await {
                done.untold.insert(machine.to_owned());
                if let (Action::CreateRequest { .. }, Error::Write { source, .. }) = (action, &error) {
                    done.refused.push((machine.to_owned(), cluster::error::chain(source)));
                }
                done.first = done.first.or(Some(error));
            }
        }
        Ok(done)
    }

    /// What is known of a check and its machines. `None` for a check that selects nothing.
    async fn snapshot(&self, key: &Key, check: &Subject) -> Result<Option<Snapshot>, Error> {
        let legacy = match check {
            Subject::Today(_) => None,
            Subject::Legacy(check) => match self.read_legacy(check).await? {
                Some(check) => Some(check),
                None => return Ok(None),
            },
        };
        let world = &self.context.world;
        let mut machines = world.machines.all();
        machines.retain(|machine| machine.metadata.namespace.as_deref() == Some(&*key.namespace));
        let names = machines.iter().filter_map(|machine| node_name(machine));
        let nodes: HashMap<&str, Arc<NodeRecord>> = names.filter_map(|name| Some((name, world.node(name)?))).collect();
        let node = |name: &str| Ok(nodes.get(name).map(|node| &***node));
        let (sets, control_planes) = (world.sets.all(), world.control_planes.all());
        let (all, now) = (machines.iter().map(|machine| &**machine), Timestamp::now());
        let snapshot = match (check, legacy) {
            (Subject::Today(check), _) => Some(Snapshot::from_objects(check, all.clone(), node, now)),
            (Subject::Legacy(_), Some(check)) => Some(Snapshot::from_legacy_objects(check, all.clone(), node, now)),
            (Subject::Legacy(_), None) => None,
        };
        Ok(snapshot.map(|snapshot| {
            let snapshot = snapshot.with_sets(sets.iter().map(|set| &**set), all.clone());
            snapshot.with_control_planes(control_planes.iter().map(|set| &**set), all)
        }))
    }

    async fn act(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        requests: Option<&Requests>,
        action: &Action,
    ) -> Result<(), Error> {
        let client = &self.context.world.client;
        let machines: Api<Machine> = Api::namespaced(client.clone(), &key.namespace);
        let fail = |what: &'static str, name: &str| {
            let name = name.to_owned();
            move |source| Error::Write { what, name, source }
        };
        match action {
            Action::DeleteMachine { name, uid, resource_version } => {
                let machine = Key::in_namespace(&key.namespace, name);
                self.expectations.deleted(key, machine.clone(), uid);
                let deleted = delete::as_judged(&machines, name, uid, resource_version.clone()).await;
                if let Err(error) = &deleted {
                    self.expectations.failed(key, &machine, error);
                }
                deleted.map_err(fail("machine", name))?;
                self.context.metrics.remediated(key);
            }
            Action::AnnotateMachine { name } => {
                // The one that was judged, and no other that has got its name since.
                let uid = snapshot.targets.iter().find(|target| target.name == *name).map(|target| &target.uid);
                let annotations = json!({ annotations::EXTERNAL_REMEDIATION: "" });
                let patch = json!({ "metadata": { "uid": uid, "annotations": annotations } });
                cluster::write::merge(&machines, MANAGER, name, &patch).await.map_err(fail("machine", name))?;
                self.context.metrics.remediated(key);
            }
            Action::RebootNode { node } => {
                let nodes: Api<Node> = Api::all(client.clone());
                let uid = self.context.world.node(node).and_then(|node| node.metadata.uid.clone());
                let patch = json!({ "metadata": { "uid": uid, "annotations": { REBOOT: "" } } });
                cluster::write::merge(&nodes, MANAGER, node, &patch).await.map_err(fail("node", node))?;
                self.context.metrics.remediated(key);
            }
            Action::CreateRequest { machine, uid } => {
                let Some(requests) = requests else { return Ok(()) };
                let created = requests.create(client, machine, uid).await;
                created.map_err(fail("remediation request", machine))?;
                self.context.metrics.remediated(key);
            }
            Action::DeleteRequest { machine } => {
                let Some(requests) = requests else { return Ok(()) };
                requests.delete(client, machine).await.map_err(fail("remediation request", machine))?;
            }
            Action::Event(_) => {}
        }
        Ok(())
    }

    /// Publishes what the last plan did not say yet, but nothing about machines that were not remediated after all.
    fn tell(&self, key: &Key, check: &Subject, plan: &Plan, untold: &BTreeSet<String>) {
        let events = plan.actions.iter().filter_map(|action| match action {
            Action::Event(event) if event.machine.as_ref().is_some_and(|name| untold.contains(name)) => None,
            Action::Event(event) => Some(event),
            _ => None,
        });
        let events: Vec<&Event> = events.collect();
        let words = |event: &Event| format!("{}: {}", event.reason, event.message);
        let now: BTreeSet<String> = events.iter().map(|event| words(event)).collect();
        let before = self.said.lock().insert(key.clone(), now).unwrap_or_default();
        for event in events.into_iter().filter(|event| !before.contains(&words(event))) {
            let Event { machine, warning, reason, message } = event;
            tracing::info!(check = key.name, machine, reason, "{message}");
            let machine = machine.as_ref().map(|name| Key::in_namespace(&key.namespace, name));
            match machine.and_then(|key| self.context.world.machines.get(&key)) {
                Some(machine) => self.context.publish(&*machine, severity(*warning), reason, message),
                None => check.tell(&self.context, severity(*warning), reason, message),
            }
        }
    }

    async fn write_status(&self, check: &MachineHealthCheck, plan: &Plan) -> Result<(), Error> {
        let old = check.status.clone().unwrap_or_default();
        let namespace = check.namespace().unwrap_or_default();
        let api: Api<MachineHealthCheck> = Api::namespaced(self.context.world.client.clone(), &namespace);
        let written = write::status(&api, MANAGER, check, &old, &plan.status).await;
        let fail = |source| Error::Write { what: "the status of machinehealthcheck", name: check.name_any(), source };
        if written.map_err(fail)?.is_some() {
            self.context.metrics.wrote("MachineHealthCheck");
        }
        Ok(())
    }

    fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.said.lock().remove(key);
        self.suspected.lock().remove(key);
        self.strength.lock().remove(key);
        self.claims.forget(key);
        match self.vintage {
            Vintage::Today => {
                self.context.forget::<MachineHealthCheck>(key);
                self.context.metrics.forget_check(key);
            }
            Vintage::Legacy => {
                self.context.forget::<LegacyCheck>(key);
                // A check of today with the same name counts in the same series.
                if self.context.world.checks.get(key).is_none() {
                    self.context.metrics.forget_check(key);
                }
            }
        }
    }
}
