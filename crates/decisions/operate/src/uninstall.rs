//! Decides what an uninstallation takes away: everything Machinist made, and nothing that a person made.
//!
//! A kind's definition goes only when no object of that kind is left, because its deletion would take a user's
//! MachineConfigs with it.

use std::collections::BTreeMap;

use api::{labels, names};
use serde_json::{Value, json};

use crate::installation::Installation;
use crate::objects::{Id, Keep, installed};
use crate::{machine_api, workloads};

/// One thing to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Removal {
    Delete(Id),
    /// Take our annotations from a node, and the taint of an update.
    CleanNode {
        name: String,
        patch: Value,
    },
    /// A definition whose objects are the user's.
    Keep {
        id: Id,
        because: String,
    },
}

/// What there is in the cluster that could be ours.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Every object of our kinds, with its `metadata`; nodes with metadata and taints.
    pub objects: Vec<Value>,
    pub nodes: Vec<Value>,
    /// Objects of an installation that carry our label, of any kind.
    pub labelled: Vec<Id>,
}

pub fn plan(installation: &Installation, snapshot: &Snapshot) -> Vec<Removal> {
    let mut removals = Vec::new();
    // First whoever would put things back, the operators before the others because they would put back those too.
    let everything = Installation { api_url: Some(String::new()), ..installation.clone() };
    let late = workloads::narrowed(&everything);
    let objects = installed(&everything).into_iter().chain(late).chain(machine_api::installed(&everything));
    let made = machine_api::kept_ids(&everything.machine_namespace).into_iter().map(|id| (id, Keep::Whole));
    let parts: Vec<_> = objects.map(|one| (one.id(), one.keep)).chain(made).collect();
    let mut workloads: Vec<&Id> = parts.iter().map(|(id, _)| id).filter(|id| is_workload(id)).collect();
    workloads.sort_by_key(|id| ![workloads::OPERATOR, machine_api::OPERATOR].contains(&id.name.as_str()));
    removals.extend(workloads.into_iter().cloned().map(Removal::Delete));

    let (ours, theirs): (Vec<&Value>, Vec<&Value>) = snapshot.objects.iter().partition(|object| is_ours(object));
    removals.extend(ours.into_iter().map(|object| Removal::Delete(Id::of(object))));
    removals.extend(snapshot.nodes.iter().filter_map(clean));

    let is_definition = |id: &Id| id.kind == "CustomResourceDefinition";
    let is_namespace = |id: &Id| id.kind == "Namespace";
    let rest = parts.iter().filter(|(id, _)| !is_workload(id) && !is_definition(id) && !is_namespace(id));
    removals.extend(rest.rev().map(|(id, _)| Removal::Delete(id.clone())));
    let known: Vec<&Id> = parts.iter().map(|(id, _)| id).collect();
    removals.extend(snapshot.labelled.iter().filter(|id| !known.contains(id)).cloned().map(Removal::Delete));

    removals.extend(definitions(parts, &theirs));
    // What else is in the namespaces goes with them only where it is ours: a user's secret keeps its namespace.
    removals
}

/// Whether an object is ours only if it carries our label. Kinds of our own are ours by themselves; everything else has
/// names that OpenShift's own operators use too.
pub fn needs_label(id: &Id) -> bool {
    let group = id.api_version.split_once('/').map_or("", |(group, _)| group);
    ![api::machineconfiguration::GROUP, api::machinist::GROUP, api::config::GROUP].contains(&group)
}

/// Whether an object runs our processes. As long as these run they make objects anew, so what they make cannot go before
/// their pods have ended.
pub fn is_workload(id: &Id) -> bool {
    matches!(id.kind.as_str(), "Deployment" | "DaemonSet")
}

/// The value of the label `k8s-app` on the pods of a workload of ours.
pub fn app(workload: &Id) -> &str {
    if workload.name == machine_api::CONTROLLERS { machine_api::CONTROLLERS_APP } else { &workload.name }
}

fn definitions(parts: Vec<(Id, Keep)>, theirs: &[&Value]) -> Vec<Removal> {
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in theirs {
        let id = Id::of(object);
        let group = id.api_version.split('/').next().unwrap_or_default().to_owned();
        used.entry(format!("{}.{group}", id.kind)).or_default().push(id.name);
    }
    let kinds: BTreeMap<String, String> = api::crds()
        .into_iter()
        .map(|one| (one.metadata.name.unwrap_or_default(), format!("{}.{}", one.spec.names.kind, one.spec.group)))
        .collect();
    let definitions = parts.into_iter().map(|(id, _)| id).filter(|id| id.kind == "CustomResourceDefinition");
    definitions
        .map(|id| match kinds.get(&id.name).and_then(|kind| used.get(kind)) {
            Some(names) => {
                let because = format!("{} made by you: {}", names.len(), names.join(", "));
                Removal::Keep { id, because }
            }
            None if is_shared(&id.name) => {
                let because = "OpenShift and others use this kind too; delete it by hand if nobody does".to_owned();
                Removal::Keep { id, because }
            }
            None => Removal::Delete(id),
        })
        .collect()
}

/// Kinds that we only read. Where the cluster brought them itself, their deletion would take it down.
fn is_shared(definition: &str) -> bool {
    let (kind, group) = definition.split_once('.').unwrap_or((definition, ""));
    group == api::config::GROUP || kind == "imagecontentsourcepolicies"
}

/// Rendered configs, ledgers, provenances and whatever the operator keeps. Fragments and custom pools are the user's.
fn is_ours(object: &Value) -> bool {
    let id = Id::of(object);
    let label = |key: &str| object.pointer("/metadata/labels").and_then(|labels| labels.get(key));
    match id.kind.as_str() {
        "MachineConfig" => label(labels::RENDERED_FOR).is_some() || id.name.starts_with(names::RENDERED_PREFIX),
        "KeptConfig" | "NodeSurvey" | "PoolLedger" | "RenderedProvenance" | "MachineConfigNode"
        | "ControllerConfig" => true,
        // The Machine API may be the platform's own, of which we never took a part; its report has the same name.
        "ClusterOperator" if id.name == names::CLUSTER_OPERATOR => true,
        _ => label(labels::PART_OF).is_some_and(|value| value == labels::PART_OF_MACHINIST),
    }
}

/// The patch that takes our marks from a node.
fn clean(node: &Value) -> Option<Removal> {
    let name = node.pointer("/metadata/name")?.as_str()?.to_owned();
    let annotations = node.pointer("/metadata/annotations").and_then(Value::as_object);
    let is_ours =
        |key: &&String| key.starts_with("machineconfiguration.openshift.io/") || key.starts_with("machinist.dev/");
    let ours: serde_json::Map<String, Value> = annotations
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .filter(is_ours)
        .map(|key| (key.clone(), Value::Null))
        .collect();
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let kept: Vec<&Value> =
        taints.into_iter().flatten().filter(|taint| taint["key"] != labels::TAINT_UPDATE_IN_PROGRESS).collect();
    let is_tainted = taints.is_some_and(|taints| taints.len() != kept.len());
    if ours.is_empty() && !is_tainted {
        return None;
    }
    let mut patch = json!({"metadata": {"annotations": ours}});
    if is_tainted {
        patch["spec"] = json!({"taints": kept});
    }
    Some(Removal::CleanNode { name, patch })
}
