//! Decides the labels and taints that a node carries because of where it belongs. They cost no budget.

use std::collections::BTreeMap;

use api::{annotations, labels};
use k8s_openapi::api::core::v1::Taint;

use crate::membership::Pools;
use crate::node::NodeFacts;

/// What is to be written to one node, or judged first; at least one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// The custom pool that the node says it was born into. Its labels are given once the node's credential agrees.
    pub birth: Option<Birth>,
    /// `None` removes a label.
    pub labels: BTreeMap<String, Option<String>>,
    pub annotations: BTreeMap<String, String>,
    /// All taints of the node, when one of them changes.
    pub taints: Option<Vec<Taint>>,
}

/// A node that lacks the labels of the pool it says it was born into, or only the note that it has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    pub pool: String,
    /// The labels that it lacks.
    pub labels: BTreeMap<String, String>,
}

impl Birth {
    /// Adds the pool's labels to what is written.
    pub fn believe(self, marks: &mut Marks) {
        marks.labels.extend(self.labels.into_iter().map(|(key, value)| (key, Some(value))));
        marks.annotations.insert(annotations::CUSTOM_POOL_LABELS_APPLIED.to_owned(), String::new());
    }
}

impl Marks {
    /// Whether there is anything to write.
    pub fn is_needed(&self) -> bool {
        !self.labels.is_empty() || !self.annotations.is_empty() || self.taints.is_some()
    }
}

const NO_SCHEDULE: &str = "NoSchedule";

/// The marks that a node lacks. `masters_schedulable` is what the cluster's Scheduler says; without one, nothing is done
/// about who may run on the control plane.
pub fn marks(facts: &NodeFacts, pools: &Pools, masters_schedulable: Option<bool>) -> Option<Marks> {
    let birth = pools.birthplace(facts).map(|(pool, selector)| {
        let mut labels = selector.implied_labels();
        labels.retain(|key, value| facts.labels.get(key) != Some(value));
        Birth { pool: pool.to_owned(), labels }
    });
    let mut marks = Marks { birth, ..Marks::default() };
    if facts.labels.contains_key(labels::NODE_ROLE_MASTER) {
        marks.labels.insert(labels::NODE_ROLE_CONTROL_PLANE.to_owned(), Some(String::new()));
    }
    let is_control_plane = [labels::NODE_ROLE_MASTER, labels::NODE_ROLE_CONTROL_PLANE]
        .into_iter()
        .any(|label| facts.labels.contains_key(label));
    if let Some(schedulable) = masters_schedulable.filter(|_| is_control_plane) {
        marks.labels.insert(labels::NODE_ROLE_WORKER.to_owned(), schedulable.then(String::new));
        marks.taints = taints(facts, schedulable);
    }
    marks.labels.retain(|key, value| facts.labels.get(key) != value.as_ref());
    (marks.is_needed() || marks.birth.is_some()).then_some(marks)
}

/// The taints of a control-plane node, when they have to change.
fn taints(facts: &NodeFacts, schedulable: bool) -> Option<Vec<Taint>> {
    let keeps_away = |taint: &Taint| {
        [labels::NODE_ROLE_MASTER, labels::NODE_ROLE_CONTROL_PLANE].contains(&taint.key.as_str())
            && taint.effect == NO_SCHEDULE
    };
    let has_one = facts.taints.iter().any(keeps_away);
    match (schedulable, has_one) {
        (true, true) => Some(facts.taints.iter().filter(|taint| !keeps_away(taint)).cloned().collect()),
        (false, false) => {
            let mut taints = facts.taints.clone();
            let (key, effect) = (labels::NODE_ROLE_MASTER.to_owned(), NO_SCHEDULE.to_owned());
            taints.push(Taint { key, effect, ..Taint::default() });
            Some(taints)
        }
        (true, false) | (false, true) => None,
    }
}
