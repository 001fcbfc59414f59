//! Decides the labels and taints that a node carries because of where it belongs. They cost no budget.

use std::collections::BTreeMap;

use api::{annotations, labels};
use k8s_openapi::api::core::v1::Taint;

use crate::membership::Pools;
use crate::node::NodeFacts;

/// What is to be written to one node; at least one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// `None` removes a label.
    pub labels: BTreeMap<String, Option<String>>,
    pub annotations: BTreeMap<String, String>,
    /// All taints of the node, when one of them changes.
    pub taints: Option<Vec<Taint>>,
}

const NO_SCHEDULE: &str = "NoSchedule";

/// The marks that a node lacks. `masters_schedulable` is what the cluster's Scheduler says; without one, nothing is done
/// about who may run on the control plane.
pub fn marks(facts: &NodeFacts, pools: &Pools, masters_schedulable: Option<bool>) -> Option<Marks> {
    let mut marks = Marks::default();
    if let Some((_, selector)) = pools.birthplace(facts) {
        let implied = selector.implied_labels().into_iter();
        marks.labels.extend(implied.map(|(key, value)| (key, Some(value))));
        marks.annotations.insert(annotations::CUSTOM_POOL_LABELS_APPLIED.to_owned(), String::new());
    }
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
    let is_needed = !marks.labels.is_empty() || !marks.annotations.is_empty() || marks.taints.is_some();
    is_needed.then_some(marks)
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
