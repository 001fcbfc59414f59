//! Defaults of pods and of the templates that pods are made from.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{fill, list_or_none, set};
use crate::{
    amounts::{self, Side},
    text,
};

pub(crate) fn pod(pod: &mut Value) {
    let spec = &mut pod["spec"];
    if spec.is_null() {
        *spec = Map::new().into();
    }
    pod_spec(spec);
    for field in ["containers", "initContainers"] {
        for container in list_or_none(spec, field) {
            requests_from_limits(&mut container["resources"]);
        }
    }
    whole_pod(spec);
    set(spec, "enableServiceLinks", true);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    if spec["hostNetwork"] == true {
        for field in ["containers", "initContainers"] {
            for container in list_or_none(spec, field) {
                for port in list_or_none(container, "ports") {
                    let own = port["containerPort"].clone();
                    fill(port, "hostPort", own);
                }
            }
        }
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    for (kind, limit) in limits {
        set(&mut resources["requests"], &kind, limit);
    }
}

/// A pod that is limited as a whole asks for what its containers do, or for its limits. The limits of its huge pages are
/// those of its containers.
fn whole_pod(spec: &mut Value) {
    for field in ["requests", "limits"] {
        if let Some(own) = spec.get_mut("resources").and_then(|resources| resources.get_mut(field)) {
            amounts::round(own);
        }
    }
    let has = |spec: &Value, field: &str| spec["resources"][field].as_object().is_some_and(|own| !own.is_empty());
    if !has(spec, "limits") && !has(spec, "requests") {
        return;
    }
    for (kind, amount) in amounts::of_all(spec, Side::Limits) {
        if kind.starts_with("hugepages-") && spec["resources"]["requests"].get(&kind).is_none() {
            set(&mut spec["resources"]["limits"], &kind, amount.to_string());
        }
    }
    let Some(limits) = spec["resources"].get("limits").and_then(Value::as_object).cloned() else { return };
    let asked = amounts::of_all(spec, Side::Requests).into_iter();
    let asked = asked.filter(|(kind, _)| matches!(kind.as_str(), "cpu" | "memory"));
    let limits = limits.into_iter().filter(|(kind, _)| amounts::is_of_whole_pod(kind));
    for (kind, amount) in asked.map(|(kind, amount)| (kind, amount.to_string().into())).chain(limits) {
        set(&mut spec["resources"]["requests"], &kind, amount);
    }
}

/// The template in a spec.
pub(crate) fn template(spec: &mut Value) {
    if let Some(template) = spec.get_mut("template").filter(|template| template.is_object()) {
        if template["spec"].is_null() {
            template["spec"] = Map::new().into();
        }
        pod_spec(&mut template["spec"]);
    } else if spec.get("template").is_some_and(Value::is_null)
        && let Some(object) = spec.as_object_mut()
    {
        object.remove("template");
    }
}

fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    set(spec, "securityContext", Map::new());
    set(spec, "terminationGracePeriodSeconds", 30);
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        list_or_none(spec, field).iter_mut().for_each(container);
        if spec.get(field).is_some_and(Value::is_null)
            && let Some(object) = spec.as_object_mut()
        {
            object.remove(field);
        }
    }
    if !spec["containers"].is_array() {
        spec["containers"] = Value::Null;
    }
    let account = text(&spec["serviceAccountName"]).to_owned();
    if !account.is_empty() {
        spec["serviceAccount"] = account.into();
    } else if let Some(old_name) = spec.get("serviceAccount").and_then(Value::as_str).map(str::to_owned) {
        fill(spec, "serviceAccountName", old_name);
    }
    list_or_none(spec, "volumes").iter_mut().for_each(volume);
}

fn volume(volume: &mut Value) {
    let is_empty =
        volume.as_object().is_some_and(|object| object.iter().all(|(key, value)| key == "name" || value.is_null()));
    if is_empty {
        volume["emptyDir"] = Map::new().into();
    }
    let mut in_source = |source: &str, defaults: fn(&mut Value)| {
        if let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) {
            defaults(source);
        }
    };
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        in_source(source, |source| set(source, "defaultMode", 420));
    }
    in_source("downwardAPI", downward_files);
    in_source("projected", |projected| {
        if list_or_none(projected, "sources").is_empty() {
            projected["sources"] = Value::Null;
        }
        for source in list_or_none(projected, "sources") {
            if let Some(files) = source.get_mut("downwardAPI").filter(|files| files.is_object()) {
                downward_files(files);
            }
            // The real server does not know these until they are switched on.
            if let Some(source) = source.as_object_mut() {
                source.remove("clusterTrustBundle");
                source.remove("podCertificate");
            }
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                set(token, "expirationSeconds", 3600);
            }
        }
    });
    in_source("hostPath", |source| set(source, "type", ""));
    in_source("image", |source| {
        let policy = pull_policy(text(&source["reference"]));
        fill(source, "pullPolicy", policy);
    });
    in_source("ephemeral", |source| {
        if source["volumeClaimTemplate"].is_object() {
            set(&mut source["volumeClaimTemplate"]["spec"], "volumeMode", "Filesystem");
        }
    });
    network_volume(volume);
}

/// Sources that plugins of the past brought along.
pub(crate) fn network_volume(parent: &mut Value) {
    let defaults = [
        ("iscsi", json!({"iscsiInterface": "default"})),
        ("rbd", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        ("azureDisk", json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false})),
        ("scaleIO", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
    ];
    for (source, fields) in defaults {
        let Some(source) = parent.get_mut(source).filter(|source| source.is_object()) else { continue };
        for (name, value) in fields.as_object().into_iter().flatten() {
            fill(source, name, value.clone());
        }
    }
}

fn downward_files(source: &mut Value) {
    for file in list_or_none(source, "items") {
        field_ref(file);
    }
}

fn field_ref(parent: &mut Value) {
    if let Some(reference) = parent.get_mut("resourceFieldRef").filter(|reference| reference.is_object()) {
        set(reference, "divisor", "0");
    }
    if let Some(reference) = parent.get_mut("fieldRef").filter(|reference| reference.is_object()) {
        fill(reference, "apiVersion", "v1");
    }
}

/// Images without a version are pulled each time, as they may be others by then.
fn pull_policy(image: &str) -> &'static str {
    static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let part = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*";
        let domain = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?";
        Regex::new(&format!(r"^(?:{domain}/)?{part}(?:/{part})*(?::([\w][\w.-]{{0,127}}))?(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}})?$")).ok()
    });
    let parts = REFERENCE.as_ref().and_then(|regex| regex.captures(image)).filter(|_| full_length(image) <= 255);
    let always = parts.is_some_and(|parts| match (parts.get(1), parts.get(2)) {
        (Some(tag), _) => tag.as_str() == "latest",
        (None, digest) => digest.is_none(),
    });
    if always { "Always" } else { "IfNotPresent" }
}

/// How long the name is once it says where it comes from.
fn full_length(image: &str) -> usize {
    let name = image.split('@').next().unwrap_or_default();
    let name = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    };
    let first = name.split('/').next().unwrap_or_default();
    let library = if name.contains('/') { 0 } else { "library/".len() };
    match name.contains('/') && (first.contains(['.', ':']) || first == "localhost") {
        true => name.len(),
        false => "docker.io/".len() + library + name.len(),
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(&container["image"]));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    set(container, "resources", Map::new());
    for field in ["requests", "limits"] {
        if let Some(own) = container["resources"].get_mut(field) {
            amounts::round(own);
        }
    }
    for port in list_or_none(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in list_or_none(container, "env") {
        if let Some(from) = variable.get_mut("valueFrom").filter(|from| from.is_object()) {
            field_ref(from);
            if let Some(file) = from.get_mut("fileKeyRef").filter(|file| file.is_object()) {
                set(file, "optional", false);
            }
        } else if variable.get("valueFrom").is_some_and(Value::is_null)
            && let Some(object) = variable.as_object_mut()
        {
            object.remove("valueFrom");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            for (field, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                fill(probe, field, value);
            }
            http_get(probe);
            if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
                set(grpc, "service", "");
            }
        }
    }
    // The real server does not know signals until they are switched on, and forgets what then is empty.
    if container.get("lifecycle").and_then(Value::as_object).is_some_and(|own| own.keys().eq(["stopSignal"]))
        && let Some(container) = container.as_object_mut()
    {
        container.remove("lifecycle");
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").filter(|lifecycle| lifecycle.is_object()) {
        if let Some(lifecycle) = lifecycle.as_object_mut() {
            lifecycle.remove("stopSignal");
        }
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook).filter(|hook| hook.is_object()) {
                http_get(hook);
            }
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}
