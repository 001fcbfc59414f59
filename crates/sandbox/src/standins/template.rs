//! Objects made from templates: replica sets of a Deployment, pods of a set.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// On pods and sets: which template they were made from.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";
pub(crate) const REVISION_HASH: &str = "controller-revision-hash";

/// A short name for a value, always the same for the same one.
pub(crate) fn hash(parts: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    // Letters that cannot form words, as in Kubernetes' own names.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = hasher.finish();
    let mut name = String::new();
    for _ in 0..8 {
        name.push(char::from(LETTERS[(number % LETTERS.len() as u64) as usize]));
        number /= LETTERS.len() as u64;
    }
    name
}

pub(crate) fn hash_of(template: &PodTemplateSpec) -> String {
    hash(&[&serde_json::to_string(template).unwrap_or_default()])
}

/// The set that runs a Deployment's template.
pub(crate) fn replica_set(deployment: &Deployment) -> Option<(String, Value)> {
    let spec = deployment.spec.as_ref()?;
    let hash = hash_of(&spec.template);
    let name = format!("{}-{hash}", deployment.name_any());
    let mut template = serde_json::to_value(&spec.template).ok()?;
    template["metadata"]["labels"][TEMPLATE_HASH] = json!(hash);
    let mut selector = serde_json::to_value(&spec.selector).ok()?;
    selector["matchLabels"][TEMPLATE_HASH] = json!(hash);
    let labels = template["metadata"]["labels"].clone();
    let value = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": deployment.namespace(), "labels": labels, "ownerReferences": [owner(deployment)]},
        "spec": {"replicas": spec.replicas.unwrap_or(1), "selector": selector, "template": template},
    });
    Some((name, value))
}

/// A pod of a replica set; the scheduler will place it.
pub(crate) fn replica(set: &ReplicaSet, name: &str) -> Option<Value> {
    let template = set.spec.as_ref()?.template.as_ref()?;
    let mut pod = pod_of(template, set, name)?;
    pod["metadata"]["generateName"] = json!(format!("{}-", set.name_any()));
    Some(pod)
}

/// The pod of a DaemonSet on one node.
pub(crate) fn daemon(set: &DaemonSet, name: &str, node: &str, revision: &str) -> Option<Value> {
    let template = &set.spec.as_ref()?.template;
    let mut pod = pod_of(template, set, name)?;
    pod["metadata"]["labels"][REVISION_HASH] = json!(revision);
    pod["spec"]["nodeName"] = json!(node);
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in
        [("node.kubernetes.io/unschedulable", "NoSchedule"), ("node.kubernetes.io/not-ready", "NoExecute")]
    {
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    pod["spec"]["tolerations"] = Value::Array(tolerations);
    Some(pod)
}

fn pod_of<K: Resource<DynamicType = ()>>(template: &PodTemplateSpec, set: &K, name: &str) -> Option<Value> {
    let mut metadata = serde_json::to_value(template.metadata.clone().unwrap_or_default()).ok()?;
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(set.meta().namespace);
    metadata["ownerReferences"] = json!([owner(set)]);
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.spec}))
}

fn owner<K: Resource<DynamicType = ()>>(object: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "name": object.meta().name, "uid": object.meta().uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}
