//! The sets of a deployment, while a step is decided.

use std::collections::BTreeMap;

use api::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use api::machine::{MachineDeploymentStatus, MachineSet, annotation};

use super::{Action, Goal, Mode, SetChange, Snapshot, Waiting, naming, revision};
use crate::set::selector_text;
use crate::template;

/// One set and the size it shall have.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) set: MachineSet,
    pub(super) replicas: i32,
}

/// All sets of a deployment.
pub(super) struct Family {
    /// The set of the present template. In front of its creation it has no uid.
    pub(super) new: Option<Child>,
    /// The others, oldest first.
    pub(super) old: Vec<Child>,
    orphans: Vec<MachineSet>,
    /// Names of all sets in the namespace.
    pub(super) taken: Vec<String>,
}

impl Family {
    pub(super) fn of(snapshot: &Snapshot, goal: &Goal) -> Self {
        let uid = snapshot.deployment.metadata.uid.as_deref();
        let controller = |set: &MachineSet| {
            let owners = set.metadata.owner_references.clone().unwrap_or_default();
            owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid)
        };
        let chosen = |set: &&MachineSet| {
            let labels = set.metadata.labels.clone().unwrap_or_default();
            set.metadata.deletion_timestamp.is_none() && goal.selector.matches(&labels)
        };
        let mut mine: Vec<MachineSet> = snapshot.sets.iter().filter(chosen).cloned().collect();
        mine.retain(|set| controller(set).is_none_or(|owner| Some(owner.as_str()) == uid));
        let orphans = mine.iter().filter(|set| controller(set).is_none()).cloned().collect();
        mine.sort_by_key(|set| (set.metadata.creation_timestamp.as_ref().map(|time| time.0), name(set)));
        let template = &goal.deployment.spec.template;
        let is_new = |set: &MachineSet| {
            let recorded = set.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TEMPLATE_HASH));
            let own = set.spec.template.clone().unwrap_or_default();
            recorded.is_some_and(|hash| *hash == template::hash(template)) || template::is_same(&own, template)
        };
        let new = mine.iter().position(is_new).map(|index| mine.remove(index)).map(Child::of);
        let old = mine.into_iter().map(Child::of).collect();
        Self { new, old, orphans, taken: snapshot.sets.iter().map(name).collect() }
    }

    pub(super) fn adoptions(&self) -> Vec<Action> {
        let adopt = |set: &MachineSet| Action::Adopt { name: name(set), uid: uid(set) };
        self.orphans.iter().map(adopt).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Child> {
        self.new.iter().chain(&self.old)
    }

    /// Wanted sizes of all sets together.
    pub(super) fn total(&self) -> i32 {
        self.all().map(|child| child.replicas).fold(0, i32::saturating_add)
    }

    /// What brings the sets to the sizes and annotations that were decided.
    pub(super) fn actions(&self, goal: &Goal) -> Vec<Action> {
        let mut actions = Vec::new();
        let revision = revision::of_new(self);
        if let Some(new) = &self.new {
            let wanted = self.annotations(goal, new, revision);
            if new.set.metadata.uid.is_none() {
                actions.push(Action::Create(Box::new(naming::finished(new, wanted))));
            } else {
                actions.extend(new.update(wanted, goal.min_ready_seconds));
            }
            let shown = goal.deployment.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
            if shown != Some(&revision.to_string()) {
                actions.push(Action::Annotate([(REVISION.to_owned(), revision.to_string())].into()));
            }
        }
        for child in &self.old {
            let mut wanted = sizes(goal);
            let frozen = (goal.mode == Mode::OnDelete).then(|| "true".to_owned());
            wanted.insert(annotation::NO_NEW_MACHINES.to_owned(), frozen);
            actions.extend(child.update(wanted, child.set.spec.min_ready_seconds.unwrap_or(0)));
        }
        actions
    }

    fn annotations(&self, goal: &Goal, new: &Child, revision: i64) -> BTreeMap<String, Option<String>> {
        let mut wanted: BTreeMap<_, _> =
            revision::copied(goal.deployment, &new.set).map(|(key, value)| (key, Some(value))).collect();
        wanted.extend(sizes(goal));
        wanted.extend(revision::annotations(&new.set, revision));
        wanted.insert(annotation::NO_NEW_MACHINES.to_owned(), None);
        wanted
    }

    pub(super) fn status(&self, goal: &Goal) -> MachineDeploymentStatus {
        let sum = |of: fn(&Child) -> i32| self.all().map(of).fold(0, i32::saturating_add);
        let available = sum(Child::available);
        // A set that this plan only makes has no machines yet.
        let made = self.all().filter(|child| child.set.metadata.uid.is_some());
        let total = made.map(|child| child.replicas).fold(0, i32::saturating_add);
        MachineDeploymentStatus {
            observed_generation: goal.deployment.metadata.generation,
            label_selector: Some(selector_text(&goal.deployment.spec.selector)),
            replicas: Some(sum(Child::present)),
            updated_replicas: Some(self.new.as_ref().map_or(0, Child::present)),
            ready_replicas: Some(sum(|child| child.status(|status| status.ready_replicas))),
            available_replicas: Some(available),
            unavailable_replicas: Some((total - available).max(0)),
        }
    }

    pub(super) fn waiting(&self, goal: &Goal, status: &MachineDeploymentStatus) -> Waiting {
        let [updated, present, available] =
            [status.updated_replicas, status.replicas, status.available_replicas].map(|count| count.unwrap_or(0));
        let old = self.old.iter().map(|child| child.replicas.max(child.present())).fold(0, i32::saturating_add);
        match goal.mode {
            Mode::Paused => Waiting::Paused,
            Mode::Rolling | Mode::OnDelete
                if [updated, present, available].iter().all(|count| *count == goal.replicas) && old == 0 =>
            {
                Waiting::Complete
            }
            Mode::OnDelete if old > 0 => Waiting::Deletion { old },
            Mode::Rolling | Mode::OnDelete => Waiting::Progress { updated, available, wanted: goal.replicas },
        }
    }

    /// Sets of the history beyond its limit, oldest first, that are empty and know it.
    pub(super) fn prune(&self, goal: &Goal) -> Vec<Action> {
        let empty = |child: &&Child| {
            child.replicas == 0 && child.set.spec.replicas == Some(0) && child.present() == 0 && child.is_observed()
        };
        let surplus = self.old.len().saturating_sub(goal.history);
        let delete = |child: &Child| Action::Delete { name: name(&child.set), uid: uid(&child.set) };
        self.old.iter().take(surplus).filter(empty).map(delete).collect()
    }
}

/// The bookkeeping of sizes that proportional scaling needs.
fn sizes(goal: &Goal) -> BTreeMap<String, Option<String>> {
    [
        (DESIRED_REPLICAS.to_owned(), Some(goal.replicas.to_string())),
        (MAX_REPLICAS.to_owned(), Some(goal.most().to_string())),
    ]
    .into()
}

impl Child {
    fn of(set: MachineSet) -> Self {
        Self { replicas: set.spec.replicas.unwrap_or(1).max(0), set }
    }

    pub(super) fn status(&self, of: fn(&api::machine::MachineSetStatus) -> Option<i32>) -> i32 {
        self.set.status.as_ref().and_then(of).unwrap_or(0)
    }

    /// Machines that serve and stay. A set counts before it shrinks, so its word may be older than its size.
    pub(super) fn available(&self) -> i32 {
        self.status(|status| status.available_replicas).clamp(0, self.set.spec.replicas.unwrap_or(1).max(0))
    }

    pub(super) fn present(&self) -> i32 {
        self.status(|status| status.replicas)
    }

    /// Whether the set's status describes its present spec.
    pub(super) fn is_observed(&self) -> bool {
        let observed = self.set.status.as_ref().and_then(|status| status.observed_generation);
        observed >= self.set.metadata.generation
    }

    fn update(&self, wanted: BTreeMap<String, Option<String>>, min_ready_seconds: i32) -> Option<Action> {
        let set = &self.set;
        let present = |key: &str| set.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let annotations = wanted.into_iter().filter(|(key, value)| present(key) != value.as_ref());
        let change = SetChange {
            replicas: Some(self.replicas).filter(|replicas| set.spec.replicas != Some(*replicas)),
            min_ready_seconds: Some(min_ready_seconds)
                .filter(|seconds| set.spec.min_ready_seconds.unwrap_or(0) != *seconds),
            annotations: annotations.collect(),
        };
        (change != SetChange::default()).then(|| Action::Update { name: name(set), uid: uid(set), change })
    }
}

pub(super) fn name(set: &MachineSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

fn uid(set: &MachineSet) -> String {
    set.metadata.uid.clone().unwrap_or_default()
}
