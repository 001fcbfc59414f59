//! How kinds differ in create, update and delete. Custom resources all behave alike.

use serde_json::Value;

use crate::registry::Resource;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Strategy {
    /// Counts changes of what the user asked for in `metadata.generation`.
    pub generation: bool,
    /// A PUT without a version replaces whatever is there.
    pub unconditional: bool,
    /// A PUT of an absent object creates it.
    pub create_on_update: bool,
    /// A delete answers with the object instead of a Status.
    pub returns_deleted: bool,
    /// What a create says about status is kept.
    pub keeps_status: bool,
    /// A delete may leave the object for a while.
    pub graceful: bool,
}

pub(crate) fn of(resource: &Resource) -> Strategy {
    let collection = &*resource.collection;
    if resource.custom.is_some() {
        return Strategy {
            generation: true,
            unconditional: false,
            create_on_update: false,
            returns_deleted: false,
            keeps_status: false,
            graceful: false,
        };
    }
    Strategy {
        generation: matches!(
            collection,
            "/pods"
                | "/podtemplates"
                | "/replicationcontrollers"
                | "apps/deployments"
                | "apps/daemonsets"
                | "apps/replicasets"
                | "apps/statefulsets"
                | "batch/jobs"
                | "batch/cronjobs"
                | "policy/poddisruptionbudgets"
                | "discovery.k8s.io/endpointslices"
                | "scheduling.k8s.io/priorityclasses"
                | "storage.k8s.io/csidrivers"
                | "networking.k8s.io/networkpolicies"
                | "networking.k8s.io/ingresses"
                | "networking.k8s.io/ingressclasses"
                | "flowcontrol.apiserver.k8s.io/flowschemas"
                | "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"
                | "resource.k8s.io/deviceclasses"
                | "resource.k8s.io/resourceslices"
                | "apiextensions.k8s.io/customresourcedefinitions"
                | "admissionregistration.k8s.io/mutatingadmissionpolicies"
                | "admissionregistration.k8s.io/mutatingadmissionpolicybindings"
                | "admissionregistration.k8s.io/mutatingwebhookconfigurations"
                | "admissionregistration.k8s.io/validatingwebhookconfigurations"
                | "admissionregistration.k8s.io/validatingadmissionpolicies"
                | "admissionregistration.k8s.io/validatingadmissionpolicybindings"
        ),
        unconditional: !matches!(
            collection,
            "policy/poddisruptionbudgets"
                | "coordination.k8s.io/leases"
                | "storage.k8s.io/csinodes"
                | "storage.k8s.io/csidrivers"
                | "storage.k8s.io/csistoragecapacities"
                | "storage.k8s.io/volumeattachments"
                | "node.k8s.io/runtimeclasses"
                | "apiextensions.k8s.io/customresourcedefinitions"
                | "apiregistration.k8s.io/apiservices"
                | "admissionregistration.k8s.io/mutatingadmissionpolicies"
                | "admissionregistration.k8s.io/mutatingadmissionpolicybindings"
                | "admissionregistration.k8s.io/mutatingwebhookconfigurations"
                | "admissionregistration.k8s.io/validatingwebhookconfigurations"
                | "admissionregistration.k8s.io/validatingadmissionpolicies"
                | "admissionregistration.k8s.io/validatingadmissionpolicybindings"
        ),
        create_on_update: matches!(
            collection,
            "rbac.authorization.k8s.io/roles"
                | "rbac.authorization.k8s.io/rolebindings"
                | "rbac.authorization.k8s.io/clusterroles"
                | "rbac.authorization.k8s.io/clusterrolebindings"
                | "coordination.k8s.io/leases"
                | "node.k8s.io/runtimeclasses"
                | "/limitranges"
                | "/events"
                | "/services"
                | "/endpoints"
        ),
        returns_deleted: matches!(
            collection,
            "/pods"
                | "/services"
                | "/serviceaccounts"
                | "/namespaces"
                | "/resourcequotas"
                | "/persistentvolumes"
                | "/persistentvolumeclaims"
                | "/podtemplates"
                | "storage.k8s.io/csinodes"
                | "storage.k8s.io/csidrivers"
                | "storage.k8s.io/storageclasses"
                | "storage.k8s.io/volumeattachments"
                | "storage.k8s.io/volumeattributesclasses"
                | "resource.k8s.io/deviceclasses"
                | "resource.k8s.io/resourceclaims"
                | "resource.k8s.io/resourceclaimtemplates"
                | "resource.k8s.io/resourceslices"
        ),
        keeps_status: collection == "/nodes",
        graceful: collection == "/pods",
    }
}

/// Server-side apply creates what is not there, except where only a POST makes sense.
pub(crate) fn creates_by_apply(resource: &Resource) -> bool {
    resource.allows("create")
}

/// Whether anything but metadata and status differs.
pub(crate) fn spec_changed(resource: &Resource, old: &Value, new: &Value) -> bool {
    // The value of a class of priority never changes, and the rest does not count.
    if resource.is("scheduling.k8s.io/priorityclasses") {
        return false;
    }
    if resource.is("discovery.k8s.io/endpointslices") && old["metadata"]["labels"] != new["metadata"]["labels"] {
        return true;
    }
    // Annotations of a Deployment reach its pods' template through its controller.
    if resource.is("apps/deployments") && old["metadata"]["annotations"] != new["metadata"]["annotations"] {
        return true;
    }
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old != new };
    let counts = |key: &str| match key {
        "metadata" | "apiVersion" | "kind" => false,
        "status" => !resource.has_status(),
        _ => true,
    };
    old.keys().chain(new.keys()).any(|key| counts(key) && old.get(key) != new.get(key))
}
