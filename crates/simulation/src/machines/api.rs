//! A simulated API server for the kinds of the machine half: versions, conflicts, finalizers, garbage, and logs that watches
//! read at their own pace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::machine::{ControlPlaneMachineSet, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflict,
    NotFound,
    Exists,
    /// Not answered. The write may have happened.
    Unanswered,
}

/// What a write expects of its object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

/// The objects of one kind, and every change to them.
#[derive(Debug)]
pub(crate) struct Shelf<K> {
    pub(crate) objects: BTreeMap<String, Arc<K>>,
    /// When, whose, and what it became.
    pub(crate) log: Vec<(Timestamp, String, Option<Arc<K>>)>,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), log: Vec::new() }
    }
}

/// A kind that the server keeps.
pub(crate) trait Kept: Clone + PartialEq + 'static {
    fn meta(&self) -> &ObjectMeta;
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    fn has_other_spec(&self, other: &Self) -> bool;
    fn shelf(api: &Api) -> &Shelf<Self>;
    fn shelf_mut(api: &mut Api) -> &mut Shelf<Self>;

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn is_leaving(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// The uid of its controller.
    fn owner(&self) -> Option<&str> {
        let owners = self.meta().owner_references.as_deref().unwrap_or_default();
        owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
    }

    /// Expects the object as it is.
    fn guard(&self) -> Guard {
        Guard { uid: self.meta().uid.clone(), version: self.meta().resource_version.clone() }
    }
}

macro_rules! kept {
    ($($kind:ty => $shelf:ident),* $(,)?) => {
        $(impl Kept for $kind {
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
            fn has_other_spec(&self, other: &Self) -> bool {
                self.spec != other.spec
            }
            fn shelf(api: &Api) -> &Shelf<Self> {
                &api.$shelf
            }
            fn shelf_mut(api: &mut Api) -> &mut Shelf<Self> {
                &mut api.$shelf
            }
        })*
    };
}

kept! {
    Machine => machines,
    MachineSet => sets,
    MachineDeployment => deployments,
    MachineHealthCheck => checks,
    ControlPlaneMachineSet => control_planes,
    Node => nodes,
}

#[derive(Debug, Default)]
pub(crate) struct Api {
    pub(crate) now: Timestamp,
    pub(crate) version: u64,
    pub(crate) machines: Shelf<Machine>,
    pub(crate) sets: Shelf<MachineSet>,
    pub(crate) deployments: Shelf<MachineDeployment>,
    pub(crate) checks: Shelf<MachineHealthCheck>,
    pub(crate) control_planes: Shelf<ControlPlaneMachineSet>,
    pub(crate) nodes: Shelf<Node>,
}

impl Api {
    pub(crate) fn get<K: Kept>(&self, name: &str) -> Option<&Arc<K>> {
        K::shelf(self).objects.get(name)
    }

    pub(crate) fn all<K: Kept>(&self) -> impl Iterator<Item = &Arc<K>> {
        K::shelf(self).objects.values()
    }

    pub(crate) fn create<K: Kept>(&mut self, mut object: K) -> Result<Arc<K>, Refused> {
        let name = object.name().to_owned();
        if self.get::<K>(&name).is_some() {
            return Err(Refused::Exists);
        }
        self.version += 1;
        let (version, now) = (self.version, self.now);
        let meta = object.meta_mut();
        meta.uid = Some(format!("uid-{version}"));
        meta.resource_version = Some(version.to_string());
        meta.generation = Some(1);
        // The server keeps whole seconds.
        meta.creation_timestamp = Some(machine::condition::whole_seconds(now));
        meta.deletion_timestamp = None;
        Ok(self.publish(&name, object))
    }

    /// Changes an object. One that changes nothing is no event; one that takes the last finalizer off an object that is being
    /// deleted removes it.
    pub(crate) fn edit<K: Kept>(
        &mut self,
        name: &str,
        guard: &Guard,
        edit: impl FnOnce(&mut K),
    ) -> Result<Arc<K>, Refused> {
        let old = self.get::<K>(name).ok_or(Refused::NotFound)?.clone();
        check(&*old, guard)?;
        let mut new = K::clone(&old);
        edit(&mut new);
        if new == *old {
            return Ok(old);
        }
        if new.has_other_spec(&old) {
            new.meta_mut().generation = old.meta().generation.map(|generation| generation + 1);
        }
        self.version += 1;
        new.meta_mut().resource_version = Some(self.version.to_string());
        if new.is_leaving() && new.meta().finalizers.as_ref().is_none_or(Vec::is_empty) {
            return Ok(self.remove(name, new));
        }
        Ok(self.publish(name, new))
    }

    pub(crate) fn delete<K: Kept>(&mut self, name: &str, guard: &Guard) -> Result<(), Refused> {
        let old = self.get::<K>(name).ok_or(Refused::NotFound)?.clone();
        check(&*old, guard)?;
        let now = machine::condition::whole_seconds(self.now);
        if old.meta().finalizers.as_ref().is_none_or(Vec::is_empty) {
            self.version += 1;
            self.remove(name, K::clone(&old));
            return Ok(());
        }
        self.edit::<K>(name, guard, |object| {
            object.meta_mut().deletion_timestamp.get_or_insert(now);
        })
        .map(|_| ())
    }

    /// Deletes what belongs to an owner that is gone.
    pub(crate) fn collect_garbage(&mut self) {
        let uids = |sets: &mut dyn Iterator<Item = String>| sets.collect::<BTreeSet<String>>();
        let deployments = uids(&mut self.all::<MachineDeployment>().map(|it| it.uid().to_owned()));
        let sets = ownerless::<MachineSet>(self, &deployments);
        for name in sets {
            let _gone = self.delete::<MachineSet>(&name, &Guard::default());
        }
        let mut owners = uids(&mut self.all::<MachineSet>().map(|it| it.uid().to_owned()));
        owners.extend(self.all::<ControlPlaneMachineSet>().map(|it| it.uid().to_owned()));
        let machines = ownerless::<Machine>(self, &owners);
        for name in machines {
            let _gone = self.delete::<Machine>(&name, &Guard::default());
        }
    }

    fn publish<K: Kept>(&mut self, name: &str, object: K) -> Arc<K> {
        let (now, object) = (self.now, Arc::new(object));
        let shelf = K::shelf_mut(self);
        shelf.objects.insert(name.to_owned(), object.clone());
        shelf.log.push((now, name.to_owned(), Some(object.clone())));
        object
    }

    fn remove<K: Kept>(&mut self, name: &str, last: K) -> Arc<K> {
        let now = self.now;
        let shelf = K::shelf_mut(self);
        shelf.objects.remove(name);
        shelf.log.push((now, name.to_owned(), None));
        Arc::new(last)
    }
}

fn check<K: Kept>(object: &K, guard: &Guard) -> Result<(), Refused> {
    let meta = object.meta();
    let differs = |wanted: &Option<String>, is: &Option<String>| wanted.is_some() && wanted != is;
    let differs = differs(&guard.uid, &meta.uid) || differs(&guard.version, &meta.resource_version);
    if differs { Err(Refused::Conflict) } else { Ok(()) }
}

fn ownerless<K: Kept>(api: &Api, owners: &BTreeSet<String>) -> Vec<String> {
    let is_orphan = |it: &&Arc<K>| !it.is_leaving() && it.owner().is_some_and(|owner| !owners.contains(owner));
    api.all::<K>().filter(is_orphan).map(|it| it.name().to_owned()).collect()
}

/// The time as objects carry it.
pub(crate) fn time(at: Timestamp) -> Time {
    machine::condition::whole_seconds(at)
}
