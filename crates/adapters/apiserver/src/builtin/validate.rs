//! Checks of built-in kinds that their schemas do not carry.

use base64::{Engine, engine::general_purpose::STANDARD};
use schema::{FieldError, crd, names};
use serde_json::{Value, json};

use crate::{object::text, registry::Resource};

const IMMUTABLE: &str = "field is immutable";

/// Adds own findings to those of the schema; where both miss a field, the own words are kept.
pub(crate) fn combine(errors: &mut Vec<FieldError>, own: Vec<FieldError>) {
    let misses = |error: &FieldError| error.reason() == "FieldValueRequired";
    errors.retain(|error| !(misses(error) && own.iter().any(|own| misses(own) && own.field == error.field)));
    errors.extend(own);
}

pub(crate) fn validate(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if matches!(resource.group.as_str(), "" | "apps" | "batch" | "policy" | "rbac.authorization.k8s.io") {
        finalizers(value, &mut errors);
    }
    match &*resource.collection {
        "/pods" => pod(value, old, &mut errors),
        "apps/deployments" | "apps/daemonsets" | "apps/replicasets" | "apps/statefulsets" => {
            workload(value, old, &mut errors);
        }
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
        "admissionregistration.k8s.io/validatingadmissionpolicybindings" => {
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

fn pod(value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    containers(&value["spec"], "spec", errors);
    if old.is_none() && !items(&value["spec"]["ephemeralContainers"]).is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    let Some(old) = old else { return };
    // Only images, deadlines, added tolerations and gates may change; a kubelet acts on the rest once.
    let essence = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["containers", "initContainers"] {
            if let Some(list) = spec.get_mut(field).and_then(Value::as_array_mut) {
                list.iter_mut().for_each(|container| container["image"] = Value::Null);
            }
        }
        for field in [
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
            "schedulingGates",
            "nodeName",
            "resources",
        ] {
            if let Some(spec) = spec.as_object_mut() {
                spec.remove(field);
            }
        }
        spec
    };
    let moved = !text(&old["spec"]["nodeName"]).is_empty() && old["spec"]["nodeName"] != value["spec"]["nodeName"];
    let bound_directly = text(&old["spec"]["nodeName"]).is_empty() && !text(&value["spec"]["nodeName"]).is_empty();
    if essence(old) != essence(value) || moved || bound_directly {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        errors.push(FieldError::forbidden("spec", detail));
    }
}

fn containers(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if items(&spec["containers"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen = Vec::new();
    for (position, container) in items(&spec["containers"]).iter().enumerate() {
        let path = format!("{path}.containers[{position}]");
        let name = text(&container["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if let [problem, ..] = names::is_label(name).as_slice() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, problem.clone()));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        seen.push(name);
        if text(&container["image"]).is_empty() {
            errors.push(FieldError::required(format!("{path}.image"), ""));
        }
        ports(&container["ports"], &format!("{path}.ports"), errors);
    }
    let policy = text(&spec["restartPolicy"]);
    if !policy.is_empty() && !matches!(policy, "Always" | "OnFailure" | "Never") {
        let supported = ["Always", "OnFailure", "Never"].map(str::to_owned);
        errors.push(FieldError::not_supported(format!("{path}.restartPolicy"), policy, &supported));
    }
}

fn ports(ports: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (at, port) in items(ports).iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = text(&port["name"]);
        let problems = if name.is_empty() { Vec::new() } else { port_name(name) };
        if !problems.is_empty() {
            let problems = problems.into_iter();
            errors.extend(problems.map(|problem| FieldError::invalid(format!("{path}.name"), name, problem)));
        } else if !name.is_empty() && seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        } else {
            seen.push(name);
        }
        for (field, required) in [("containerPort", true), ("hostPort", false)] {
            match port[field].as_i64().unwrap_or(0) {
                0 if required => errors.push(FieldError::required(format!("{path}.{field}"), "")),
                0..=65535 => {}
                number => {
                    let detail = "must be between 1 and 65535, inclusive";
                    errors.push(FieldError::invalid(format!("{path}.{field}"), number, detail));
                }
            }
        }
        let protocol = text(&port["protocol"]);
        if !matches!(protocol, "SCTP" | "TCP" | "UDP") {
            let supported = ["SCTP", "TCP", "UDP"].map(str::to_owned);
            errors.push(FieldError::not_supported(format!("{path}.protocol"), protocol, &supported));
        }
    }
}

/// What is wrong with the name of a port.
fn port_name(name: &str) -> Vec<&'static str> {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (name.len() > 15, "must be no more than 15 characters"),
        (!name.bytes().all(is_known), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (!name.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, rule)| rule).collect()
}

/// Containers for debugging are added to a pod, and then stay as they are.
pub(crate) fn ephemeral_containers(new: &Value, old: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.ephemeralContainers";
    let mut errors = Vec::new();
    let spec = &new["spec"];
    let name = |container: &Value| text(&container["name"]).to_owned();
    let others: Vec<String> =
        ["containers", "initContainers"].iter().flat_map(|field| items(&spec[*field])).map(name).collect();
    let mut seen = others.clone();
    for (at, container) in items(&spec["ephemeralContainers"]).iter().enumerate() {
        let path = format!("{FIELD}[{at}]");
        let own = name(container);
        if own.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if let [problem, ..] = names::is_label(&own).as_slice() {
            errors.push(FieldError::invalid(format!("{path}.name"), own.as_str(), problem.clone()));
        }
        if text(&container["image"]).is_empty() {
            errors.push(FieldError::required(format!("{path}.image"), ""));
        }
        if seen.contains(&own) {
            errors.push(FieldError::duplicate(format!("{path}.name"), own.as_str()));
        }
        seen.push(own);
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.iter().any(|other| other == target) {
            let field = format!("{path}.targetContainerName");
            errors.push(FieldError::new(schema::ErrorKind::NotFound, field, Some(target.into()), ""));
        }
        for field in ["ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            let set = match &container[field] {
                Value::Null => false,
                Value::Object(map) => !map.is_empty(),
                Value::Array(list) => !list.is_empty(),
                _ => true,
            };
            if set {
                errors
                    .push(FieldError::forbidden(format!("{path}.{field}"), "cannot be set for an Ephemeral Container"));
            }
        }
    }
    for before in items(&old["spec"]["ephemeralContainers"]) {
        let after = items(&spec["ephemeralContainers"]).iter().find(|after| after["name"] == before["name"]);
        let what = match after {
            Some(after) if after == before => continue,
            Some(_) => "changed",
            None => "removed",
        };
        let detail = format!("existing ephemeral containers {:?} may not be {what}\n", name(before));
        errors.push(FieldError::forbidden(FIELD, detail));
    }
    errors
}

fn workload(value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &value["spec"];
    if let Some(replicas) = spec["replicas"].as_i64().filter(|replicas| *replicas < 0) {
        errors.push(FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
    }
    let strategy = &spec["strategy"];
    if strategy["type"] == "Recreate" && !strategy["rollingUpdate"].is_null() {
        let detail = "may not be specified when strategy `type` is 'Recreate'";
        errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
    }
    let selector = &spec["selector"];
    let empty = selector.as_object().is_none_or(|map| {
        map.values().all(|part| {
            part.as_object().is_some_and(serde_json::Map::is_empty) || part.as_array().is_some_and(Vec::is_empty)
        })
    });
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if empty {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "empty selector is invalid for deployment"));
    }
    if let Some(parsed) = schema::selector::from_object(selector).ok().filter(|_| selector.is_null() || !empty) {
        let labels = &spec["template"]["metadata"]["labels"];
        if !parsed.matches(labels.as_object()) {
            let shown = labels.clone();
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid("spec.template.metadata.labels", shown, detail));
        }
    }
    if spec["template"].is_object() {
        containers(&spec["template"]["spec"], "spec.template.spec", errors);
    } else {
        errors.push(FieldError::required("spec.template.spec.containers", ""));
    }
    if let Some(old) = old
        && old["spec"]["selector"] != *selector
    {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), IMMUTABLE));
    }
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
