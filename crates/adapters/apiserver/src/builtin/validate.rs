//! Checks of built-in kinds that their schemas do not carry.

mod cron;
mod jobs;
mod place;
mod pods;
mod rules;
mod sources;
mod storage;
mod workloads;

use base64::{Engine, engine::general_purpose::STANDARD};
use schema::{FieldError, crd, names};
use serde_json::{Value, json};

use crate::{object::text, registry::Resource};
use place::Place;

const IMMUTABLE: &str = "field is immutable";

/// Kinds whose schemas have no say: what they miss is found here, as on the real server.
const JUDGED: [&str; 11] = [
    "/pods",
    "/podtemplates",
    "/replicationcontrollers",
    "/persistentvolumeclaims",
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

pub(crate) fn validate(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let place = Place::root(value);
    if matches!(resource.group.as_str(), "" | "apps" | "batch" | "policy" | "rbac.authorization.k8s.io") {
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
        "/configmaps" => {
            data(value, &["data", "binaryData"], &mut errors);
            frozen(value, old, &["data", "binaryData"], &mut errors);
        }
        "/secrets" => {
            data(value, &["data"], &mut errors);
            frozen(value, old, &["data"], &mut errors);
            if let Some(old) = old
                && old["type"] != value["type"]
            {
                errors.push(FieldError::invalid("type", value["type"].clone(), IMMUTABLE));
            }
        }
        "/nodes" => node(value, &mut errors),
        "policy/poddisruptionbudgets" => {
            let spec = &value["spec"];
            if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
                let detail = "minAvailable and maxUnavailable cannot be both set";
                errors.push(FieldError::invalid("spec", spec.clone(), detail));
            }
        }
        "rbac.authorization.k8s.io/rolebindings" | "rbac.authorization.k8s.io/clusterrolebindings" => {
            binding(value, old, &mut errors);
        }
        "scheduling.k8s.io/priorityclasses" => {
            if let Some(old) = old
                && old["value"] != value["value"]
            {
                errors.push(FieldError::forbidden("value", "may not be changed in an update."));
            }
        }
        "apiextensions.k8s.io/customresourcedefinitions" => errors.extend(crd::validate(value, old)),
        "coordination.k8s.io/leases" => {
            let spec = &value["spec"];
            for (field, least, detail) in [
                ("leaseDurationSeconds", 1, "must be greater than 0"),
                ("leaseTransitions", 0, "must be greater than or equal to 0"),
            ] {
                if let Some(number) = spec[field].as_i64().filter(|number| *number < least) {
                    errors.push(FieldError::invalid(format!("spec.{field}"), number, detail));
                }
            }
        }
        "/services" => service(value, &mut errors),
        "/events" => super::events::validate(resource, value, old, &mut errors),
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

fn data(value: &Value, fields: &[&str], errors: &mut Vec<FieldError>) {
    const RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut size = 0;
    for field in fields {
        for (key, content) in value[field].as_object().into_iter().flatten() {
            size += content.as_str().map_or(0, str::len);
            let path = format!("{field}[{key}]");
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
                errors.push(FieldError::invalid(path, key.as_str(), RULE));
            } else if key.len() > 253 {
                errors.push(FieldError::invalid(path, key.as_str(), "must be no more than 253 characters"));
            }
        }
    }
    const LIMIT: usize = 1024 * 1024;
    if size > LIMIT {
        errors.push(FieldError::too_long("", LIMIT as u64));
    }
}

/// An object marked immutable stays as it is.
fn frozen(value: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return };
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if value["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", DETAIL));
    }
    for field in fields {
        if old[field] != value[field] {
            errors.push(FieldError::forbidden(*field, DETAIL));
        }
    }
}

fn node(value: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (position, taint) in items(&value["spec"]["taints"]).iter().enumerate() {
        let path = format!("spec.taints[{position}]");
        let (key, effect) = (text(&taint["key"]), text(&taint["effect"]));
        for problem in names::is_qualified_name(key) {
            errors.push(FieldError::invalid(format!("{path}.key"), key, problem));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{path}.effect"), ""));
        } else if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map(str::to_owned);
            errors.push(FieldError::not_supported(format!("{path}.effect"), effect, &supported));
        }
        if seen.contains(&(key, effect)) {
            let shown = json!({"key": key, "effect": effect});
            errors.push(FieldError::duplicate(path, shown));
        }
        seen.push((key, effect));
    }
}

fn binding(value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let role = &value["roleRef"];
    if text(&role["name"]).is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    let supported: &[&str] =
        if value["kind"] == "ClusterRoleBinding" { &["ClusterRole"] } else { &["ClusterRole", "Role"] };
    if !supported.contains(&text(&role["kind"])) {
        let supported: Vec<String> = supported.iter().map(|&kind| kind.to_owned()).collect();
        errors.push(FieldError::not_supported("roleRef.kind", role["kind"].clone(), &supported));
    }
    for (position, subject) in items(&value["subjects"]).iter().enumerate() {
        if text(&subject["name"]).is_empty() {
            errors.push(FieldError::required(format!("subjects[{position}].name"), ""));
        }
        let kind = text(&subject["kind"]);
        if kind == "ServiceAccount" && text(&subject["namespace"]).is_empty() {
            errors.push(FieldError::required(format!("subjects[{position}].namespace"), ""));
        }
        if !matches!(kind, "ServiceAccount" | "User" | "Group") {
            let supported = ["ServiceAccount", "User", "Group"].map(str::to_owned);
            errors.push(FieldError::not_supported(format!("subjects[{position}].kind"), kind, &supported));
        }
    }
    if let Some(old) = old
        && old["roleRef"] != *role
    {
        errors.push(FieldError::invalid("roleRef", role.clone(), "cannot change roleRef"));
    }
}

fn service(value: &Value, errors: &mut Vec<FieldError>) {
    let spec = &value["spec"];
    let headless = spec["clusterIP"] == "None";
    if items(&spec["ports"]).is_empty() && !headless && spec["type"] != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (position, port) in items(&spec["ports"]).iter().enumerate() {
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("spec.ports[{position}].port"), number, detail));
        }
    }
}
