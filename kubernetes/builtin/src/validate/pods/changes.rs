//! What of a pod may change once it is there: a kubelet acts on most of it once.

use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::rules::{self, same};
use super::annotations::{APP_ARMOR, MIRROR};
use super::placement;

const CHANGED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(crate) fn update(pod: &Place<'_>, old: &Value, findings: &mut Findings) {
    super::metadata_and_spec(pod, findings);
    let annotations = pod.field("metadata").field("annotations");
    annotation_changes(&annotations, &old["metadata"]["annotations"], findings);
    super::annotations::check(&annotations, &pod.field("spec"), findings);
    let (spec, before) = (pod.field("spec"), &old["spec"]);
    for field in ["containers", "initContainers"] {
        let list = spec.field(field);
        if list.count() != before[field].as_array().map_or(0, Vec::len) {
            return findings.forbidden(&list, "pod updates may not add or remove containers");
        }
        for container in list.items() {
            if container.field("image").is_empty() {
                findings.required(&container.field("image"), "");
            }
            super::trimmed_image(&container, findings);
        }
    }
    if !deadline(&spec, before, findings) {
        return;
    }
    tolerations(&spec.field("tolerations"), &before["tolerations"], findings);
    let gates: Vec<&str> =
        before["schedulingGates"].as_array().into_iter().flatten().filter_map(|gate| gate["name"].as_str()).collect();
    let all: Vec<Place<'_>> = spec.field("schedulingGates").items().collect();
    for (at, gate) in all.iter().enumerate() {
        let name = gate.field("name");
        let told_later = all[at + 1..].iter().any(|later| later.field("name").text() == name.text());
        if !gates.contains(&name.text()) && !told_later {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", name.text());
            findings.forbidden(&name, detail);
        }
    }
    let mut after = spec.value.clone();
    if same(&after, before) {
        return;
    }
    keep(&mut after, before);
    if !gates.is_empty() {
        gated(&spec, &mut after, before, findings);
    }
    if !same(&after, before) {
        findings.forbidden(&spec, CHANGED);
    }
}

/// Whether it is worth looking further.
fn deadline(spec: &Place<'_>, before: &Value, findings: &mut Findings) -> bool {
    let place = spec.field("activeDeadlineSeconds");
    let old = before["activeDeadlineSeconds"].as_i64();
    match (place.value.as_i64(), old) {
        (Some(new), old) => {
            if !(0..=i64::from(i32::MAX)).contains(&new) {
                rules::in_range(&place, 0..=i64::from(i32::MAX), findings);
                return false;
            }
            if old.is_some_and(|old| old < new) {
                findings.invalid(&place, "must be less than or equal to previous value");
                return false;
            }
        }
        (None, Some(_)) => findings.invalid(&place, "must not update from a positive integer to nil value"),
        (None, None) => {}
    }
    true
}

fn annotation_changes(new: &Place<'_>, old: &Value, findings: &mut Findings) {
    let empty = serde_json::Map::new();
    let old = old.as_object().unwrap_or(&empty);
    let place = |key: &str| new.known_as(format!("{}[{key}]", new.path));
    for (key, value) in old.iter().filter(|(key, value)| new.value.get(key.as_str()) != Some(value)) {
        let _ = value;
        if key.starts_with(APP_ARMOR) {
            findings.forbidden(&place(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            findings.forbidden(&place(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.entries().filter(|(key, _)| !old.contains_key(*key)) {
        if key.starts_with(APP_ARMOR) {
            findings.forbidden(&place(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            findings.forbidden(&place(key), "may not add mirror pod annotation");
        }
    }
}

fn tolerations(list: &Place<'_>, old: &Value, findings: &mut Findings) {
    for before in old.as_array().into_iter().flatten() {
        let stays = list.items().any(|after| {
            let mut before = before.clone();
            before["tolerationSeconds"] = after.value["tolerationSeconds"].clone();
            same(&before, after.value)
        });
        if !stays {
            findings.forbidden(list, "existing toleration can not be modified except its tolerationSeconds");
        }
    }
    placement::tolerations(list, findings);
}

/// Makes equal what may change.
fn keep(after: &mut Value, before: &Value) {
    for field in ["containers", "initContainers"] {
        let olds = before[field].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(list) = after.get_mut(field).and_then(Value::as_array_mut) {
            for (container, old) in list.iter_mut().zip(olds) {
                container["image"] = old["image"].clone();
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        after[field] = before[field].clone();
    }
    let grace = "terminationGracePeriodSeconds";
    if before[grace].as_i64().is_some_and(|old| old < 0) && after[grace] == 1 {
        after[grace] = before[grace].clone();
    }
}

/// A pod that waits behind a gate may still be told more about where to run.
fn gated(spec: &Place<'_>, after: &mut Value, before: &Value, findings: &mut Findings) {
    let selector = spec.field("nodeSelector");
    if !same(selector.value, &before["nodeSelector"]) {
        for (key, value) in before["nodeSelector"].as_object().into_iter().flatten() {
            if selector.value.get(key) != Some(value) {
                let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
                findings.invalid(&selector, detail);
            }
        }
        after["nodeSelector"] = before["nodeSelector"].clone();
    }
    let affinity = spec.field("affinity").field("nodeAffinity");
    let old = &before["affinity"]["nodeAffinity"];
    if same(affinity.value, old) {
        return;
    }
    node_affinity(&affinity, old, findings);
    after["affinity"]["nodeAffinity"] = old.clone();
}

fn node_affinity(new: &Place<'_>, old: &Value, findings: &mut Findings) {
    let Some(olds) = old[REQUIRED]["nodeSelectorTerms"].as_array() else { return };
    let terms = new.field(REQUIRED).field("nodeSelectorTerms");
    if !olds.is_empty() && olds.len() != terms.count() {
        return findings.invalid(&terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    }
    for (term, old) in terms.items().zip(olds) {
        let list = |term: &Value, field: &str| term[field].as_array().cloned().unwrap_or_default();
        let adds = ["matchExpressions", "matchFields"].iter().all(|field| {
            let (new, old) = (list(term.value, field), list(old, field));
            new.len() >= old.len() && new[..old.len()] == old[..]
        });
        let was_empty = list(old, "matchExpressions").is_empty() && list(old, "matchFields").is_empty();
        let is_empty = list(term.value, "matchExpressions").is_empty() && list(term.value, "matchFields").is_empty();
        if !adds || (was_empty && !is_empty) {
            findings.invalid(&term, "only additions are allowed (no mutations or deletions)");
        }
    }
}
