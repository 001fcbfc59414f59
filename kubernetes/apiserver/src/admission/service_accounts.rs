//! A pod runs as a service account of its namespace, and finds that account's token where every client looks for it.

use serde_json::{Value, json};

use crate::{
    object::{Name, text},
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
    verbs::create::suffix,
};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const PREFIX: &str = "kube-api-access-";
/// An hour, and some seconds that tell these tokens from others.
const SECONDS: i64 = 3607;
const DEFAULT: &str = "default";

pub(super) fn admit(api: &Api, resource: &Resource, pod: &mut Value) -> Answer<()> {
    // What a kubelet shows of a pod of its own is as it is.
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Ok(());
    }
    let (namespace, name) = (text(&pod["metadata"]["namespace"]).to_owned(), text(&pod["metadata"]["name"]).to_owned());
    let spec = &mut pod["spec"];
    if text(&spec["serviceAccountName"]).is_empty() {
        spec["serviceAccountName"] = DEFAULT.into();
        spec["serviceAccount"] = DEFAULT.into();
    }
    let account = text(&spec["serviceAccountName"]).to_owned();
    let found = api.store.get("/serviceaccounts", &Name::new(&namespace, &account)).map(|found| found.value());
    let found = match found {
        Some(found) => found,
        // The first account of a namespace comes a moment after the namespace.
        None if account == DEFAULT => Value::Null,
        None => {
            let why =
                format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found");
            return Err(Failure::forbidden(resource, &name, &why));
        }
    };
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    if is_empty(&spec["imagePullSecrets"]) && !is_empty(&found["imagePullSecrets"]) {
        spec["imagePullSecrets"] = found["imagePullSecrets"].clone();
    }
    let wanted = [&spec["automountServiceAccountToken"], &found["automountServiceAccountToken"]];
    if wanted.into_iter().find_map(Value::as_bool).unwrap_or(true) {
        mount(spec);
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, field| !field.is_null());
    }
    Ok(())
}

/// Gives the token to every container that has nothing else in its place.
fn mount(spec: &mut Value) {
    let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    let own = volumes.iter().map(|volume| text(&volume["name"])).find(|name| name.starts_with(PREFIX));
    let name = own.map_or_else(|| format!("{PREFIX}{}", suffix()), str::to_owned);
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
                mounted = true;
            }
            if !mounts.is_empty() {
                container["volumeMounts"] = mounts.into();
            }
        }
    }
    if !mounted || volumes.iter().any(|volume| volume["name"] == name) {
        return;
    }
    let mut volumes = volumes;
    volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}}));
    spec["volumes"] = volumes.into();
}
