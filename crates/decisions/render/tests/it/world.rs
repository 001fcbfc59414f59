//! Short ways to write fragments and pools.

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use render::{Error, Fetched, Rendered, Settings};
use serde_json::{Value, json};

pub(crate) fn fragment(name: &str, role: &str, spec: Value) -> MachineConfig {
    object(json!({"name": name, "labels": {"machineconfiguration.openshift.io/role": role}}), spec)
}

pub(crate) fn object(metadata: Value, spec: Value) -> MachineConfig {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": metadata,
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// A fragment for workers with this Ignition config.
pub(crate) fn config(name: &str, mut rest: Value) -> MachineConfig {
    rest["ignition"] = json!({"version": "3.4.0"});
    fragment(name, "worker", json!({"config": rest}))
}

/// A fragment for workers with one file.
pub(crate) fn file(name: &str, path: &str, text: &str) -> MachineConfig {
    config(name, json!({"storage": {"files": [{"path": path, "contents": {"source": format!("data:,{text}")}}]}}))
}

pub(crate) fn pool(name: &str, selector: Value) -> MachineConfigPool {
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": name},
        "spec": {"machineConfigSelector": selector},
    });
    serde_json::from_value(pool).unwrap()
}

pub(crate) fn worker() -> MachineConfigPool {
    pool("worker", json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}}))
}

pub(crate) fn infra() -> MachineConfigPool {
    let roles = json!(["worker", "infra"]);
    let expression = json!({"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": roles});
    pool("infra", json!({"matchExpressions": [expression]}))
}

pub(crate) fn settings() -> Settings {
    Settings {
        os_image: "registry.example/os@sha256:0".to_owned(),
        extensions_image: "registry.example/extensions@sha256:0".to_owned(),
        controller_version: "v1".to_owned(),
        ..Settings::default()
    }
}

pub(crate) fn render(pool: &MachineConfigPool, fragments: &[MachineConfig]) -> Result<Rendered, Error> {
    render::render(pool, fragments, &settings(), &Fetched::default())
}

pub(crate) fn files(rendered: &Rendered) -> &Vec<Value> {
    rendered.machine_config.spec.config.as_ref().unwrap()["storage"]["files"].as_array().unwrap()
}
