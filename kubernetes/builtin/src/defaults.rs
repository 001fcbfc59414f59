//! Defaults of built-in kinds that no schema carries.

pub(super) mod autoscaling;
mod limits;
mod pods;
mod storage;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::amounts;
use crate::{object::text, registry::Resource};
use pods::template;

pub(crate) fn default(resource: &Resource, value: &mut Value) {
    match &*resource.collection {
        // Always written, although no schema requires them.
        "rbac.authorization.k8s.io/roles" | "rbac.authorization.k8s.io/clusterroles" => {
            if let Some(role) = value.as_object_mut() {
                role.entry("rules").or_insert(Value::Null);
            }
        }
        "/pods" => pods::pod(value),
        "apiregistration.k8s.io/apiservices" if value["spec"]["service"].is_object() => {
            set(&mut value["spec"]["service"], "port", 443);
        }
        "apps/deployments" => {
            let spec = &mut value["spec"];
            set(spec, "replicas", 1);
            set(spec, "revisionHistoryLimit", 10);
            set(spec, "progressDeadlineSeconds", 600);
            strategy_type(spec, "strategy");
            if spec["strategy"]["type"] == "RollingUpdate" {
                set(&mut spec["strategy"]["rollingUpdate"], "maxSurge", "25%");
                set(&mut spec["strategy"]["rollingUpdate"], "maxUnavailable", "25%");
            }
            template(spec);
        }
        "apps/daemonsets" => {
            set(&mut value["metadata"]["annotations"], super::TEMPLATE_GENERATION, "1");
            let spec = &mut value["spec"];
            set(spec, "revisionHistoryLimit", 10);
            strategy_type(spec, "updateStrategy");
            if spec["updateStrategy"]["type"] == "RollingUpdate" {
                set(&mut spec["updateStrategy"]["rollingUpdate"], "maxSurge", 0);
                set(&mut spec["updateStrategy"]["rollingUpdate"], "maxUnavailable", 1);
            }
            template(spec);
        }
        "apps/replicasets" => {
            set(&mut value["spec"], "replicas", 1);
            template(&mut value["spec"]);
        }
        "/replicationcontrollers" => {
            let labels = value["spec"]["template"]["metadata"]["labels"].clone();
            if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
                set(&mut value["spec"], "selector", labels);
                labels_from_template(value);
            }
            set(&mut value["spec"], "replicas", 1);
            template(&mut value["spec"]);
        }
        "/podtemplates" => template(value),
        "apps/statefulsets" => {
            let spec = &mut value["spec"];
            set(spec, "replicas", 1);
            set(spec, "revisionHistoryLimit", 10);
            fill(spec, "podManagementPolicy", "OrderedReady");
            let chosen = !text(&spec["updateStrategy"]["type"]).is_empty();
            strategy_type(spec, "updateStrategy");
            let rolls = spec["updateStrategy"].get("rollingUpdate").is_some_and(Value::is_object);
            if spec["updateStrategy"]["type"] == "RollingUpdate" && (rolls || !chosen) {
                set(&mut spec["updateStrategy"]["rollingUpdate"], "partition", 0);
            }
            if let Some(rolling) = spec["updateStrategy"].get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                // The real server does not know it until it is switched on.
                rolling.remove("maxUnavailable");
            }
            let policy = &mut spec["persistentVolumeClaimRetentionPolicy"];
            set(policy, "whenDeleted", "Retain");
            set(policy, "whenScaled", "Retain");
            list_or_none(spec, "volumeClaimTemplates").iter_mut().for_each(storage::claim_template);
            template(spec);
        }
        "autoscaling/horizontalpodautoscalers" => {
            set(&mut value["spec"], "minReplicas", 1);
            if value["apiVersion"] == "autoscaling/v2" {
                autoscaling::default(&mut value["spec"]);
            }
        }
        "batch/jobs" => {
            // Others get theirs with those that the server adds to the template.
            if value["spec"]["manualSelector"] == true {
                labels_from_template(value);
            }
            job(&mut value["spec"]);
        }
        "batch/cronjobs" => {
            let spec = &mut value["spec"];
            fill(spec, "concurrencyPolicy", "Allow");
            set(spec, "suspend", false);
            set(spec, "successfulJobsHistoryLimit", 3);
            set(spec, "failedJobsHistoryLimit", 1);
            job_template(&mut spec["jobTemplate"]["spec"]);
        }
        "flowcontrol.apiserver.k8s.io/flowschemas" => {
            set_zero(&mut value["spec"], "matchingPrecedence", 1000);
            for rule in list_or_none(&mut value["spec"], "rules") {
                list_or_none(rule, "resourceRules").iter_mut().for_each(|own| empty_is_null(own, "namespaces"));
            }
        }
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations" => limits::priority_level(&mut value["spec"]),
        "networking.k8s.io/ingressclasses" if value["spec"]["parameters"].is_object() => {
            set(&mut value["spec"]["parameters"], "scope", "Cluster");
        }
        "networking.k8s.io/networkpolicies" => limits::network_policy(&mut value["spec"]),
        "resource.k8s.io/resourceclaims" => {
            claim(&mut value["spec"]);
            if let Some(status) = value.get_mut("status") {
                list_or_none(status, "devices").iter_mut().for_each(|own| empty_is_null(own, "conditions"));
            }
        }
        "resource.k8s.io/resourceclaimtemplates" => claim(&mut value["spec"]["spec"]),
        "resource.k8s.io/resourceslices" => {
            for device in list_or_none(&mut value["spec"], "devices") {
                for taint in list_or_none(device, "taints") {
                    set(taint, "timeAdded", crate::verbs::now());
                }
                amounts(device, "capacity");
                switched_off(device);
                list_or_none(device, "consumesCounters").iter_mut().for_each(|set| amounts(set, "counters"));
            }
            list_or_none(&mut value["spec"], "sharedCounters").iter_mut().for_each(|set| amounts(set, "counters"));
        }
        "/services" => {
            service(&mut value["spec"]);
            if let Some(balancer) = value.get_mut("status").and_then(|status| status.get_mut("loadBalancer")) {
                for ingress in list_or_none(balancer, "ingress") {
                    if !text(&ingress["ip"]).is_empty() {
                        set(ingress, "ipMode", "VIP");
                    }
                }
            }
        }
        "/secrets" => secret(value),
        "/endpoints" => endpoints(value),
        "discovery.k8s.io/endpointslices" => {
            for port in list_or_none(value, "ports") {
                set(port, "protocol", "TCP");
                set(port, "name", "");
            }
            empty_is_null(value, "ports");
            empty_is_null(value, "endpoints");
        }
        "rbac.authorization.k8s.io/rolebindings" | "rbac.authorization.k8s.io/clusterrolebindings" => {
            if value["roleRef"].is_null() {
                value["roleRef"] = Map::new().into();
            }
            fill(&mut value["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
            for subject in list_or_none(value, "subjects") {
                if matches!(text(&subject["kind"]), "User" | "Group") {
                    fill(subject, "apiGroup", "rbac.authorization.k8s.io");
                }
            }
        }
        "scheduling.k8s.io/priorityclasses" => {
            if let Some(object) = value.as_object_mut() {
                object.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
            }
        }
        "apiextensions.k8s.io/customresourcedefinitions" => schema::crd::default(value),
        "admissionregistration.k8s.io/validatingwebhookconfigurations" => webhooks(value, false),
        "admissionregistration.k8s.io/mutatingwebhookconfigurations" => webhooks(value, true),
        super::POLICIES | super::MUTATING_POLICIES => schema::policy::default(value),
        super::BINDINGS | super::MUTATING_BINDINGS => {
            schema::policy::default_binding(value);
        }
        "/nodes" => node(value),
        "/namespaces" => {
            if value["spec"].is_null() {
                value["spec"] = Map::new().into();
            }
            let name = text(&value["metadata"]["name"]).to_owned();
            if !name.is_empty() {
                value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            }
        }
        "/limitranges" => {
            if value["spec"].is_null() {
                value["spec"] = Map::new().into();
            }
            list_or_none(&mut value["spec"], "limits").iter_mut().for_each(limits::range);
            empty_is_null(&mut value["spec"], "limits");
        }
        "coordination.k8s.io/leases" => {
            // The real server does not know these until they are switched on.
            if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove("strategy");
                spec.remove("preferredHolder");
            }
        }
        "networking.k8s.io/ingresses" => ingress(&mut value["spec"]),
        "/resourcequotas" => {
            if let Some(hard) = value.pointer_mut("/spec/hard") {
                amounts::round(hard);
            }
        }
        "/persistentvolumeclaims" => {
            storage::claim(&mut value["spec"]);
            storage::data_sources(&mut value["spec"]);
        }
        "/persistentvolumes" => storage::volume(&mut value["spec"]),
        "storage.k8s.io/csidrivers" => storage::driver(&mut value["spec"]),
        "storage.k8s.io/csinodes" => {
            list_or_none(&mut value["spec"], "drivers").iter_mut().for_each(|own| empty_is_null(own, "topologyKeys"));
            empty_is_null(&mut value["spec"], "drivers");
        }
        "storage.k8s.io/storageclasses" => storage::class(value),
        _ => {}
    }
}

/// Who has no labels of its own is found by those of its pods.
fn labels_from_template(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    let bare = value["metadata"]["labels"].as_object().is_none_or(Map::is_empty);
    if bare && labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        value["metadata"]["labels"] = labels;
    }
    for (parent, field) in [("metadata", "labels"), ("spec", "template")] {
        if let Some(parent) = value.get_mut(parent).and_then(Value::as_object_mut)
            && parent.get(field).is_some_and(Value::is_null)
        {
            parent.remove(field);
        }
    }
}

/// Sets a field that is absent; a parent that is no object becomes one if it is absent too.
fn set(parent: &mut Value, field: &str, value: impl Into<Value>) {
    if parent.is_null() {
        *parent = Map::new().into();
    }
    if let Some(object) = parent.as_object_mut()
        && object.get(field).is_none_or(Value::is_null)
    {
        object.insert(field.into(), value.into());
    }
}

/// As `set`, where zero means that nothing was said.
fn set_zero(parent: &mut Value, field: &str, value: impl Into<Value>) {
    if parent.get(field).is_some_and(|own| *own == 0) {
        parent[field] = Value::Null;
    }
    set(parent, field, value);
}

/// Requests of devices ask for one each, unless they say otherwise.
fn claim(spec: &mut Value) {
    fn count(request: &mut Value) {
        if text(&request["allocationMode"]).is_empty() {
            request["allocationMode"] = "ExactCount".into();
        }
        if request["allocationMode"] == "ExactCount" {
            set_zero(request, "count", 1);
        }
    }
    let Some(devices) = spec.get_mut("devices") else { return };
    empty_is_null(devices, "requests");
    for request in list_or_none(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            count(exactly);
        }
        list_or_none(request, "firstAvailable").iter_mut().for_each(count);
    }
}

/// What is counted without a number is nothing.
fn amounts(parent: &mut Value, field: &str) {
    for amount in entries(parent, field) {
        set(amount, "value", "0");
        if let Some(policy) = amount.get_mut("requestPolicy").and_then(Value::as_object_mut) {
            policy.entry("default").or_insert(Value::Null);
        }
    }
}

/// Takes away what belongs to features of devices that are still off in the real server.
fn switched_off(device: &mut Value) {
    for attribute in entries(device, "attributes").filter_map(Value::as_object_mut) {
        attribute.retain(|name, _| !matches!(name.as_str(), "bools" | "ints" | "strings" | "versions"));
    }
    if let Some(device) = device.as_object_mut() {
        device.remove("nodeAllocatableResourceMappings");
    }
}

fn entries<'a>(parent: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let all = parent.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten();
    all.map(|(_, value)| value).filter(|value| value.is_object())
}

fn strategy_type(spec: &mut Value, field: &str) {
    if spec[field].is_null() {
        spec[field] = Map::new().into();
    }
    fill(&mut spec[field], "type", "RollingUpdate");
}

/// Lists that are always written are null where they are empty.
fn empty_is_null(parent: &mut Value, field: &str) {
    if parent[field].as_array().is_none_or(Vec::is_empty) {
        parent[field] = Value::Null;
    }
}

/// Objects that backends refer to always say of which group they are.
fn ingress(spec: &mut Value) {
    fn backend(parent: &mut Value, field: &str) {
        let resource = parent.get_mut(field).and_then(|backend| backend.get_mut("resource"));
        if let Some(resource) = resource.and_then(Value::as_object_mut) {
            resource.entry("apiGroup").or_insert(Value::Null);
        }
    }
    backend(spec, "defaultBackend");
    for rule in list_or_none(spec, "rules") {
        let Some(http) = rule.get_mut("http") else { continue };
        list_or_none(http, "paths").iter_mut().for_each(|path| backend(path, "backend"));
    }
}

/// Sets a field that has no value of its own: absent, an empty text, or zero.
fn fill(parent: &mut Value, field: &str, value: impl Into<Value>) {
    let empty = match &parent[field] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    };
    if empty {
        parent[field] = value.into();
    }
}

fn webhooks(value: &mut Value, mutating: bool) {
    for webhook in list_or_none(value, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "namespaceSelector", Map::new());
        set(webhook, "objectSelector", Map::new());
        set(webhook, "timeoutSeconds", 10);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        if !webhook["clientConfig"]["service"].is_null() {
            set(&mut webhook["clientConfig"]["service"], "port", 443);
        }
        for rule in list_or_none(webhook, "rules") {
            set(rule, "scope", "*");
        }
    }
}

fn node(value: &mut Value) {
    let spec = &mut value["spec"];
    if spec.is_null() {
        *spec = Map::new().into();
    }
    // One range and the first of all are the same; the one wins.
    let range = text(&spec["podCIDR"]).to_owned();
    let first = text(&spec["podCIDRs"][0]).to_owned();
    if !range.is_empty() && first != range {
        spec["podCIDRs"] = json!([range]);
    } else if range.is_empty() && !first.is_empty() {
        spec["podCIDR"] = first.into();
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("configSource");
        spec.retain(|_, field| !field.is_null());
    }
    if let Some(capacity) = value.get("status").and_then(|status| status.get("capacity")).cloned() {
        set(&mut value["status"], "allocatable", capacity);
    }
}

/// What a job has in any place, also in the template of a cron job.
fn job_template(spec: &mut Value) {
    if let Some(policy) = spec.get_mut("podFailurePolicy").and_then(Value::as_object_mut)
        && policy.get("rules").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        policy.insert("rules".into(), Value::Null);
    }
    for rule in spec.get_mut("podFailurePolicy").map(|policy| list_or_none(policy, "rules")).unwrap_or_default() {
        for pattern in list_or_none(rule, "onPodConditions") {
            fill(pattern, "status", "True");
        }
    }
    template(spec);
}

fn job(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "manualSelector", false);
    let replaced = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    set(spec, "podReplacementPolicy", replaced);
    job_template(spec);
}

fn list_or_none<'a>(parent: &'a mut Value, field: &str) -> &'a mut [Value] {
    match parent.get_mut(field) {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}

fn service(spec: &mut Value) {
    fill(spec, "sessionAffinity", "None");
    fill(spec, "type", "ClusterIP");
    if spec["type"] != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    let reached = spec["type"] == "ClusterIP" && !list_or_none(spec, "externalIPs").is_empty();
    if reached || matches!(text(&spec["type"]), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    } else if spec.get("externalTrafficPolicy").is_some_and(Value::is_null)
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("externalTrafficPolicy");
    }
    if spec["type"] == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    if spec["sessionAffinity"] == "ClientIP" {
        set(&mut spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds", 10800);
    } else if spec["sessionAffinity"] == "None"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("sessionAffinityConfig");
    }
    for port in list_or_none(spec, "ports") {
        fill(port, "protocol", "TCP");
        let own = if port["port"].is_number() { port["port"].clone() } else { 0.into() };
        fill(port, "targetPort", own);
    }
}

fn endpoints(value: &mut Value) {
    for subset in list_or_none(value, "subsets") {
        for port in list_or_none(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

/// `stringData` is only a way to write `data`.
fn secret(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    if object.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
        object.insert("type".into(), "Opaque".into());
    }
    if let Some(Value::Object(plain)) = object.remove("stringData") {
        let data = object.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Some(data) = data.as_object_mut() {
            for (key, text) in plain {
                data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
            }
        }
    }
}
