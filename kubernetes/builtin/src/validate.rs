//! Checks of built-in kinds that their schemas do not carry.

mod access;
mod addresses;
mod autoscaling;
mod certificates;
mod classes;
mod cluster;
mod config;
mod cron;
mod csi;
mod devices;
mod endpoints;
mod flow;
mod jobs;
mod network;
mod place;
mod pods;
mod rules;
mod services;
mod sources;
mod storage;
mod workloads;

use base64::{Engine, engine::general_purpose::STANDARD};
use schema::{FieldError, crd, names};
use serde_json::Value;

use crate::{object::text, registry::Resource, verbs::convert};
use place::Place;

/// Kinds whose schemas have no say: what they miss is found here, as on the real server.
const JUDGED: [&str; 51] = [
    "resource.k8s.io/deviceclasses",
    "resource.k8s.io/resourceclaims",
    "resource.k8s.io/resourceclaimtemplates",
    "resource.k8s.io/resourceslices",
    "certificates.k8s.io/certificatesigningrequests",
    "flowcontrol.apiserver.k8s.io/flowschemas",
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
    "networking.k8s.io/servicecidrs",
    "storage.k8s.io/csidrivers",
    "storage.k8s.io/csinodes",
    "storage.k8s.io/csistoragecapacities",
    "storage.k8s.io/volumeattachments",
    "autoscaling/horizontalpodautoscalers",
    "networking.k8s.io/ingressclasses",
    "networking.k8s.io/ipaddresses",
    "node.k8s.io/runtimeclasses",
    "storage.k8s.io/volumeattributesclasses",
    "/pods",
    "/podtemplates",
    "/replicationcontrollers",
    "/configmaps",
    "/endpoints",
    "/events",
    "/limitranges",
    "/namespaces",
    "/nodes",
    "/persistentvolumeclaims",
    "/persistentvolumes",
    "/resourcequotas",
    "/secrets",
    "/serviceaccounts",
    "/services",
    "coordination.k8s.io/leases",
    "discovery.k8s.io/endpointslices",
    "events.k8s.io/events",
    "networking.k8s.io/ingresses",
    "networking.k8s.io/networkpolicies",
    "policy/poddisruptionbudgets",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/rolebindings",
    "rbac.authorization.k8s.io/roles",
    "scheduling.k8s.io/priorityclasses",
    "storage.k8s.io/storageclasses",
    "apps/controllerrevisions",
    "apps/daemonsets",
    "apps/deployments",
    "apps/replicasets",
    "apps/statefulsets",
    "batch/cronjobs",
    "batch/jobs",
];

/// Adds own findings to those of the schema; where both miss a field, the own words are kept.
pub(crate) fn combine(resource: &Resource, errors: &mut Vec<FieldError>, own: Vec<FieldError>) {
    let judged = JUDGED.iter().any(|known| resource.is(known));
    let misses = |error: &FieldError| error.reason() == "FieldValueRequired";
    errors.retain(|error| {
        let said = |own: &FieldError| misses(own) && own.field == error.field;
        !misses(error) || !(own.iter().any(said) || judged && !error.field.starts_with("metadata."))
    });
    errors.extend(own);
}

/// What is wrong with an object. `subresource` is what an update is sent to.
pub(crate) fn validate(resource: &Resource, subresource: &str, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let place = Place::root(value);
    let older = matches!(resource.group.as_str(), "" | "apps" | "batch" | "policy" | "rbac.authorization.k8s.io");
    if older || resource.is("storage.k8s.io/volumeattributesclasses") {
        finalizers(value, &mut errors);
    }
    match &*resource.collection {
        "/pods" => match old {
            Some(old) => pods::update(&place, old, &mut errors),
            None => pods::create(&place, &mut errors),
        },
        "/podtemplates" => workloads::pod_template(&place, &mut errors),
        "/replicationcontrollers" => workloads::replication_controller(&place, &mut errors),
        "/persistentvolumeclaims" => storage::claim(&place, old, &mut errors),
        "apps/deployments" => workloads::deployment(&place, old, &mut errors),
        "apps/daemonsets" => workloads::daemon_set(&place, old, &mut errors),
        "apps/replicasets" => workloads::replica_set(&place, old, &mut errors),
        "apps/statefulsets" => workloads::stateful_set(&place, old, &mut errors),
        "apps/controllerrevisions" => workloads::controller_revision(&place, old, &mut errors),
        "batch/jobs" => jobs::job(&place, old, &mut errors),
        "batch/cronjobs" => jobs::cron_job(&place, old, &mut errors),
        "/configmaps" => config::config_map(&place, old, &mut errors),
        "/secrets" => config::secret(&place, old, &mut errors),
        "/resourcequotas" => config::quota(&place, old, &mut errors),
        "/limitranges" => config::limit_range(&place, &mut errors),
        "/nodes" => cluster::node(&place, old, &mut errors),
        "/events" => super::events::validate(resource, value, old, &mut errors),
        "/services" => services::check(&place, old, &mut errors),
        "/endpoints" => endpoints::check(&place, &mut errors),
        "/persistentvolumes" => storage::volume(&place, old, &mut errors),
        "coordination.k8s.io/leases" => cluster::lease(&place, &mut errors),
        "discovery.k8s.io/endpointslices" => endpoints::slice(&place, old, &mut errors),
        "networking.k8s.io/ingresses" => network::ingress(&place, old, &mut errors),
        "networking.k8s.io/networkpolicies" => network::policy(&place, &mut errors),
        "policy/poddisruptionbudgets" => cluster::budget(&place, &mut errors),
        "rbac.authorization.k8s.io/roles" => access::role(&place, true, &mut errors),
        "rbac.authorization.k8s.io/clusterroles" => access::role(&place, false, &mut errors),
        "rbac.authorization.k8s.io/rolebindings" => access::binding(&place, true, old, &mut errors),
        "rbac.authorization.k8s.io/clusterrolebindings" => access::binding(&place, false, old, &mut errors),
        "scheduling.k8s.io/priorityclasses" => cluster::priority_class(&place, old, &mut errors),
        "storage.k8s.io/storageclasses" => storage::class(&place, old, &mut errors),
        "autoscaling/horizontalpodautoscalers" => {
            let old = old.map(|old| convert::as_stored(resource, old.clone()));
            let stored = convert::as_stored(resource, value.clone());
            autoscaling::check(&Place::root(&stored), old.as_ref(), &mut errors);
        }
        "networking.k8s.io/ingressclasses" => classes::ingress(&place, old, &mut errors),
        "networking.k8s.io/ipaddresses" => addresses::address(&place, old, &mut errors),
        "networking.k8s.io/servicecidrs" => addresses::range(&place, old, &mut errors),
        "certificates.k8s.io/certificatesigningrequests" => {
            certificates::request(&place, old, subresource, &mut errors);
        }
        "flowcontrol.apiserver.k8s.io/flowschemas" => flow::schema(&place, &mut errors),
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations" => flow::level(&place, &mut errors),
        "resource.k8s.io/deviceclasses" => devices::class(&place, &mut errors),
        "resource.k8s.io/resourceclaims" => devices::claim(&place, old, subresource, &mut errors),
        "resource.k8s.io/resourceclaimtemplates" => devices::template(&place, old, &mut errors),
        "resource.k8s.io/resourceslices" => devices::slice(&place, old, &mut errors),
        "storage.k8s.io/csidrivers" => csi::driver(&place, old, &mut errors),
        "storage.k8s.io/csinodes" => csi::node(&place, old, &mut errors),
        "storage.k8s.io/csistoragecapacities" => csi::capacity(&place, old, &mut errors),
        "storage.k8s.io/volumeattachments" => csi::attachment(&place, old, &mut errors),
        "node.k8s.io/runtimeclasses" => classes::runtime(&place, old, &mut errors),
        "storage.k8s.io/volumeattributesclasses" => classes::volume_attributes(&place, old, &mut errors),
        "apiextensions.k8s.io/customresourcedefinitions" => errors.extend(crd::validate(value, old)),
        "apiregistration.k8s.io/apiservices" => api_service(value, &mut errors),
        "admissionregistration.k8s.io/validatingwebhookconfigurations"
        | "admissionregistration.k8s.io/mutatingwebhookconfigurations" => {
            errors.extend(schema::webhook::validate(value, old));
        }
        super::POLICIES => errors.extend(schema::policy::validate(value, old)),
        super::BINDINGS => {
            errors.extend(schema::policy::validate_binding(value));
        }
        super::MUTATING_POLICIES => errors.extend(schema::policy::validate_mutating(value, old)),
        super::MUTATING_BINDINGS => errors.extend(schema::policy::validate_mutating_binding(value)),
        _ => {}
    }
    errors
}

/// The older kinds know the finalizers that may do without a domain.
fn finalizers(value: &Value, errors: &mut Vec<FieldError>) {
    for (at, finalizer) in items(&value["metadata"]["finalizers"]).iter().map(text).enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{at}]"), finalizer, detail));
        }
    }
}

/// An APIService is named by what it stands for, and says in which order it is listed.
fn api_service(value: &Value, errors: &mut Vec<FieldError>) {
    let (name, spec) = (text(&value["metadata"]["name"]), &value["spec"]);
    let (group, version) = (text(&spec["group"]), text(&spec["version"]));
    let required = format!("{version}.{group}");
    if name != required {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", detail));
    }
    if !group.is_empty() {
        errors.extend(names::is_subdomain(group).into_iter().map(|why| FieldError::invalid("spec.group", group, why)));
    }
    let wrong = names::is_label_1035(version).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid("spec.version", version, why)));
    for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let number = spec[field].as_i64().unwrap_or(0);
        if !(1..=most).contains(&number) {
            let detail = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(format!("spec.{field}"), number, detail));
        }
    }
    let bundle = text(&spec["caBundle"]);
    let skips = spec["insecureSkipTLSVerify"] == true;
    let service = &spec["service"];
    if service.is_null() {
        if !bundle.is_empty() {
            let size = STANDARD.decode(bundle).map_or(bundle.len(), |bytes| bytes.len());
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid("spec.caBundle", format!("{size} bytes"), detail));
        }
        if skips {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
        }
        return;
    }
    for field in ["namespace", "name"] {
        if text(&service[field]).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid("spec.service.port", port, detail));
    }
    if skips && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
    }
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Containers for debugging are added to a pod, and then stay as they are.
pub(crate) fn ephemeral_containers(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut findings = Vec::new();
    let place = Place::root(new);
    pods::metadata_and_spec(&place, &mut findings);
    pods::ephemeral_changes(&place, old, &mut findings);
    findings
}
