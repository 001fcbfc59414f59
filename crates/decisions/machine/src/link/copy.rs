//! What a node gets from its Machine.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::machine::{Machine, annotation};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde::{Deserialize, Serialize};

use super::{Key, NodePatch};

/// What a node has from its Machine, as the node's annotation keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Applied {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    taints: BTreeSet<AppliedTaint>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct AppliedTaint {
    key: String,
    effect: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

/// The difference between a node and what its Machine wants for it, if there is one.
pub(super) fn patch(machine: &Machine, node: &Node) -> Option<NodePatch> {
    let old = applied(node);
    let (taints, owned) = taints(machine, node, &old);
    let template = machine.spec.metadata.clone().unwrap_or_default();
    let mut wanted = Applied { labels: template.labels, annotations: template.annotations, taints: owned };
    // The link and our memory are not the Machine's to change.
    for key in [annotations::MACHINE, annotations::MACHINE_OLD, annotation::APPLIED_FROM_MACHINE] {
        wanted.annotations.remove(key);
    }
    let metadata = &node.metadata;
    let mut patch = NodePatch {
        labels: changes(metadata.labels.as_ref(), &old.labels, &wanted.labels),
        annotations: changes(metadata.annotations.as_ref(), &old.annotations, &wanted.annotations),
        taints,
    };
    let memory = (wanted != Applied::default()).then(|| serde_json::to_string(&wanted).unwrap_or_default());
    let fixed =
        [(annotations::MACHINE, Some(Key::of(machine).to_string())), (annotation::APPLIED_FROM_MACHINE, memory)];
    for (key, value) in fixed {
        if metadata.annotations.as_ref().and_then(|all| all.get(key)) != value.as_ref() {
            patch.annotations.insert(key.to_owned(), value);
        }
    }
    (patch != NodePatch::default()).then_some(patch)
}

/// The link as it was spelled in 2019, if the node lacks it.
pub(super) fn older_link(machine: &Machine, node: &Node) -> Option<(String, String)> {
    let link = Key::of(machine).to_string();
    let present = node.metadata.annotations.as_ref().and_then(|all| all.get(annotations::MACHINE_OLD));
    (present != Some(&link)).then(|| (annotations::MACHINE_OLD.to_owned(), link))
}

fn applied(node: &Node) -> Applied {
    let text = node.metadata.annotations.as_ref().and_then(|all| all.get(annotation::APPLIED_FROM_MACHINE));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// What the Machine wants and the node lacks, and what the node has from the Machine alone and shall lose.
fn changes(
    present: Option<&BTreeMap<String, String>>,
    old: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let has = |key: &str, value: &String| present.and_then(|all| all.get(key)) == Some(value);
    let added = wanted.iter().filter(|(key, value)| !has(key, value));
    let added = added.map(|(key, value)| (key.clone(), Some(value.clone())));
    let dropped = old.iter().filter(|(key, value)| !wanted.contains_key(*key) && has(key, value));
    added.chain(dropped.map(|(key, _)| (key.clone(), None))).collect()
}

/// The node's taints if they change, and those among them that came from the Machine. A taint that somebody else put there
/// with the same key and effect stays as it is.
fn taints(machine: &Machine, node: &Node, old: &Applied) -> (Option<Vec<Taint>>, BTreeSet<AppliedTaint>) {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let wanted = &machine.spec.taints;
    let is_ours = |taint: &Taint| old.taints.contains(&AppliedTaint::of(taint));
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| !is_ours(taint) || wanted.iter().any(|other| is_same_place(other, taint)))
        .cloned()
        .collect();
    let mut owned = BTreeSet::new();
    for taint in wanted {
        match taints.iter_mut().find(|other| is_same_place(other, taint)) {
            Some(other) if is_ours(other) => {
                if other.value != taint.value {
                    other.value.clone_from(&taint.value);
                }
                owned.insert(AppliedTaint::of(taint));
            }
            Some(_) => {}
            None => {
                taints.push(taint.clone());
                owned.insert(AppliedTaint::of(taint));
            }
        }
    }
    ((taints != present).then_some(taints), owned)
}

fn is_same_place(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

impl AppliedTaint {
    fn of(taint: &Taint) -> Self {
        Self { key: taint.key.clone(), effect: taint.effect.clone(), value: taint.value.clone() }
    }
}
