//! Config maps, secrets, quotas and limits.

use std::cmp::Ordering;

use base64::{Engine, engine::general_purpose::STANDARD};
use schema::{FieldError, names};
use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::pods::{amount_of, compare, container_resource, may_overcommit, quantity, resource_name, shown};
use super::rules;

const LIMIT: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(crate) fn config_map(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    frozen(object, old, &["data", "binaryData"], findings);
    let binary = object.field("binaryData");
    let mut size = 0;
    for (key, value) in object.field("data").entries() {
        keyed(key, &value, findings);
        if binary.value.get(key).is_some() {
            findings.invalid_as(&value, key, "duplicate of key present in binaryData");
        }
        size += value.text().len();
    }
    for (key, value) in binary.entries() {
        keyed(key, &value, findings);
        size += decoded(value.text()).len();
    }
    if size > LIMIT {
        findings.push(FieldError::too_long("", LIMIT as u64));
    }
}

fn keyed(key: &str, place: &Place<'_>, findings: &mut Findings) {
    for problem in rules::config_key(key) {
        findings.invalid_as(place, key, problem);
    }
}

fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

pub(crate) fn secret(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    if let Some(old) = old {
        rules::immutable(&object.field("type"), &old["type"], findings);
    }
    frozen(object, old, &["data"], findings);
    let data = object.field("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        keyed(key, &value, findings);
        size += decoded(value.text()).len();
    }
    if size > LIMIT {
        findings.too_long(&data, LIMIT as u64);
    }
    typed_secret(object, &data, findings);
}

fn typed_secret(object: &Place<'_>, data: &Place<'_>, findings: &mut Findings) {
    let at = |key: &str| Place { value: &data.value[key], path: format!("{}[{key}]", data.path) };
    let needs = |keys: &[&str], findings: &mut Findings| {
        for place in keys.iter().map(|key| at(key)).filter(|place| !place.is_set()) {
            findings.required(&place, "");
        }
    };
    match object.field("type").text() {
        "kubernetes.io/service-account-token" => {
            const KEY: &str = "kubernetes.io/service-account.name";
            let annotations = object.field("metadata").field("annotations");
            if annotations.value[KEY].as_str().is_none_or(str::is_empty) {
                findings.push(FieldError::required(format!("{}[{KEY}]", annotations.path), ""));
            }
        }
        kind @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
            let key = format!(".{}", kind.rsplit('/').next().unwrap_or_default());
            let place = at(&key);
            if !place.is_set() {
                return findings.required(&place, "");
            }
            let bytes = decoded(place.text());
            let problem = match serde_json::from_slice::<Value>(&bytes) {
                Ok(Value::Object(_) | Value::Null) => None,
                Ok(other) => {
                    let kind = match other {
                        Value::String(_) => "string",
                        Value::Array(_) => "array",
                        Value::Bool(_) => "bool",
                        _ => "number",
                    };
                    Some(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
                }
                Err(_) => cel::go::json::complaint(&bytes),
            };
            if let Some(problem) = problem {
                findings.invalid_as(&place, "<secret contents redacted>", problem);
            }
        }
        "kubernetes.io/basic-auth" if !at("username").is_set() && !at("password").is_set() => {
            needs(&["username", "password"], findings);
        }
        "kubernetes.io/ssh-auth" if at("ssh-privatekey").is_empty() => findings.required(&at("ssh-privatekey"), ""),
        "kubernetes.io/tls" => needs(&["tls.crt", "tls.key"], findings),
        _ => {}
    }
}

/// An object marked immutable stays as it is.
fn frozen(object: &Place<'_>, old: Option<&Value>, fields: &[&str], findings: &mut Findings) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return };
    if !object.field("immutable").is_true() {
        findings.forbidden(&object.field("immutable"), FROZEN);
    }
    for field in fields {
        if !rules::same(&old[field], object.field(field).value) {
            findings.forbidden(&object.field(field), FROZEN);
        }
    }
}

const STANDARD_QUOTA: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_quota_resource(name: &str) -> bool {
    STANDARD_QUOTA.contains(&name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

pub(crate) fn quota(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    for (name, place) in spec.field("hard").entries() {
        resource_name(&place, name, findings);
        if !name.contains('/') && !is_quota_resource(name) {
            findings.invalid_as(&place, name, "must be a standard resource for quota");
        }
        quantity(&place, name, findings);
    }
    let scopes = spec.field("scopes");
    for scope in scopes.texts() {
        if !is_scope(scope) {
            findings.invalid(&scopes, "unsupported scope");
        }
        for _ in spec.field("hard").entries().filter(|(name, _)| is_quota_resource(name) && !scope_fits(scope, name)) {
            findings.invalid(&scopes, "unsupported scope applied to resource");
        }
    }
    conflicting(&scopes.texts().collect::<Vec<_>>(), &scopes, &scopes, findings);
    scope_selector(&spec, findings);
    if let Some(old) = old {
        let mut before: Vec<&str> =
            old["spec"]["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut after: Vec<&str> = scopes.texts().collect();
        before.sort_unstable();
        before.dedup();
        after.sort_unstable();
        after.dedup();
        if before != after {
            findings.invalid(&scopes, rules::IMMUTABLE);
        }
    }
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

fn scope_fits(scope: &str, resource: &str) -> bool {
    let computes =
        matches!(resource, "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory");
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            computes || resource == "pods"
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn conflicting(scopes: &[&str], place: &Place<'_>, shown: &Place<'_>, findings: &mut Findings) {
    for pair in [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            findings.invalid_as(place, shown.value.clone(), "conflicting scopes");
        }
    }
}

fn scope_selector(spec: &Place<'_>, findings: &mut Findings) {
    let selector = spec.field("scopeSelector");
    let list = selector.field("matchExpressions");
    let mut seen = Vec::new();
    for own in list.items() {
        // The real server tells about each at the path of the list.
        let field = |name: &str| own.field(name).known_as(list.child(name));
        let (scope, operator, values) = (field("scopeName"), field("operator"), field("values"));
        if !is_scope(scope.text()) {
            findings.invalid_as(&scope, scope.text(), "unsupported scope");
        }
        for _ in
            spec.field("hard").entries().filter(|(name, _)| is_quota_resource(name) && !scope_fits(scope.text(), name))
        {
            findings.invalid_as(&list, selector.value.clone(), "unsupported scope applied to resource");
        }
        if !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass")
            && is_scope(scope.text())
            && operator.text() != "Exists"
        {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            findings.invalid_as(&operator, operator.text(), detail);
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                findings.required(
                    &values,
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                );
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                findings.invalid(
                    &values,
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => findings.invalid_as(&operator, other, "not a valid selector operator"),
        }
        seen.push(scope.text());
    }
    conflicting(&seen, &list, &spec.field("scopes"), findings);
}

pub(crate) fn limit_range(object: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for limit in object.field("spec").field("limits").items() {
        let kind = limit.field("type");
        let problems = names::is_qualified_name(kind.text());
        if problems.is_empty() {
            let known =
                kind.text().contains('/') || matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
            if !known {
                findings.invalid(&kind, "must be a standard limit type or fully qualified");
            }
        }
        findings.problems(&kind, problems);
        if seen.contains(&kind.text()) {
            findings.duplicate(&kind);
        }
        seen.push(kind.text());
        limit_names(&limit, findings);
        let mut keys: Vec<&str> = Vec::new();
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            keys.extend(limit.field(field).entries().map(|(key, _)| key));
        }
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            limits_of(&limit, key, findings);
        }
    }
}

fn limit_names(limit: &Place<'_>, findings: &mut Findings) {
    let kind = limit.field("type").text();
    let check = |field: &str, findings: &mut Findings| {
        for (name, place) in limit.field(field).entries() {
            match kind {
                "Pod" | "Container" => container_resource(&place, name, findings),
                _ => drop(resource_name(&place, name, findings)),
            }
        }
    };
    check("max", findings);
    check("min", findings);
    for field in ["default", "defaultRequest"] {
        if kind != "Pod" {
            check(field, findings);
        } else if !limit.field(field).is_empty() {
            findings.forbidden(&limit.field(field), "may not be specified when `type` is 'Pod'");
        }
    }
    if kind == "PersistentVolumeClaim"
        && !["min", "max"].iter().any(|field| limit.value[*field].get("storage").is_some())
    {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        findings.required(&limit.field("limits"), detail);
    }
    check("maxLimitRequestRatio", findings);
}

fn limits_of(limit: &Place<'_>, key: &str, findings: &mut Findings) {
    let pod = limit.field("type").text() == "Pod";
    let of = |field: &str| {
        let list = limit.field(field);
        Place { value: &list.value[key], path: format!("{}[{key}]", list.path) }
    };
    let (least, most, ratio) = (of("min"), of("max"), of("maxLimitRequestRatio"));
    let none = Place::root(&Value::Null);
    let (usual, request) = if pod { (none.clone(), none) } else { (of("default"), of("defaultRequest")) };
    let above = |one: &Place<'_>, other: &Place<'_>| {
        one.is_set() && other.is_set() && compare(one.value, other.value) == Ordering::Greater
    };
    let mut tell = |wrong: bool, place: &Place<'_>, told: &Place<'_>, detail: String| {
        if wrong {
            findings.invalid_as(place, shown(told.value), detail);
        }
    };
    let text = |place: &Place<'_>| shown(place.value);
    // What must not be above what, by the names they are told by, and which of the two is shown where.
    for (one, one_name, other, other_name, place, told) in [
        (&least, "min value", &most, "max value", &least, &least),
        (&least, "min value", &request, "default request value", &request, &request),
        (&request, "default request value", &most, "max value", &request, &request),
        (&request, "default request value", &usual, "default limit value", &request, &request),
        (&least, "min value", &usual, "default value", &usual, &least),
        (&usual, "default value", &most, "max value", &usual, &most),
    ] {
        let detail = format!("{one_name} {} is greater than {other_name} {}", text(one), text(other));
        tell(above(one, other), place, told, detail);
    }
    let one = Value::from("1");
    let small = ratio.is_set() && compare(ratio.value, &one) == Ordering::Less;
    tell(small, &ratio, &ratio, format!("ratio {} is less than 1", text(&ratio)));
    if ratio.is_set() && least.is_set() && most.is_set() {
        let float = |value: &Value| {
            let (amount, scale) = amount_of(value);
            amount as f64 * 10_f64.powi(scale)
        };
        let limit = float(most.value) / float(least.value);
        let wrong = float(ratio.value) > limit;
        tell(wrong, &ratio, &ratio, format!("ratio {} is greater than max/min = {limit:.6}", text(&ratio)));
    }
    let differs = usual.is_set() && request.is_set() && compare(usual.value, request.value) != Ordering::Equal;
    tell(
        differs && !may_overcommit(key),
        &request,
        &request,
        format!("default value {} must equal to defaultRequest value {} in {key}", text(&usual), text(&request)),
    );
}
