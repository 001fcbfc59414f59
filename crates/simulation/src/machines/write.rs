//! Single writes of the controllers, other than those of a Machine's own pass.

use std::collections::BTreeMap;

use api::machine::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, Machine, MachineDeployment, MachineDeploymentStatus,
    MachineHealthCheck, MachineHealthCheckStatus, MachineSet, MachineSetStatus, annotation,
};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use machine::deployment::SetChange;
use machine::link::NodePatch;

use super::Kind;
use super::api::{Guard, Kept, Refused, time};
use super::world::{Why, World};
use crate::random::Random;

/// One write.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// Claims the check or the control plane's set for what follows.
    Claim(String),
    Status(Box<Status>),
    Annotate(BTreeMap<String, String>),
    CreateMachine(Box<Machine>),
    DeleteMachine {
        name: String,
        uid: String,
        why: Why,
    },
    AdoptMachine {
        name: String,
        uid: String,
        owner: OwnerReference,
    },
    ReleaseMachine {
        name: String,
        uid: String,
        owner: String,
    },
    Mark {
        name: String,
        matches: bool,
    },
    CreateSet(Box<MachineSet>),
    AdoptSet {
        name: String,
        uid: String,
        owner: OwnerReference,
    },
    /// Changes a set; its deployment may have so many machines at most.
    UpdateSet {
        name: String,
        guard: Guard,
        change: SetChange,
        most: i32,
        deployment: String,
        generation: Option<i64>,
        by: &'static str,
    },
    DeleteSet {
        name: String,
        guard: Guard,
    },
    NodeRef {
        machine: String,
        guard: Guard,
        node_ref: ObjectReference,
    },
    PatchNode {
        name: String,
        guard: Guard,
        patch: NodePatch,
    },
    RemoveOrphan(String),
}

/// A new status of the object that a job is about.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Set(MachineSetStatus),
    Deployment(MachineDeploymentStatus),
    Check(MachineHealthCheckStatus),
    ControlPlane(ControlPlaneMachineSetStatus),
}

impl Write {
    /// Carries the write out. `own` expects the object that the job is about, as this process last saw or wrote it.
    pub(crate) fn perform(
        self,
        world: &mut World,
        object: &str,
        own: &mut Guard,
        random: &mut Random,
    ) -> Result<(), Refused> {
        match self {
            Self::Claim(text) => claim(world, object, own, &text),
            Self::Status(status) => write_status(world, object, own, *status),
            Self::Annotate(annotations) => {
                let edited = world.api.edit::<MachineDeployment>(object, own, |it| {
                    it.metadata.annotations.get_or_insert_default().extend(annotations);
                })?;
                *own = edited.guard();
                Ok(())
            }
            Self::CreateMachine(machine) => {
                world.tell(|| format!("{object} creates machine {}", machine.name()));
                match world.api.create(*machine) {
                    // An earlier plan asked for the same name.
                    Ok(_) | Err(Refused::Exists) => Ok(()),
                    Err(refused) => Err(refused),
                }
            }
            Self::DeleteMachine { name, uid, why } => match world.delete_machine(&name, &uid, &why) {
                Ok(()) | Err(Refused::NotFound) => Ok(()),
                Err(Refused::Conflict) if !matches!(why, Why::Check(..)) => Ok(()),
                Err(refused) => Err(refused),
            },
            Self::AdoptMachine { name, uid, owner } => {
                let guard = Guard { uid: Some(uid), version: None };
                world.api.edit::<Machine>(&name, &guard, |it| adopt(it, owner)).map(drop)
            }
            Self::ReleaseMachine { name, uid, owner } => {
                let guard = Guard { uid: Some(uid), version: None };
                let release = |it: &mut Machine| {
                    it.metadata.owner_references.get_or_insert_default().retain(|other| other.uid != owner);
                };
                world.api.edit::<Machine>(&name, &guard, release).map(drop)
            }
            Self::Mark { name, matches } => {
                let mark = |it: &mut Machine| {
                    let annotations = it.metadata.annotations.get_or_insert_default();
                    annotations.insert(annotation::MATCHES_TEMPLATE.to_owned(), matches.to_string());
                };
                world.api.edit::<Machine>(&name, &Guard::default(), mark).map(drop)
            }
            Self::CreateSet(set) => {
                world.tell(|| format!("{object} creates set {} of {:?}", set.name(), set.spec.replicas));
                world.api.create(*set).map(drop)
            }
            Self::AdoptSet { name, uid, owner } => {
                let guard = Guard { uid: Some(uid), version: None };
                world.api.edit::<MachineSet>(&name, &guard, |it| adopt(it, owner)).map(drop)
            }
            Self::UpdateSet { name, guard, change, most, deployment, generation, by } => {
                // A plan on an older template may only be judged by what it knew.
                let current = world.api.get::<MachineDeployment>(&deployment).and_then(|it| it.metadata.generation);
                let is_alone = world.is_alone(by);
                let most = if current == generation && is_alone { most } else { i32::MAX };
                update_set(world, &name, &guard, change, most, &deployment)
            }
            Self::DeleteSet { name, guard } => {
                world.tell(|| format!("{object} deletes set {name}"));
                world.api.delete::<MachineSet>(&name, &guard)
            }
            Self::NodeRef { machine, guard, node_ref } => {
                world.tell(|| format!("machine {machine} is linked to {:?}", node_ref.name));
                let now = time(world.now());
                let link = |it: &mut Machine| {
                    let status = it.status.get_or_insert_default();
                    status.node_ref = Some(node_ref);
                    status.last_updated = Some(now);
                };
                world.api.edit::<Machine>(&machine, &guard, link).map(drop)
            }
            Self::PatchNode { name, guard, patch } => {
                world.api.edit::<Node>(&name, &guard, |node| patch_node(node, patch)).map(drop)
            }
            Self::RemoveOrphan(id) => {
                world.remove_orphan(&id, random);
                Ok(())
            }
        }
    }
}

fn adopt<K: Kept>(object: &mut K, owner: OwnerReference) {
    if object.owner().is_none() {
        object.meta_mut().owner_references.get_or_insert_default().push(owner);
    }
}

fn claim(world: &mut World, object: &str, own: &mut Guard, text: &str) -> Result<(), Refused> {
    world.tell(|| format!("{text:?} claims {object}"));
    fn write<K: Kept>(world: &mut World, object: &str, own: &Guard, text: &str) -> Result<Guard, Refused> {
        let entry = (annotation::CLAIM.to_owned(), text.to_owned());
        let edited = world.api.edit::<K>(object, own, |it| {
            it.meta_mut().annotations.get_or_insert_default().extend([entry]);
        })?;
        Ok(edited.guard())
    }
    // The names of these three kinds differ in every run.
    *own = if world.api.get::<ControlPlaneMachineSet>(object).is_some() {
        write::<ControlPlaneMachineSet>(world, object, own, text)?
    } else if world.api.get::<MachineSet>(object).is_some() {
        write::<MachineSet>(world, object, own, text)?
    } else {
        write::<MachineHealthCheck>(world, object, own, text)?
    };
    Ok(())
}

fn write_status(world: &mut World, object: &str, own: &mut Guard, status: Status) -> Result<(), Refused> {
    let api = &mut world.api;
    *own = match status {
        Status::Set(status) => api.edit::<MachineSet>(object, own, |it| it.status = Some(status))?.guard(),
        Status::Deployment(status) => {
            api.edit::<MachineDeployment>(object, own, |it| it.status = Some(status))?.guard()
        }
        Status::Check(status) => api.edit::<MachineHealthCheck>(object, own, |it| it.status = Some(status))?.guard(),
        Status::ControlPlane(status) => {
            api.edit::<ControlPlaneMachineSet>(object, own, |it| it.status = Some(status))?.guard()
        }
    };
    Ok(())
}

fn update_set(
    world: &mut World,
    name: &str,
    guard: &Guard,
    change: SetChange,
    most: i32,
    deployment: &str,
) -> Result<(), Refused> {
    world.tell(|| format!("{deployment} changes set {name} to {:?}", change.replicas));
    let before = world.api.get::<MachineSet>(name).and_then(|it| it.spec.replicas).unwrap_or(0);
    let grows = change.replicas.is_some_and(|replicas| replicas > before);
    world.api.edit::<MachineSet>(name, guard, |it| {
        it.spec.replicas = change.replicas.or(it.spec.replicas);
        it.spec.min_ready_seconds = change.min_ready_seconds.or(it.spec.min_ready_seconds);
        let annotations = it.metadata.annotations.get_or_insert_default();
        for (key, value) in change.annotations {
            match value {
                Some(value) => annotations.insert(key, value),
                None => annotations.remove(&key),
            };
        }
    })?;
    let uid = world.api.get::<MachineDeployment>(deployment).map(|it| it.uid().to_owned());
    let sets = world.api.all::<MachineSet>().filter(|it| uid.as_deref() == it.owner());
    let total: i32 = sets.filter_map(|it| it.spec.replicas).sum();
    if grows && total > most {
        world.violate(Kind::Surge, format!("{deployment} wants {total} machines, and may have {most} at most"));
    }
    Ok(())
}

fn patch_node(node: &mut Node, patch: NodePatch) {
    let NodePatch { labels, annotations, taints } = patch;
    let apply = |present: &mut BTreeMap<String, String>, changes: BTreeMap<String, Option<String>>| {
        for (key, value) in changes {
            match value {
                Some(value) => present.insert(key, value),
                None => present.remove(&key),
            };
        }
    };
    apply(node.metadata.labels.get_or_insert_default(), labels);
    apply(node.metadata.annotations.get_or_insert_default(), annotations);
    if let Some(taints) = taints {
        node.spec.get_or_insert_default().taints = Some(taints);
    }
}
