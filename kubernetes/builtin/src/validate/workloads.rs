//! Deployments, replica sets, daemon sets, stateful sets, replication controllers and templates.

use serde_json::{Value, json};

use super::place::{Find, Findings, Place};
use super::{pods, rules, storage};

pub(crate) fn deployment(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    findings.non_negative(&spec.field("replicas"));
    selected(&spec, "deployment", findings);
    strategy(&spec.field("strategy"), findings);
    findings.non_negative(&spec.field("minReadySeconds"));
    findings.non_negative(&spec.field("revisionHistoryLimit"));
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.is_set() {
        findings.non_negative(&deadline);
        if deadline.number() <= spec.field("minReadySeconds").number() {
            findings.invalid(&deadline, "must be greater than minReadySeconds");
        }
    }
    keeps_selector(&spec, old, findings);
}

pub(crate) fn replica_set(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    findings.non_negative(&spec.field("replicas"));
    findings.non_negative(&spec.field("minReadySeconds"));
    selected(&spec, "deployment", findings);
    keeps_selector(&spec, old, findings);
}

fn keeps_selector(spec: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    if let Some(old) = old {
        rules::immutable(&spec.field("selector"), &old["spec"]["selector"], findings);
    }
}

/// The selector, the template it must find, and what such a template may not have.
fn selected(spec: &Place<'_>, kind: &str, findings: &mut Findings) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if !selector.is_set() {
        findings.required(&selector, "");
    } else {
        rules::label_selector(&selector, findings);
        if is_empty(&selector) {
            findings.invalid(&selector, format!("empty selector is invalid for {kind}"));
        }
    }
    let parsed = match schema::selector::from_object(selector.value) {
        Ok(parsed) => parsed,
        Err(_) => return findings.invalid(&selector, "invalid label selector"),
    };
    if !is_empty(&selector) || !selector.is_set() {
        matches(&parsed, &template, findings);
    }
    pods::template(&template, findings);
    always(&template, "ReplicaSet", findings);
}

fn is_empty(selector: &Place<'_>) -> bool {
    selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty()
}

fn matches(selector: &schema::selector::LabelSelector, template: &Place<'_>, findings: &mut Findings) {
    let labels = template.field("metadata").field("labels");
    if !selector.matches(labels.value.as_object()) {
        findings.invalid(&labels, "`selector` does not match template `labels`");
    }
}

/// Pods of a workload run until they are told to end.
fn always(template: &Place<'_>, kind: &str, findings: &mut Findings) {
    let policy = template.field("spec").field("restartPolicy");
    if policy.text() != "Always" {
        findings.unsupported(&policy, &["Always"]);
    }
    let deadline = template.field("spec").field("activeDeadlineSeconds");
    if deadline.is_set() {
        findings.forbidden(&deadline, format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

fn strategy(strategy: &Place<'_>, findings: &mut Findings) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" if rolling.is_set() => {
            findings.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            findings.required(&rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            rules::count_or_percent(&unavailable, findings);
            rules::count_or_percent(&surge, findings);
            if rules::plain_count(unavailable.value) == 0 && rules::plain_count(surge.value) == 0 {
                findings.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
            }
            rules::not_more_than_all(&unavailable, findings);
        }
        _ => unsupported_strategy(strategy, &["Recreate", "RollingUpdate"], findings),
    }
}

/// The real server shows a strategy it does not know as it has it inside.
fn unsupported_strategy(strategy: &Place<'_>, supported: &[&str], findings: &mut Findings) {
    let supported: Vec<String> = supported.iter().map(|&name| name.to_owned()).collect();
    findings.push(schema::FieldError::not_supported(&strategy.path, internal_strategy(strategy), &supported));
}

fn internal_strategy(strategy: &Place<'_>) -> Value {
    let rolling = strategy.field("rollingUpdate");
    let inner = match rolling.is_set() {
        true => json!({"MaxUnavailable": rolling.value["maxUnavailable"], "MaxSurge": rolling.value["maxSurge"]}),
        false => Value::Null,
    };
    json!({"Type": strategy.field("type").text(), "RollingUpdate": inner})
}

pub(crate) fn daemon_set(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    keeps_selector(&spec, old, findings);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    rules::label_selector(&selector, findings);
    if let Ok(parsed) = schema::selector::from_object(selector.value) {
        matches(&parsed, &template, findings);
    }
    if selector.is_set() && is_empty(&selector) {
        findings.invalid(&selector, "empty selector is invalid for daemonset");
    }
    pods::template(&template, findings);
    always(&template, "DaemonSet", findings);
    findings.non_negative(&spec.field("minReadySeconds"));
    daemon_strategy(&spec.field("updateStrategy"), findings);
    findings.non_negative(&spec.field("revisionHistoryLimit"));
}

fn daemon_strategy(strategy: &Place<'_>, findings: &mut Findings) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => findings.required(&rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for place in [&unavailable, &surge] {
                rules::count_or_percent(place, findings);
            }
            for place in [&unavailable, &surge] {
                rules::not_more_than_all(place, findings);
            }
            match (rules::plain_count(unavailable.value) != 0, rules::plain_count(surge.value) != 0) {
                (true, true) => findings.invalid(&surge, "may not be set when maxUnavailable is non-zero"),
                (false, false) => findings.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => unsupported_strategy(strategy, &["RollingUpdate", "OnDelete"], findings),
    }
}

pub(crate) fn stateful_set(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    let policy = spec.field("podManagementPolicy");
    match policy.text() {
        "" => findings.required(&policy, ""),
        "OrderedReady" | "Parallel" => {}
        _ => findings.invalid(&policy, "must be 'OrderedReady' or 'Parallel'"),
    }
    stateful_strategy(&spec.field("updateStrategy"), findings);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        for field in ["whenDeleted", "whenScaled"] {
            findings.one_of(&retention.field(field), &["Retain", "Delete"]);
        }
    }
    if old.is_none() {
        for claim in spec.field("volumeClaimTemplates").items() {
            storage::claim_spec(&claim.field("spec"), findings);
        }
    }
    findings.non_negative(&spec.field("replicas"));
    findings.non_negative(&spec.field("minReadySeconds"));
    findings.non_negative(&spec.field("ordinals").field("start"));
    let service = spec.field("serviceName");
    if old.is_none() && !service.is_empty() {
        rules::label(&service, findings);
    }
    stateful_template(&spec, findings);
    let Some(old) = old else { return };
    let mut before = old["spec"].clone();
    let mutable = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    for field in mutable {
        before[field] = spec.value[field].clone();
    }
    if !rules::same(&before, spec.value) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        findings.forbidden(&spec, detail);
    }
}

fn stateful_strategy(strategy: &Place<'_>, findings: &mut Findings) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => findings.required(strategy, ""),
        "OnDelete" if rolling.is_set() => {
            let shown = internal_rolling(&rolling);
            findings.invalid_as(&rolling, shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            findings.non_negative(&rolling.field("partition"));
        }
        kind => {
            let inner = if rolling.is_set() { internal_rolling(&rolling) } else { Value::Null };
            let shown = json!({"Type": kind, "RollingUpdate": inner});
            findings.invalid_as(strategy, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn internal_rolling(rolling: &Place<'_>) -> Value {
    json!({"Partition": rolling.field("partition").number(), "MaxUnavailable": rolling.value["maxUnavailable"]})
}

fn stateful_template(spec: &Place<'_>, findings: &mut Findings) {
    let selector = spec.field("selector");
    if !selector.is_set() {
        findings.required(&selector, "");
    } else {
        rules::label_selector(&selector, findings);
        if is_empty(&selector) {
            findings.invalid(&selector, "empty selector is invalid for statefulset");
        }
    }
    // Claims that are made for each pod stand for volumes of their names; what the set decides itself is not looked at.
    let mut completed = spec.value["template"].clone();
    let mut claims: Vec<Value> = Vec::new();
    for claim in spec.field("volumeClaimTemplates").items() {
        let name = claim.value["metadata"]["name"].clone();
        if !claims.contains(&name) {
            claims.push(name);
        }
    }
    if let Some(pod) = completed.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("subdomain");
        pod.remove("hostname");
        let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let named = claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Value> =
            named.chain(own.into_iter().filter(|volume| !claims.contains(&volume["name"]))).collect();
        pod.insert("volumes".into(), volumes.into());
    }
    let template = Place { value: &completed, path: spec.child("template") };
    match schema::selector::from_object(selector.value) {
        Ok(parsed) => {
            if !is_empty(&selector) || !selector.is_set() {
                matches(&parsed, &template, findings);
            }
            pods::template(&template, findings);
            let metadata = template.field("metadata");
            rules::labels(&metadata.field("labels").known_as(template.child("labels")), findings);
            rules::annotations(&metadata.field("annotations").known_as(template.child("annotations")), findings);
        }
        Err(_) => findings.invalid(&selector, ""),
    }
    always(&template, "StatefulSet", findings);
}

pub(crate) fn replication_controller(object: &Place<'_>, findings: &mut Findings) {
    let spec = object.field("spec");
    findings.non_negative(&spec.field("minReadySeconds"));
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector.is_empty() {
        findings.required(&selector, "");
    }
    findings.non_negative(&spec.field("replicas"));
    if !template.is_set() {
        return findings.required(&template, "");
    }
    let labels = template.field("metadata").field("labels");
    if selector.entries().any(|(key, value)| labels.value.get(key) != Some(value.value)) {
        findings.invalid(&labels, "`selector` does not match template `labels`");
    }
    pods::template(&template, findings);
    always(&template, "ReplicationController", findings);
}

pub(crate) fn pod_template(object: &Place<'_>, findings: &mut Findings) {
    pods::template(&object.field("template"), findings);
}

pub(crate) fn controller_revision(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    findings.non_negative(&object.field("revision"));
    let data = object.field("data");
    match old {
        Some(old) => rules::immutable(&data, &old["data"], findings),
        None if !data.is_set() => findings.required(&data, "data is mandatory"),
        None if !data.value.is_object() => findings.required(&data, "data must be a valid JSON object"),
        None => {}
    }
}
