//! Machines that were taken away and whose replacements have not joined yet.
//!
//! A fast cloud makes a machine go within seconds, and another one joins minutes later. Were only the leaving ones to count,
//! a check would take all its machines away before the first replacement joins, or before anybody sees that none ever does.
//! Sets say how many machines they want, so a place counts until a machine has joined there. A set that is made larger lacks
//! nothing: only places that a machine once held count.

use std::collections::BTreeMap;

use api::machine::{ControlPlaneMachineSet, Machine, MachineSet, annotation};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::check::STARTUP;
use super::{Check, Round, Snapshot, Target, TargetNode, Verdict};
use crate::lifecycle::is_starved;

/// What a set wants of the machines that a check selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub machines: usize,
    /// The provider has no capacity or no quota for it.
    pub starved: bool,
}

/// What makes the machines of one kind of owner.
struct Maker<'a> {
    name: String,
    replicas: i32,
    /// Labels of new machines.
    labels: Option<&'a BTreeMap<String, String>>,
}

impl Snapshot {
    /// Adds what the sets want whose new machines the check will select, of the sets and machines of its namespace.
    #[must_use]
    pub fn with_sets<'a>(
        self,
        sets: impl IntoIterator<Item = &'a MachineSet>,
        machines: impl IntoIterator<Item = &'a Machine>,
    ) -> Self {
        // One that a deployment has replaced makes no machines any more.
        let is_ended = |set: &MachineSet| {
            let annotations = set.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(annotation::NO_NEW_MACHINES))
        };
        let makers = sets.into_iter().filter(|set| self.is_near(&set.metadata) && !is_ended(set)).filter_map(|set| {
            let template = set.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
            let labels = template.map(|metadata| &metadata.labels);
            Some(Maker { name: set.metadata.name.clone()?, replicas: set.spec.replicas?, labels })
        });
        let makers: Vec<_> = makers.collect();
        self.with(makers, machines)
    }

    /// Adds what the sets of the control plane want, likewise.
    #[must_use]
    pub fn with_control_planes<'a>(
        self,
        sets: impl IntoIterator<Item = &'a ControlPlaneMachineSet>,
        machines: impl IntoIterator<Item = &'a Machine>,
    ) -> Self {
        let makers = sets.into_iter().filter(|set| self.is_near(&set.metadata)).filter_map(|set| {
            let name = key(CONTROL_PLANE, set.metadata.name.as_deref()?);
            let labels = set.spec.template.machines.as_ref().map(|template| &template.metadata.labels);
            Some(Maker { name, replicas: set.spec.replicas?, labels })
        });
        let makers: Vec<_> = makers.collect();
        self.with(makers, machines)
    }

    fn with<'a>(mut self, makers: Vec<Maker>, machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let Ok(check) = &self.check else { return self };
        let none = BTreeMap::new();
        let selects = |labels: Option<&BTreeMap<String, String>>| check.selector.matches(labels.unwrap_or(&none));
        let wanted = makers.into_iter().filter(|maker| selects(maker.labels)).filter_map(|maker| {
            let machines = usize::try_from(maker.replicas).ok()?;
            Some((maker.name, Wanted { machines, starved: false }))
        });
        let mut wanted: BTreeMap<_, _> = wanted.collect();
        for machine in
            machines.into_iter().filter(|machine| machine.metadata.namespace.as_deref() == Some(&check.namespace))
        {
            let Some(own) = set_of(machine).and_then(|name| wanted.get_mut(&name)) else { continue };
            let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            own.starved |= is_starved(conditions);
            // A member that the check does not select holds a place of the set.
            if machine.metadata.deletion_timestamp.is_none() && !selects(machine.metadata.labels.as_ref()) {
                own.machines = own.machines.saturating_sub(1);
            }
        }
        self.sets.extend(wanted);
        self
    }

    /// Whether an object is in the check's namespace and is to stay.
    fn is_near(&self, metadata: &ObjectMeta) -> bool {
        let is_near = |check: &Check| metadata.namespace.as_deref() == Some(&check.namespace);
        self.check.as_ref().is_ok_and(is_near) && metadata.deletion_timestamp.is_none()
    }
}

/// What machines of the control plane belong to.
const CONTROL_PLANE: &str = "ControlPlaneMachineSet";

/// Sets go by their names, which have no slash, and those of the control plane by their kind too.
fn key(kind: &str, name: &str) -> String {
    if kind == CONTROL_PLANE { format!("{kind}/{name}") } else { name.to_owned() }
}

/// The set that controls a machine.
pub(super) fn set_of(machine: &Machine) -> Option<String> {
    let owners = machine.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    ["MachineSet", CONTROL_PLANE].contains(&owner.kind.as_str()).then(|| key(&owner.kind, &owner.name))
}

/// The places of one set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    /// Machines were in so many at best, as far as the set still wants them.
    best: usize,
    /// Machines are in so many.
    held: usize,
    leaving: usize,
    /// The provider has nothing for new machines of the set.
    starved: bool,
}

impl Places {
    /// Places that are under remediation: left, and not taken by a machine that joined. Those that the provider has nothing
    /// for may stay empty for days, and hold their own set instead of everybody.
    pub(super) fn open(self) -> usize {
        if self.starved { self.leaving } else { self.lacking().max(self.leaving) }
    }

    /// Whether the set gets no replacement for what it lost.
    pub(super) fn is_stuck(self) -> bool {
        self.starved && self.empty() > 0
    }

    /// Places that nobody holds and nobody leaves.
    pub(super) fn empty(self) -> usize {
        self.lacking().saturating_sub(self.leaving)
    }

    fn lacking(self) -> usize {
        self.best.saturating_sub(self.held)
    }
}

impl Round<'_> {
    /// The places of every set that makes machines for this check.
    pub(super) fn places(&self) -> BTreeMap<&str, Places> {
        let mut all: BTreeMap<&str, Places> =
            self.snapshot.sets.keys().map(|name| (name.as_str(), Places::default())).collect();
        for (target, verdict) in &self.judged {
            let Some(places) = target.set.as_deref().and_then(|set| all.get_mut(set)) else { continue };
            if target.deleting {
                places.leaving += 1;
            } else if self.waits(target, verdict).is_none() {
                places.held += usize::from(has_joined(target) || matches!(verdict, Verdict::Booting(None)));
            }
        }
        for (name, places) in &mut all {
            let wanted = self.snapshot.sets.get(*name).copied().unwrap_or_default();
            places.starved = wanted.starved;
            let before = match &self.snapshot.strength {
                Some(known) => known.get(*name).copied().unwrap_or(places.held),
                // Nobody remembers which places were held. All of them may have been, except where it shows that the cloud
                // has nothing to give: such a set would hold the check for as long as that lasts.
                None if wanted.starved => places.held,
                None => wanted.machines,
            };
            places.best = before.max(places.held).min(wanted.machines);
        }
        all
    }

    /// What the next plan is to know of the places of sets.
    pub(super) fn strength(&self) -> BTreeMap<String, usize> {
        self.places().into_iter().map(|(name, places)| (name.to_owned(), places.best)).collect()
    }

    /// When a machine that may boot for ever is not waited for any more.
    pub(super) fn next_overdue(&self) -> Option<SignedDuration> {
        self.judged.iter().filter_map(|(target, verdict)| self.waits(target, verdict)).min()
    }

    /// How much longer a machine without a node that may boot for ever counts as one that has not joined yet.
    fn waits(&self, target: &Target, verdict: &Verdict) -> Option<SignedDuration> {
        let started = target.started.filter(|_| *verdict == Verdict::Booting(None))?;
        let left = STARTUP - self.snapshot.now.duration_since(started);
        (!left.is_negative()).then_some(left + SignedDuration::from_secs(1))
    }
}

/// Whether the machine has got a node once.
pub(super) fn has_joined(target: &Target) -> bool {
    target.node != TargetNode::None
}
