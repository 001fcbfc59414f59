//! Carries out the ControlPlaneMachineSet: replaces machines of the control plane one at a time.
//!
//! Which machine comes and which goes is decided by `machine::control_plane_set`. Here etcd's members are counted where they
//! run as pods; off OpenShift, adding and removing members is not our work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::known::Reading;
use api::machine::{ControlPlaneMachineSet, Machine};
use api::machinist::PoolLedger;
use api::names::POOL_MASTER;
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::write::in_time;
use cluster::{Outcome, Problem, Queue, problem, read};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use machine::control_plane_set::{self, Action, Etcd, NAME, Next, Plan, Snapshot, Waiting};
use rollout::EtcdMember;
use rollout::control_plane::ETCD;
use tokio::time::Instant;

use crate::claim::Claims;
use crate::context::{Context, UNREAD};
use crate::expectations::Expectations;
use crate::index::node_name;
use crate::{delete, owners, write};

const MANAGER: &str = "machinist-controlplanemachineset";

/// The control plane is waited for so long until nothing of it changes: it moves one machine at a time.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);

/// How often etcd is asked whether it can spare a member. Its pods are not watched.
const QUORUM: Duration = Duration::from_secs(10);

pub(crate) struct ControlPlane {
    context: Arc<Context>,
    queue: Queue<Key>,
    expectations: Expectations,
    claims: Claims,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {what} {name}")]
struct Error {
    what: &'static str,
    name: String,
    #[source]
    source: kube::Error,
}

/// What could not be read, and why.
struct Unseen {
    what: &'static str,
    why: String,
}

impl ControlPlane {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, queue: Queue::default(), expectations: Expectations::default(), claims: Claims::default() }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(1, |key| self.clone().reconcile(key)).await;
    }

    /// The set or something about the Machines of its namespace changed.
    pub(crate) fn disturbed(&self, key: Key) {
        self.queue.add_quiet(key, QUIET, LONGEST);
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Outcome {
        let world = &self.context.world;
        let known =
            world.control_planes_known().and_then(|()| world.machines_known()).and_then(|()| world.nodes_known());
        if let Err(unread) = known {
            tracing::debug!(?key, %unread, "nothing is done for the control plane");
            return UNREAD;
        }
        let Some(set) = world.control_planes.get(&key).filter(|_| key.name == NAME) else {
            self.expectations.forget(&key);
            self.claims.forget(&key);
            self.context.forget::<ControlPlaneMachineSet>(&key);
            return Outcome::Done;
        };
        // Others are waited for from when their claim was first seen.
        let claimed_elsewhere = self.claims.foreign(&key, &*set, &self.context.settings.identity);
        if let Some(wait) = self.expectations.open(&key, &world.machines) {
            return Outcome::Again(wait);
        }
        if let Some(wait) = claimed_elsewhere {
            tracing::debug!(?key, ?wait, "another process acts for the control plane");
            return Outcome::Again(wait);
        }
        let plan = control_plane_set::plan(&self.snapshot(&key, &set).await);
        tracing::debug!(?key, actions = ?plan.actions, next = ?plan.next, "planned");
        match self.apply(&key, &set, &plan).await {
            Ok(()) => self.outcome(&set, &plan),
            Err(error) if matches!(problem(&error.source), Problem::Conflict | Problem::NotFound) => Outcome::Retry,
            Err(error) => {
                tracing::warn!(?key, error = &error as &dyn std::error::Error, "cannot carry out the plan");
                let message = cluster::error::chain(&error);
                self.context.tell(&*set, Severity::Warning, "ReconcileError", &message);
                Outcome::Retry
            }
        }
    }

    async fn snapshot(&self, key: &Key, set: &ControlPlaneMachineSet) -> Snapshot {
        let etcd = self.etcd().await;
        let world = &self.context.world;
        let mut machines = world.machines.all();
        machines.retain(|machine| machine.metadata.namespace.as_deref() == Some(&*key.namespace));
        let names = machines.iter().filter_map(|machine| node_name(machine));
        let nodes: HashMap<&str, _> = names.filter_map(|name| Some((name, world.node(name)?))).collect();
        let node = |name: &str| nodes.get(name).map(|node| &***node);
        let objects = machines.iter().map(|machine| &**machine);
        let mut snapshot = Snapshot::from_objects(set, objects, node, etcd, Timestamp::now());
        snapshot.unmanaged_nodes = self.unmanaged_nodes();
        snapshot
    }

    /// Nodes of the control plane that no Machine names.
    fn unmanaged_nodes(&self) -> Vec<String> {
        let index = self.context.index.lock();
        index.control_plane().into_iter().filter(|node| index.of_node(node).is_empty()).collect()
    }

    /// Counts the members of etcd as rollouts do: those that run as pods, and those that the ledger remembers.
    async fn etcd(&self) -> Etcd {
        let unseen = |Unseen { what, why }| {
            tracing::warn!(what, why, "cannot count the members of etcd");
            Etcd::Unknown
        };
        let members = match self.members().await {
            Ok(members) => members,
            Err(error) => return unseen(error),
        };
        if members.is_empty() {
            // It may run inside another process, or under labels that nobody told us.
            return if self.context.settings.etcd_elsewhere { Etcd::Elsewhere } else { Etcd::Unknown };
        }
        let recorded = match self.recorded().await {
            Ok(recorded) => recorded,
            Err(error) => return unseen(error),
        };
        let world = &self.context.world;
        // Pods start anew with their nodes; nodes are made once.
        let made =
            |member: &&EtcdMember| world.node(&member.node)?.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let newest = members.iter().max_by_key(made).map(|member| member.node.as_str());
        let all = rollout::control_plane::members_to_lose(&members, recorded, newest);
        Etcd::Members { seen: members.into_iter().map(|member| (member.node, member.ready)).collect(), all }
    }

    /// The members that run as pods.
    async fn members(&self) -> Result<Vec<EtcdMember>, Unseen> {
        let mut members = Vec::new();
        for (namespace, labels) in ETCD {
            let api: Api<Pod> = Api::namespaced(self.context.world.client.clone(), namespace);
            match read::list(&api, ListParams::default().labels(labels)).await {
                Reading::Known { value, .. } => members.extend(value.iter().filter_map(EtcdMember::from_pod)),
                Reading::NotInstalled => {}
                Reading::Unknown(why) => return Err(Unseen { what: namespace, why }),
            }
        }
        Ok(members)
    }

    /// How many members the pool's ledger remembers. Rollouts write it.
    async fn recorded(&self) -> Result<Option<i32>, Unseen> {
        let api: Api<PoolLedger> = Api::all(self.context.world.client.clone());
        match read::get(&api, POOL_MASTER).await {
            Reading::Known { value, .. } => Ok(value.and_then(|ledger| ledger.spec.etcd_members)),
            Reading::NotInstalled => Ok(None),
            Reading::Unknown(why) => Err(Unseen { what: "poolledgers", why }),
        }
    }

    async fn apply(&self, key: &Key, set: &ControlPlaneMachineSet, plan: &Plan) -> Result<(), Error> {
        let planned = Instant::now();
        let client = &self.context.world.client;
        let api: Api<Machine> = Api::namespaced(client.clone(), &key.namespace);
        let sets: Api<ControlPlaneMachineSet> = Api::namespaced(client.clone(), &key.namespace);
        let fail = |source| Error { what: "controlplanemachineset", name: key.name.clone(), source };
        let is_adoption = |action: &Action| matches!(action, Action::Adopt { .. });
        if plan.actions.iter().any(is_adoption) && !owners::may_adopt(&sets, set).await.map_err(fail)? {
            return Ok(());
        }
        let leaving = plan.actions.iter().filter_map(|action| match action {
            Action::Delete { name, .. } => Some(name.as_str()),
            Action::Adopt { .. } | Action::Create(_) => None,
        });
        let leaving: Vec<_> = leaving.collect();
        let identity = &self.context.settings.identity;
        let claimed = match leaving.as_slice() {
            [] => None,
            leaving => Some(Claims::take(&sets, MANAGER, set, identity, leaving, planned).await.map_err(fail)?),
        };
        let set = claimed.as_ref().map_or(set, |(set, _)| set);
        for action in &plan.actions {
            if claimed.as_ref().is_some_and(|(_, claim)| !claim.is_good()) {
                // The claim shows as a change, and the set is planned anew.
                return Ok(());
            }
            self.act(key, set, &api, action).await?;
        }
        let old = set.status.clone().unwrap_or_default();
        let written = write::status(&sets, MANAGER, set, &old, &plan.status).await;
        if written.map_err(fail)?.is_some() {
            self.context.metrics.wrote("ControlPlaneMachineSet");
        }
        Ok(())
    }

    async fn act(
        &self,
        key: &Key,
        set: &ControlPlaneMachineSet,
        api: &Api<Machine>,
        action: &Action,
    ) -> Result<(), Error> {
        let fail = |name: &str| {
            let name = name.to_owned();
            |source| Error { what: "machine", name, source }
        };
        match action {
            Action::Adopt { name, uid } => {
                let adopted = owners::adopt(api, MANAGER, name, uid, owners::controller(set)).await;
                adopted.map_err(fail(name))?;
            }
            Action::Create(machine) => {
                let name = machine.name_any();
                let expected = Key::in_namespace(&key.namespace, &name);
                self.expectations.created(key, expected.clone());
                let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                match in_time(api.create(&parameters, machine)).await {
                    Ok(_) => {}
                    // An earlier plan asked for the same name.
                    Err(error) if problem(&error) == Problem::Conflict => {}
                    Err(source) => {
                        self.expectations.failed(key, &expected, &source);
                        return Err(fail(&name)(source));
                    }
                }
            }
            Action::Delete { name, uid } => {
                let machine = Key::in_namespace(&key.namespace, name);
                self.expectations.deleted(key, machine.clone(), uid);
                let deleted = delete::by_uid(api, name, uid).await;
                if let Err(error) = &deleted {
                    self.expectations.failed(key, &machine, error);
                }
                deleted.map_err(fail(name))?;
            }
        }
        self.context.metrics.wrote("Machine");
        Ok(())
    }

    fn outcome(&self, set: &ControlPlaneMachineSet, plan: &Plan) -> Outcome {
        let Next::OnChange(waiting) = &plan.next;
        match waiting {
            Waiting::Quorum(_) => {
                self.context.tell(set, Severity::Warning, "QuorumGuard", &waiting.to_string());
                Outcome::Again(QUORUM)
            }
            Waiting::Member { .. } => {
                self.context.tell(set, Severity::Normal, "WaitingForEtcd", &waiting.to_string());
                Outcome::Again(QUORUM)
            }
            Waiting::Degraded(trouble) => {
                self.context.tell(set, Severity::Warning, "Degraded", &trouble.to_string());
                Outcome::Done
            }
            Waiting::Nodes => UNREAD,
            Waiting::Settled
            | Waiting::Inactive
            | Waiting::BeingDeleted
            | Waiting::Replacement(_)
            | Waiting::Removal(_)
            | Waiting::Unready(_)
            | Waiting::Deletion(_) => Outcome::Done,
        }
    }
}
