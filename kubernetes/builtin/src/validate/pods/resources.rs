//! What containers and pods ask for and may use at most.

use std::cmp::Ordering;

use schema::{ErrorKind, FieldError, names, quantity as quantities};
use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use super::Owner;

/// A quantity as a number and its power of ten. What is no quantity never gets here: it is not decoded.
pub(crate) fn amount_of(value: &Value) -> (i128, i32) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => return (0, 0),
        other => other.to_string(),
    };
    quantities::amount(&text).map_or((0, 0), |(amount, scale, _)| (amount, scale))
}

pub(crate) fn compare(one: &Value, other: &Value) -> Ordering {
    let ((one, one_scale), (other, other_scale)) = (amount_of(one), amount_of(other));
    let least = one_scale.min(other_scale);
    let lifted = |amount: i128, scale: i32| {
        let power = 10_i128.checked_pow((scale - least).unsigned_abs());
        power.map_or(if amount < 0 { i128::MIN } else { i128::MAX }, |power| amount.saturating_mul(power))
    };
    lifted(one, one_scale).cmp(&lifted(other, other_scale))
}

fn is_whole(value: &Value) -> bool {
    let (amount, scale) = amount_of(value);
    scale >= 0 || 10_i128.checked_pow(scale.unsigned_abs()).is_some_and(|unit| amount % unit == 0)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{name}")).is_empty()
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

const COUNTED: [&str; 9] = [
    "pods",
    "replicationcontrollers",
    "services",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The names of resources without a domain.
pub(crate) fn is_standard(name: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "requests.storage",
        "storage",
        "requests.hugepages-",
        "",
    ];
    (!name.is_empty() && OTHERS.contains(&name))
        || COUNTED.contains(&name)
        || is_huge_page(name)
        || name.starts_with("requests.hugepages-")
}

/// A name of a resource, as far as all places agree.
pub(crate) fn resource_name(place: &Place<'_>, name: &str, findings: &mut Findings) -> bool {
    let problems = names::is_qualified_name(name);
    let fits = problems.is_empty();
    findings.extend(problems.into_iter().map(|problem| FieldError::invalid(&place.path, name, problem)));
    if fits && !name.contains('/') && !is_standard(name) {
        findings.invalid_as(place, name, "must be a standard resource type or fully qualified");
        return false;
    }
    fits
}

pub(crate) fn container_resource(place: &Place<'_>, name: &str, findings: &mut Findings) {
    resource_name(place, name, findings);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            findings.invalid_as(place, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        findings.invalid_as(place, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource(place: &Place<'_>, name: &str, findings: &mut Findings) {
    if resource_name(place, name, findings) && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        let supported = ["cpu", "hugepages-", "memory"].map(str::to_owned);
        findings.push(FieldError::not_supported(&place.path, name, &supported));
    }
}

/// A quantity of a resource: not negative, and whole where it counts things.
pub(crate) fn quantity(place: &Place<'_>, name: &str, findings: &mut Findings) {
    if amount_of(place.value).0 < 0 {
        findings.invalid(place, rules::NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !is_whole(place.value) {
        findings.invalid(place, "must be an integer");
    }
}

pub(super) fn of_container(resources: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    requirements(resources, spec, container_resource, findings);
}

pub(super) fn overhead(overhead: &Place<'_>, findings: &mut Findings) {
    let limits = overhead.known_as(overhead.child("limits"));
    let absent = Place::root(&Value::Null);
    lists(&limits, &absent, &overhead.known_as(&overhead.path), container_resource, findings);
}

type NameCheck = fn(&Place<'_>, &str, &mut Findings);

fn requirements(resources: &Place<'_>, spec: &Place<'_>, name: NameCheck, findings: &mut Findings) {
    lists(&resources.field("limits"), &resources.field("requests"), resources, name, findings);
    claim_names(&resources.field("claims"), &spec.field("resourceClaims"), findings);
}

fn lists(limits: &Place<'_>, requests: &Place<'_>, whole: &Place<'_>, check: NameCheck, findings: &mut Findings) {
    for (name, place) in limits.entries() {
        check(&place, name, findings);
        quantity(&place, name, findings);
        huge_page(&place, name, findings);
    }
    for (name, place) in requests.entries() {
        check(&place, name, findings);
        quantity(&place, name, findings);
        let limit = &limits.value[name];
        let order = compare(place.value, limit);
        if limit.is_null() {
            if !may_overcommit(name) {
                findings.required(limits, "Limit must be set for non overcommitable resources");
            }
        } else if order != Ordering::Equal && !may_overcommit(name) {
            let detail = format!("must be equal to {name} limit of {}", shown(limit));
            findings.invalid_as(requests, shown(place.value), detail);
        } else if order == Ordering::Greater {
            let detail = format!("must be less than or equal to {name} limit of {}", shown(limit));
            findings.invalid_as(requests, shown(place.value), detail);
        }
        huge_page(&place, name, findings);
    }
    let has = |what: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| what(name));
    if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
        findings.forbidden(whole, "HugePages require cpu or memory");
    }
}

pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "0".to_owned(),
        other => other.to_string(),
    }
}

fn huge_page(place: &Place<'_>, name: &str, findings: &mut Findings) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let fits = quantities::amount(size).is_ok_and(|(size, scale, _)| {
        let (amount, own) = amount_of(place.value);
        size > 0 && scale == 0 && own == 0 && amount % size == 0
    });
    if !fits {
        let text = shown(place.value);
        let detail = format!("{text} is not positive integer multiple of {name}");
        findings.invalid_as(place, text, detail);
    }
}

fn claim_names(claims: &Place<'_>, known: &Place<'_>, findings: &mut Findings) {
    let known: Vec<&str> =
        known.items().map(|claim| claim.field("name").text()).filter(|name| !name.is_empty()).collect();
    let mut seen: Vec<String> = Vec::new();
    for claim in claims.items() {
        let (name, request) = (claim.field("name").text(), claim.field("request"));
        if name.is_empty() {
            findings.required(&claim, "");
            continue;
        }
        if seen.iter().any(|own| own == name) {
            findings.duplicate_as(&claim, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                rules::label(&request, findings);
                key = format!("{name}/{}", request.text());
            }
            if seen.contains(&key) {
                findings.duplicate_as(&claim, key.as_str());
            } else if request.is_empty() {
                for _ in seen.iter().filter(|own| own.split_once('/').is_some_and(|(own, _)| own == name)) {
                    findings.duplicate_as(&claim, name);
                }
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            let mut sorted = known.clone();
            sorted.sort_unstable();
            let rest = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", sorted.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{rest}");
            findings.push(FieldError::new(ErrorKind::NotFound, &claim.path, Some(name.into()), detail));
        }
    }
}

/// Claims of a whole pod.
pub(super) fn claims(claims: &Place<'_>, owner: Owner<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    let mirror =
        owner.metadata.is_some_and(|metadata| !metadata["annotations"]["kubernetes.io/config.mirror"].is_null());
    for claim in claims.items() {
        if mirror {
            findings.push(FieldError::forbidden("", "static pods do not support resource claims"));
            continue;
        }
        let name = claim.field("name");
        if name.is_empty() {
            findings.required(&name, "");
        } else if seen.contains(&name.text()) {
            findings.duplicate(&name);
        } else {
            rules::label(&name, findings);
            seen.push(name.text());
        }
        let (own, template) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        if own.is_set() && template.is_set() {
            let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            findings.invalid(&claim, detail);
        }
        if !own.is_set() && !template.is_set() {
            findings.invalid(&claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
        }
        for name in [own, template] {
            if name.is_set() {
                rules::subdomain(&name, findings);
            }
        }
    }
}

/// What a whole pod asks for: at least what its containers do.
pub(super) fn of_pod(spec: &Place<'_>, findings: &mut Findings) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if spec.field("os").field("name").text() == "windows" {
        return findings.forbidden(&resources, "may not be set for a windows pod");
    }
    if resources.field("claims").is_set() {
        findings.forbidden(&resources.field("claims"), "claims may not be set for Resources at pod-level");
    }
    requirements(&resources, spec, pod_resource, findings);
    for container in spec.field("containers").items() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let whole = &resources.value["limits"][name];
            if !whole.is_null() && compare(limit.value, whole) == Ordering::Greater {
                let at = container.path.rsplit("containers").next().unwrap_or_default();
                let place = limit.known_as(format!("{}.containers{at}[{name}].limits", resources.path));
                let detail = format!("must be less than or equal to pod limits of {}", shown(whole));
                findings.invalid_as(&place, shown(limit.value), detail);
            }
        }
    }
}

pub(super) fn resize_policy(list: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for policy in list.items() {
        let (resource, restart) = (policy.field("resourceName"), policy.field("restartPolicy"));
        if seen.contains(&resource.text()) {
            findings.duplicate_as(&policy, resource.text());
        }
        seen.push(resource.text());
        // The real server tells about both at the path of the list.
        findings.required_one_of(&resource.known_as(&list.path), &["cpu", "memory"]);
        findings.required_one_of(&restart.known_as(&list.path), &["NotRequired", "RestartContainer"]);
        if spec.field("restartPolicy").text() == "Never" && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            findings.invalid_as(list, restart.text(), detail);
        }
    }
}
