//! What the API itself knows about built-in kinds: defaults, preparation and checks.

pub(crate) mod amounts;
mod certificates;
mod defaults;
mod devices;
mod events;
mod pods;
pub(crate) mod services;
mod validate;
pub(crate) mod warnings;

use serde_json::{Map, Value, json};

use crate::{auth::User, object::text, registry::Resource, verbs::update::move_field};

use crate::housekeeping::{api_services, definitions};

pub(crate) use defaults::{
    autoscaling::{UTILIZATION, processor},
    default,
};
pub(crate) use pods::grace;
pub(crate) use validate::{combine, ephemeral_containers, validate};

/// Their expressions are looked at when their spec is written, not when their status is.
pub(crate) const POLICIES: &str = "admissionregistration.k8s.io/validatingadmissionpolicies";
pub(crate) const BINDINGS: &str = "admissionregistration.k8s.io/validatingadmissionpolicybindings";
pub(crate) const MUTATING_POLICIES: &str = "admissionregistration.k8s.io/mutatingadmissionpolicies";
pub(crate) const MUTATING_BINDINGS: &str = "admissionregistration.k8s.io/mutatingadmissionpolicybindings";
/// How often the template of a DaemonSet has changed.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Completes a new object of a kind that starts with a state of its own.
pub(crate) fn prepare_create(resource: &Resource, value: &mut Value, _user: &User) {
    match &*resource.collection {
        "/namespaces" => {
            if !value["spec"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|item| item == "kubernetes"))
            {
                let mut list = value["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
                list.push("kubernetes".into());
                value["spec"]["finalizers"] = list.into();
            }
            value["status"] = json!({"phase": "Active"});
        }
        "/pods" => pods::prepare_create(value),
        "/services" => {
            value["status"] = json!({"loadBalancer": {}});
            services::list_address(&mut value["spec"]);
        }
        "rbac.authorization.k8s.io/roles" | "rbac.authorization.k8s.io/clusterroles" => rules(value),
        "apiextensions.k8s.io/customresourcedefinitions" => {
            value["status"] = json!({
                "acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored_versions(value),
            });
        }
        "/persistentvolumes" => {
            value["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": crate::verbs::now()});
        }
        "/persistentvolumeclaims"
        | "/replicationcontrollers"
        | "/resourcequotas"
        | "apps/deployments"
        | "apps/daemonsets"
        | "apps/replicasets"
        | "apps/statefulsets"
        | "batch/cronjobs"
        | "networking.k8s.io/ingresses"
        | "policy/poddisruptionbudgets"
        | "storage.k8s.io/volumeattachments" => {
            value["status"] = empty_status(&resource.collection);
        }
        "autoscaling/horizontalpodautoscalers" => {
            let first = value["apiVersion"] == "autoscaling/v1";
            let other = if first { ("currentReplicas", json!(0)) } else { ("currentMetrics", Value::Null) };
            value["status"] = json!({"desiredReplicas": 0, other.0: other.1});
        }
        "batch/jobs" => {
            value["status"] = empty_status(&resource.collection);
            job_selector(value);
        }
        "certificates.k8s.io/certificatesigningrequests"
        | "flowcontrol.apiserver.k8s.io/flowschemas"
        | "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"
        | "networking.k8s.io/servicecidrs"
        | "resource.k8s.io/resourceclaims"
        | POLICIES => value["status"] = json!({}),
        api_services::COLLECTION => value["status"] = api_services::first_status(value),
        _ => {}
    }
}

/// A role without rules says so.
fn rules(role: &mut Value) {
    if role["rules"].as_array().is_none_or(Vec::is_empty) {
        role["rules"] = Value::Null;
    }
}

/// A job finds its pods by its own uid, unless its author chose a selector.
fn job_selector(job: &mut Value) {
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    if job["spec"]["manualSelector"] == true {
        return;
    }
    job["spec"]["manualSelector"] = false.into();
    for prefix in ["", "batch.kubernetes.io/"] {
        job["spec"]["template"]["metadata"]["labels"][format!("{prefix}job-name")] = name.clone();
        job["spec"]["template"]["metadata"]["labels"][format!("{prefix}controller-uid")] = uid.clone();
    }
    job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
    labels_of_pods(job);
}

/// A job without labels of its own has those of its pods.
fn labels_of_pods(job: &mut Value) {
    if job["metadata"]["labels"].as_object().is_none_or(Map::is_empty) {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
}

fn empty_status(collection: &str) -> Value {
    match collection {
        "apps/daemonsets" => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        }),
        "/persistentvolumeclaims" => json!({"phase": "Pending"}),
        "/replicationcontrollers" | "apps/replicasets" => json!({"replicas": 0}),
        "networking.k8s.io/ingresses" => json!({"loadBalancer": {}}),
        "storage.k8s.io/volumeattachments" => json!({"attached": false}),
        "apps/statefulsets" => json!({"availableReplicas": 0, "replicas": 0}),
        "policy/poddisruptionbudgets" => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        _ => json!({}),
    }
}

fn stored_versions(definition: &Value) -> Vec<Value> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions.iter().find(|version| version["storage"] == true);
    stored.map(|version| version["name"].clone()).into_iter().collect()
}

/// What an update of a built-in keeps, beyond the rules of all kinds.
pub(crate) fn prepare_update(resource: &Resource, subresource: &str, old: &Value, new: &mut Value) {
    match (&*resource.collection, subresource) {
        ("/namespaces", "" | "status") => {
            new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
            let name = text(&new["metadata"]["name"]).to_owned();
            new["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            if !new["status"]["phase"].is_string() {
                new["status"] = old["status"].clone();
            }
        }
        ("/namespaces", "finalize") => {
            let finalizers = new["spec"]["finalizers"].clone();
            let mut kept = old.clone();
            kept["spec"]["finalizers"] = if finalizers.is_null() { json!([]) } else { finalizers };
            *new = kept;
        }
        ("apps/daemonsets", "") => {
            let before = text(&old["metadata"]["annotations"][TEMPLATE_GENERATION]).parse().unwrap_or(0);
            let changed = old["spec"]["template"] != new["spec"]["template"];
            new["metadata"]["annotations"][TEMPLATE_GENERATION] = (before + i64::from(changed)).to_string().into();
        }
        ("/persistentvolumes", "status") if old["status"]["phase"] != new["status"]["phase"] => {
            new["status"]["lastPhaseTransitionTime"] = crate::verbs::now().into();
        }
        ("/pods", "") => pods::prepare_update(old, new),
        ("batch/jobs", "") => labels_of_pods(new),
        ("/pods", "ephemeralcontainers") => pods::keep_all_but_ephemeral(old, new),
        ("/services", "") => services::keep(old, new),
        ("rbac.authorization.k8s.io/roles" | "rbac.authorization.k8s.io/clusterroles", "") => rules(new),
        ("/nodes", "") if new["spec"].is_null() => new["spec"] = Map::new().into(),
        (DEFINITIONS, "") => {
            let mut stored = old["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
            for version in stored_versions(new) {
                if !stored.contains(&version) {
                    stored.push(version);
                }
            }
            new["status"]["storedVersions"] = stored.into();
        }
        ("certificates.k8s.io/certificatesigningrequests", "") => move_field(old, new, "spec"),
        ("certificates.k8s.io/certificatesigningrequests", "approval") => certificates::approve(old, new),
        ("resource.k8s.io/resourceclaims", "status") => devices::forget(old, new),
        ("certificates.k8s.io/certificatesigningrequests", "status") => certificates::answer(old, new),
        _ => {}
    }
}

/// A write to `status` changes status; built-ins also let it change metadata.
pub(crate) fn keep_all_but_status(resource: &Resource, old: &Value, new: &mut Value) {
    let status = new.get("status").cloned();
    let managed = new["metadata"].get("managedFields").cloned();
    let metadata = new["metadata"].clone();
    let mut kept = old.clone();
    if let Some(object) = kept.as_object_mut() {
        match status {
            Some(status) => object.insert("status".into(), status),
            None => object.remove("status"),
        };
    }
    const ONLY_STATUS: [&str; 8] = [
        DEFINITIONS,
        api_services::COLLECTION,
        POLICIES,
        "flowcontrol.apiserver.k8s.io/flowschemas",
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        "networking.k8s.io/servicecidrs",
        "resource.k8s.io/resourceclaims",
        "storage.k8s.io/volumeattachments",
    ];
    let only_status = ONLY_STATUS.iter().any(|known| resource.is(known));
    if resource.custom.is_some() || only_status {
        if let Some(target) = kept["metadata"].as_object_mut() {
            match managed {
                Some(managed) => target.insert("managedFields".into(), managed),
                None => target.remove("managedFields"),
            };
        }
    } else if metadata.is_object() {
        kept["metadata"] = metadata;
        let own = match &*resource.collection {
            "/pods" => Some("ownerReferences"),
            "apps/deployments" => Some("labels"),
            _ => None,
        };
        if let Some(own) = own {
            move_field(&old["metadata"], &mut kept["metadata"], own);
        }
    }
    *new = kept;
}

/// What the status of an object says once it is being deleted.
pub(crate) fn mark_deleting(resource: &Resource, value: &mut Value) {
    if resource.is("/namespaces") {
        value["status"]["phase"] = "Terminating".into();
    }
    if resource.is(DEFINITIONS) {
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        definitions::set_condition(&mut value["status"], "Terminating", "True", "InstanceDeletionPending", message);
    }
}

/// A deletion counts as a new generation and has a period of grace, except where a kind is deleted in its own way.
pub(crate) fn settle_deletion(resource: &Resource, old: &Value, new: &mut Value) {
    if resource.is(DEFINITIONS) {
        new["metadata"]["generation"] = old["metadata"]["generation"].clone();
    }
    if let Some(metadata) =
        new["metadata"].as_object_mut().filter(|_| resource.is("/namespaces") || resource.is(DEFINITIONS))
    {
        metadata.remove("deletionGracePeriodSeconds");
    }
}

/// What keeps an object of storage while somebody uses it.
pub(crate) fn protection(resource: &Resource) -> Option<&'static str> {
    match &*resource.collection {
        "/persistentvolumeclaims" => Some("kubernetes.io/pvc-protection"),
        "/persistentvolumes" => Some("kubernetes.io/pv-protection"),
        "storage.k8s.io/volumeattributesclasses" => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

/// Definitions wait until their objects are gone.
pub(crate) fn deletion_finalizer(resource: &Resource) -> Option<&'static str> {
    resource.is(DEFINITIONS).then_some(definitions::FINALIZER)
}

/// Namespaces wait for the finalizers in their spec, not only for those in metadata.
pub(crate) fn has_spec_finalizers(value: &Value) -> bool {
    value["kind"] == "Namespace"
        && value["apiVersion"] == "v1"
        && value["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}
