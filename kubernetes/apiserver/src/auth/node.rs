//! What a node's own credential may do: its Node, its pods, its lease, and what those pods refer to.
//!
//! `allows` decides before a request is worked on; `admit` looks at the object that a request would write.

use serde_json::Value;

use super::{Action, User};
use crate::{
    object::{Name, text},
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
};

const READ: &[&str] = &["get", "list", "watch"];

pub(crate) fn allows(api: &Api, node: &str, action: &Action<'_>) -> bool {
    let Action { verb, group, resource, subresource, namespace, name, path, field_selector } = *action;
    if !path.is_empty() {
        return false;
    }
    let is = |verbs: &[&str]| verbs.contains(&verb);
    match (group, resource, subresource) {
        ("authentication.k8s.io", "tokenreviews", "") => is(&["create"]),
        ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews", "") => is(&["create"]),
        ("", "services", "") => is(READ),
        ("", "endpoints", "") => is(&["get"]),
        ("", "nodes", "") => match verb {
            "create" | "update" | "patch" => true,
            "get" => name == node,
            "list" | "watch" => name == node || selects(field_selector, "metadata.name", node),
            _ => false,
        },
        ("", "nodes", "status") => is(&["update", "patch"]),
        ("" | "events.k8s.io", "events", "") => is(&["create", "update", "patch"]),
        ("", "pods", "") => match verb {
            "get" => runs_on(api, namespace, name, node),
            "list" | "watch" => selects(field_selector, "spec.nodeName", node),
            "create" | "delete" => true,
            _ => false,
        },
        ("", "pods", "status") => is(&["update", "patch"]),
        ("", "pods", "eviction") => is(&["create"]),
        ("", "secrets" | "configmaps", "") => {
            is(READ) && !name.is_empty() && refers(api, namespace, node, resource, name)
        }
        ("", "persistentvolumeclaims" | "serviceaccounts", "") => {
            is(&["get"]) && refers(api, namespace, node, resource, name)
        }
        ("", "serviceaccounts", "token") => is(&["create"]) && refers(api, namespace, node, resource, name),
        ("certificates.k8s.io", "certificatesigningrequests", "") => is(&["create", "get", "list", "watch"]),
        ("coordination.k8s.io", "leases", "") => {
            namespace == "kube-node-lease"
                && is(&["get", "create", "update", "patch", "delete"])
                && (verb == "create" || name == node)
        }
        ("storage.k8s.io", "csidrivers", "") | ("node.k8s.io", "runtimeclasses", "") => is(READ),
        ("storage.k8s.io", "csinodes", "") => {
            is(&["get", "create", "update", "patch", "delete"]) && (verb == "create" || name == node)
        }
        _ => false,
    }
}

/// Why a node was refused, where the real authorizer says it.
pub(crate) fn reason(node: &str, action: &Action<'_>) -> Option<String> {
    let Action { verb, group, resource, subresource, namespace, name, .. } = *action;
    let reading = matches!(verb, "get" | "list" | "watch");
    let text = match (group, resource, subresource) {
        ("", "secrets" | "configmaps", _) if !reading => "can only read resources of this type".to_owned(),
        ("", "secrets" | "configmaps", "") if name.is_empty() => "No Object name found".to_owned(),
        ("", "persistentvolumeclaims" | "serviceaccounts", "") if verb != "get" || name.is_empty() => {
            "can only get individual resources of this type".to_owned()
        }
        ("", "secrets" | "configmaps" | "persistentvolumeclaims" | "serviceaccounts", _) => {
            format!("no relationship found between node '{node}' and this object")
        }
        ("", "nodes", "") if reading && name.is_empty() => {
            format!("node '{node}' cannot read all nodes, only its own Node object")
        }
        ("", "nodes", "") if reading => format!("node '{node}' cannot read '{name}', only its own Node object"),
        ("", "pods", "") if matches!(verb, "list" | "watch") => {
            "can only list/watch pods with spec.nodeName field selector".to_owned()
        }
        ("", "pods", "") if verb == "get" => format!("no relationship found between node '{node}' and this object"),
        ("coordination.k8s.io", "leases", "") if namespace != "kube-node-lease" => {
            "can only access leases in the \"kube-node-lease\" system namespace".to_owned()
        }
        ("coordination.k8s.io", "leases", "") => {
            "can only access node lease with the same name as the requesting node".to_owned()
        }
        _ => return None,
    };
    Some(text)
}

fn selects(selector: &str, field: &str, node: &str) -> bool {
    selector.split(',').any(|requirement| {
        let (left, right) = requirement.split_once('=').unwrap_or((requirement, ""));
        left == field && right.trim_start_matches('=') == node
    })
}

fn runs_on(api: &Api, namespace: &str, pod: &str, node: &str) -> bool {
    api.store
        .get("/pods", &Name::new(namespace, pod))
        .is_some_and(|pod| pod.fields.first().is_some_and(|on| **on == *node))
}

/// Whether a pod on `node` in `namespace` uses the named object.
fn refers(api: &Api, namespace: &str, node: &str, resource: &str, name: &str) -> bool {
    let index = api.store.read();
    let Some(pods) = index.collection("/pods") else { return false };
    pods.iter(Some(namespace), None)
        .filter(|pod| pod.fields.first().is_some_and(|on| **on == *node))
        .any(|pod| mentions(&pod.value()["spec"], resource, name))
}

fn mentions(spec: &Value, resource: &str, name: &str) -> bool {
    let keys: &[&str] = match resource {
        "secrets" => &["secretName", "secret", "secretRef", "secretKeyRef", "imagePullSecrets"],
        "configmaps" => &["configMap", "configMapRef", "configMapKeyRef"],
        "persistentvolumeclaims" => &["claimName"],
        _ => return text(&spec["serviceAccountName"]) == name,
    };
    fn search(value: &Value, keys: &[&str], name: &str) -> bool {
        match value {
            Value::Object(map) => map
                .iter()
                .any(|(key, value)| (keys.contains(&key.as_str()) && names(value, name)) || search(value, keys, name)),
            Value::Array(items) => items.iter().any(|item| search(item, keys, name)),
            _ => false,
        }
    }
    fn names(value: &Value, name: &str) -> bool {
        match value {
            Value::String(text) => text == name,
            Value::Array(items) => items.iter().any(|item| names(item, name)),
            Value::Object(map) => {
                map.get("name").and_then(Value::as_str) == Some(name)
                    || map.get("secretName").and_then(Value::as_str) == Some(name)
            }
            _ => false,
        }
    }
    search(spec, keys, name)
}

/// What would be written, for `admit`.
pub(crate) struct Written<'a> {
    pub resource: &'a Resource,
    pub subresource: &'a str,
    pub name: &'a str,
    pub old: Option<&'a Value>,
    /// `None` deletes.
    pub new: Option<&'a Value>,
}

pub(crate) fn admit(user: &User, written: &Written<'_>) -> Answer<()> {
    if !user.is_in("system:nodes") {
        return Ok(());
    }
    let Written { resource, subresource, name, old, new } = *written;
    let refuse = |why: String| Err(Failure::forbidden(resource, name, &why));
    let Some(node) = user.node() else {
        return refuse(format!("could not determine node from user {:?}", user.name));
    };
    match &*resource.collection {
        "/nodes" => {
            if name != node {
                return refuse(format!("node {node:?} is not allowed to modify node {name:?}"));
            }
            admit_node(node, old, new).or_else(refuse)
        }
        "/pods" if subresource.is_empty() => admit_pod(node, old, new).or_else(refuse),
        "/pods" if subresource == "status" => match old {
            Some(pod) if text(&pod["spec"]["nodeName"]) != node => {
                refuse(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"))
            }
            Some(pod) if new.is_some_and(|new| new["metadata"]["labels"] != pod["metadata"]["labels"]) => {
                refuse(format!("node {node:?} cannot update labels through pod status"))
            }
            _ => Ok(()),
        },
        "/pods" if subresource == "eviction" => match old {
            Some(pod) if text(&pod["spec"]["nodeName"]) != node => {
                refuse(format!("node {node} can only evict pods with spec.nodeName set to itself"))
            }
            _ => Ok(()),
        },
        "coordination.k8s.io/leases" => {
            let namespace = new.or(old).map(|lease| text(&lease["metadata"]["namespace"])).unwrap_or_default();
            if namespace != "kube-node-lease" {
                return refuse("can only access leases in the \"kube-node-lease\" system namespace".to_owned());
            }
            if name != node {
                return refuse("can only access node lease with the same name as the requesting node".to_owned());
            }
            Ok(())
        }
        "storage.k8s.io/csinodes" if name != node => {
            refuse("can only access CSINode with the same name as the requesting node".to_owned())
        }
        _ => Ok(()),
    }
}

fn admit_node(node: &str, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
    let Some(new) = new else { return Ok(()) };
    let labels = |object: &Value| object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let before = old.map(labels).unwrap_or_default();
    let after = labels(new);
    let mut forbidden: Vec<&str> = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(key, _)| key)
        .chain(before.keys().filter(|key| !after.contains_key(*key)))
        .map(String::as_str)
        .filter(|key| !may_set_label(key))
        .collect();
    forbidden.sort_unstable();
    let list = forbidden.join(", ");
    let Some(old) = old else {
        return match list.is_empty() {
            true => Ok(()),
            false => Err(format!("node {node:?} is not allowed to set the following labels: {list}")),
        };
    };
    if new["spec"]["taints"] != old["spec"]["taints"] {
        return Err(format!("node {node:?} is not allowed to modify taints"));
    }
    if new["metadata"]["ownerReferences"] != old["metadata"]["ownerReferences"] {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    match list.is_empty() {
        true => Ok(()),
        false => Err(format!("is not allowed to modify labels: {list}")),
    }
}

/// A node may label itself freely outside the Kubernetes domains, and inside them only with what a kubelet reports.
fn may_set_label(key: &str) -> bool {
    const KNOWN: &[&str] = &[
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
    ];
    let domain = key.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
    let within = |suffix: &str| domain == suffix || domain.ends_with(&format!(".{suffix}"));
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    KNOWN.contains(&key) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

fn admit_pod(node: &str, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
    match (old, new) {
        (None, Some(pod)) => {
            let metadata = &pod["metadata"];
            if metadata["annotations"]["kubernetes.io/config.mirror"].is_null() {
                return Err(format!(
                    "pod does not have \"kubernetes.io/config.mirror\" annotation, node {node:?} can only create mirror pods"
                ));
            }
            if text(&pod["spec"]["nodeName"]) != node {
                return Err(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
            }
            match metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default() {
                [] => Ok(()),
                [owner] if text(&owner["kind"]) == "Node" && text(&owner["name"]) == node => Ok(()),
                _ => Err(format!("node {node:?} can only create pods with an owner reference set to itself")),
            }
        }
        (Some(pod), None) if text(&pod["spec"]["nodeName"]) != node => {
            Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        (_, None) => Ok(()),
        (Some(_), Some(_)) => {
            Err(format!("unexpected operation \"UPDATE\", node {node:?} can only create and delete mirror pods"))
        }
    }
}
