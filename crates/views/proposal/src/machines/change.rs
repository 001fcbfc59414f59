//! Lays what a user would apply or delete over a fleet.

use api::machine::{Machine, MachineSet};
use api::names::MACHINE_API_NAMESPACE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::rehearsal::Rehearsal;
use super::{Error, Kind, Name};

impl Rehearsal<'_> {
    pub(super) fn apply(&mut self, manifest: &Value) -> Result<(), Error> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (kind, name) = (text("/kind").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
        let Some(kind) = Kind::named(&kind) else { return Err(Error::Unknown { kind, name }) };
        let mut manifest = manifest.clone();
        api::translate(&mut manifest);
        let asked = Name { kind, namespace: text("/metadata/namespace"), name };
        let now = self.fleet.now;
        match kind {
            Kind::Machine => self.apply_machine(&asked, &manifest)?,
            Kind::MachineSet => {
                let (index, _) = laid_over(&mut self.world.sets, &asked, &manifest, now)?;
                let set = &self.world.sets[index];
                self.concerned.sets.insert(set.uid().unwrap_or_default());
            }
            Kind::MachineDeployment => {
                let (index, _) = laid_over(&mut self.world.deployments, &asked, &manifest, now)?;
                let deployment = &self.world.deployments[index];
                self.concerned.deployments.insert(deployment.uid().unwrap_or_default());
            }
            Kind::ControlPlaneMachineSet => {
                laid_over(&mut self.world.control_planes, &asked, &manifest, now)?;
                self.concerned.control_plane = true;
            }
        }
        Ok(())
    }

    /// A Machine that exists keeps its instance whatever its spec says from now on.
    fn apply_machine(&mut self, asked: &Name, manifest: &Value) -> Result<(), Error> {
        let old = self.world.machines.clone();
        let (index, is_new) = laid_over(&mut self.world.machines, asked, manifest, self.fleet.now)?;
        let machine = self.world.machines[index].clone();
        if is_new {
            self.world.machines.remove(index);
            self.arrive(machine, "you".to_owned());
            return Ok(());
        }
        let before = old.iter().find(|it| it.name_any() == machine.name_any() && it.namespace() == machine.namespace());
        if before.is_some_and(|before| before.spec.provider_value() != machine.spec.provider_value()) {
            let name = machine.name_any();
            self.note(format!(
                "Machine {name}: its instance stays as it was made; delete the machine to get one of the new spec"
            ));
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, asked: &Name) -> Result<(), Error> {
        let missing = || Error::NothingToDelete { kind: asked.kind, name: asked.name.clone() };
        match asked.kind {
            Kind::Machine => {
                let index = found(&self.world.machines, asked).ok_or_else(missing)?;
                let machine = self.world.machines.remove(index);
                // Whoever controls it makes another.
                let controller = machine.owner_references().iter().find(|owner| owner.controller == Some(true));
                match controller {
                    Some(owner) if owner.kind == "MachineSet" => {
                        self.concerned.sets.insert(owner.uid.clone());
                        self.concern_deployment_of(&owner.uid.clone());
                    }
                    Some(owner) if owner.kind == "ControlPlaneMachineSet" => self.concerned.control_plane = true,
                    Some(_) => {}
                    None => {
                        let name = machine.name_any();
                        self.note(format!("Machine {name}: nothing controls it, so no other machine takes its place"));
                    }
                }
                self.depart(&machine, "you", "it is deleted");
            }
            Kind::MachineSet => {
                let index = found(&self.world.sets, asked).ok_or_else(missing)?;
                let set = self.world.sets.remove(index);
                self.concern_deployment(&set);
                self.lose_machines(&set);
            }
            Kind::MachineDeployment => {
                let index = found(&self.world.deployments, asked).ok_or_else(missing)?;
                let deployment = self.world.deployments.remove(index);
                let sets = std::mem::take(&mut self.world.sets);
                let (lost, kept) = sets.into_iter().partition(|set| is_controlled(set, &deployment));
                self.world.sets = kept;
                let lost: Vec<MachineSet> = lost;
                lost.iter().for_each(|set| self.lose_machines(set));
            }
            Kind::ControlPlaneMachineSet => {
                let index = found(&self.world.control_planes, asked).ok_or_else(missing)?;
                self.world.control_planes.remove(index);
                self.note("ControlPlaneMachineSet: its machines stay, and nothing replaces them any more".to_owned());
            }
        }
        Ok(())
    }

    /// The machines of a set go with it, all at once.
    fn lose_machines(&mut self, set: &MachineSet) {
        let machines = std::mem::take(&mut self.world.machines);
        let (lost, kept) = machines.into_iter().partition(|machine| is_controlled(machine, set));
        self.world.machines = kept;
        let lost: Vec<Machine> = lost;
        let by = format!("MachineSet {}", set.name_any());
        lost.iter().for_each(|machine| self.depart(machine, &by, "its set is deleted"));
    }

    fn concern_deployment_of(&mut self, set: &str) {
        let set = self.world.sets.iter().find(|it| it.uid().as_deref() == Some(set)).cloned();
        if let Some(set) = set {
            self.concern_deployment(&set);
        }
    }

    fn concern_deployment(&mut self, set: &MachineSet) {
        let owner = set.owner_references().iter().find(|owner| owner.controller == Some(true));
        self.concerned.deployments.extend(owner.map(|owner| owner.uid.clone()));
    }
}

/// Whether the first object is controlled by the second.
pub(super) fn is_controlled<O: Resource, C: Resource>(object: &O, controller: &C) -> bool {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    owner.is_some_and(|owner| Some(&owner.uid) == controller.meta().uid.as_ref())
}

fn found<K: Resource>(objects: &[K], asked: &Name) -> Option<usize> {
    let is_asked = |object: &K| {
        object.name_any() == asked.name
            && asked.namespace.as_ref().is_none_or(|it| object.namespace().as_ref() == Some(it))
    };
    objects.iter().position(is_asked)
}

/// Puts an object as it would be in the place of the old one: fields of the spec that the manifest has are the manifest's,
/// labels and annotations are added. Gives its place, and whether it is new.
fn laid_over<K>(
    objects: &mut Vec<K>,
    asked: &Name,
    manifest: &Value,
    now: jiff::Timestamp,
) -> Result<(usize, bool), Error>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let refuse = |problem: String| Error::Object { kind: asked.kind, name: asked.name.clone(), problem };
    let index = found(objects, asked);
    let old = index.map(|index| serde_json::to_value(&objects[index])).transpose();
    let mut value = old.map_err(|error| refuse(error.to_string()))?.unwrap_or_else(|| Value::Object(Map::new()));
    for part in ["/metadata/labels", "/metadata/annotations", "/spec"] {
        let Some(added) = manifest.pointer(part).and_then(Value::as_object) else { continue };
        let mut place = &mut value;
        for key in part.split('/').skip(1) {
            if !place[key].is_object() {
                place[key] = Value::Object(Map::new());
            }
            place = &mut place[key];
        }
        added.iter().for_each(|(key, value)| place[key] = value.clone());
    }
    if index.is_none() {
        value["metadata"]["name"] = asked.name.clone().into();
        value["metadata"]["namespace"] = asked.namespace.as_deref().unwrap_or(MACHINE_API_NAMESPACE).into();
    }
    let mut object: K = serde_path_to_error::deserialize(&value)
        .map_err(|error| refuse(format!("{}: {}", error.path(), error.inner())))?;
    match index {
        Some(index) => {
            let meta = object.meta_mut();
            meta.generation = meta.generation.map(|generation| generation + 1);
            objects[index] = object;
            Ok((index, false))
        }
        None => {
            let uid = format!("planned {} {}", asked.kind, asked.name);
            let meta = object.meta_mut();
            (meta.uid, meta.creation_timestamp) = (Some(uid), Some(Time(now)));
            objects.push(object);
            Ok((objects.len() - 1, true))
        }
    }
}
