//! What one process sees of the API: a watch for each kind, each behind the truth by as much as it likes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::machine::{ControlPlaneMachineSet, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::api::{Api, Kept, Shelf};

/// A watch that works is behind by no more than this. The shells of the controllers build on that: what they wrote and what
/// has not shown although the watch told something else ten seconds later is taken for gone.
const LAG: SignedDuration = SignedDuration::from_secs(8);

/// A watch that tells nothing is believed for so long.
const BELIEVED: SignedDuration = SignedDuration::from_secs(120);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    #[default]
    Works,
    /// The connection is dead, and nobody has noticed.
    Silent(Timestamp),
    /// The list fails, and that is known.
    Fails,
}

/// One object before and after a change.
pub(crate) struct Change<K> {
    pub(crate) name: String,
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<Arc<K>>,
}

/// One watch.
#[derive(Debug)]
pub(crate) struct Sight<K> {
    pub(crate) objects: BTreeMap<String, Arc<K>>,
    position: usize,
    pub(crate) watch: Watch,
}

impl<K> Default for Sight<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), position: 0, watch: Watch::Works }
    }
}

impl<K> Sight<K> {
    /// Takes in at most so many events.
    fn pull(&mut self, shelf: &Shelf<K>, now: Timestamp, most: Option<usize>) -> Vec<Change<K>> {
        if self.watch != Watch::Works {
            return Vec::new();
        }
        let old = shelf.log[self.position..].iter().take_while(|(at, ..)| now.duration_since(*at) > LAG).count();
        let end = most.map_or(shelf.log.len(), |most| shelf.log.len().min(self.position + most.max(old)));
        let mut changes = Vec::new();
        for (_, name, new) in &shelf.log[self.position..end] {
            let old = match new {
                Some(new) => self.objects.insert(name.clone(), new.clone()),
                None => self.objects.remove(name),
            };
            changes.push(Change { name: name.clone(), old, new: new.clone() });
        }
        self.position = end;
        changes
    }

    /// Reads the list anew.
    fn list(&mut self, shelf: &Shelf<K>) -> Vec<Change<K>> {
        self.objects.clone_from(&shelf.objects);
        self.position = shelf.log.len();
        self.watch = Watch::Works;
        let change = |(name, new): (&String, &Arc<K>)| Change { name: name.clone(), old: None, new: Some(new.clone()) };
        self.objects.iter().map(change).collect()
    }

    /// Whether what is seen may be acted on.
    pub(crate) fn is_known(&self, now: Timestamp) -> bool {
        match self.watch {
            Watch::Works => true,
            Watch::Silent(since) => now.duration_since(since) < BELIEVED,
            Watch::Fails => false,
        }
    }
}

/// All watches of a process.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) machines: Sight<Machine>,
    pub(crate) sets: Sight<MachineSet>,
    pub(crate) deployments: Sight<MachineDeployment>,
    pub(crate) checks: Sight<MachineHealthCheck>,
    pub(crate) control_planes: Sight<ControlPlaneMachineSet>,
    pub(crate) nodes: Sight<Node>,
}

/// What a process hears at once.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) machines: Vec<Change<Machine>>,
    pub(crate) sets: Vec<Change<MachineSet>>,
    pub(crate) deployments: Vec<Change<MachineDeployment>>,
    pub(crate) checks: Vec<Change<MachineHealthCheck>>,
    pub(crate) control_planes: Vec<Change<ControlPlaneMachineSet>>,
    pub(crate) nodes: Vec<Change<Node>>,
}

impl View {
    /// Takes in events, at most so many of each kind.
    pub(crate) fn pull(&mut self, api: &Api, mut most: impl FnMut() -> Option<usize>) -> News {
        News {
            machines: self.machines.pull(Machine::shelf(api), api.now, most()),
            sets: self.sets.pull(MachineSet::shelf(api), api.now, most()),
            deployments: self.deployments.pull(MachineDeployment::shelf(api), api.now, most()),
            checks: self.checks.pull(MachineHealthCheck::shelf(api), api.now, most()),
            control_planes: self.control_planes.pull(ControlPlaneMachineSet::shelf(api), api.now, most()),
            nodes: self.nodes.pull(Node::shelf(api), api.now, most()),
        }
    }

    /// Lists everything, as a process does that starts.
    pub(crate) fn list(&mut self, api: &Api) -> News {
        News {
            machines: self.machines.list(Machine::shelf(api)),
            sets: self.sets.list(MachineSet::shelf(api)),
            deployments: self.deployments.list(MachineDeployment::shelf(api)),
            checks: self.checks.list(MachineHealthCheck::shelf(api)),
            control_planes: self.control_planes.list(ControlPlaneMachineSet::shelf(api)),
            nodes: self.nodes.list(Node::shelf(api)),
        }
    }

    /// Breaks or mends one of the watches.
    pub(crate) fn set_watch(&mut self, which: usize, watch: Watch) {
        let watches = [
            &mut self.machines.watch,
            &mut self.sets.watch,
            &mut self.deployments.watch,
            &mut self.checks.watch,
            &mut self.control_planes.watch,
            &mut self.nodes.watch,
        ];
        let count = watches.len();
        if let Some(place) = watches.into_iter().nth(which % count) {
            *place = watch;
        }
    }

    pub(crate) fn mend(&mut self) {
        (0..6).for_each(|which| self.set_watch(which, Watch::Works));
    }
}
