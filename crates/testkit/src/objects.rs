//! Builders for test objects: short to call, and complete enough for a real API server.

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::{labels, names};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// A Ready node with `node-role.kubernetes.io/<role>` labels.
pub fn node(name: &str, roles: &[&str]) -> Node {
    let mut labels: BTreeMap<String, String> =
        roles.iter().map(|role| (format!("node-role.kubernetes.io/{role}"), String::new())).collect();
    labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    Node {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus { conditions: Some(vec![condition("Ready", true)]), ..NodeStatus::default() }),
    }
}

/// A condition of a node.
pub fn condition(type_: &str, is_true: bool) -> NodeCondition {
    NodeCondition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        ..NodeCondition::default()
    }
}

/// A pool that selects the MachineConfigs and nodes of the role with its name. A custom pool also gets worker's
/// fragments.
pub fn pool(name: &str) -> MachineConfigPool {
    let mut pool = MachineConfigPool::default();
    pool.metadata.name = Some(name.to_owned());
    pool.metadata.labels = Some([(format!("{}{name}", labels::POOL_PREFIX), String::new())].into());
    let is_built_in = [names::POOL_MASTER, names::POOL_WORKER, names::POOL_ARBITER].contains(&name);
    let mut selector = LabelSelector::default();
    if is_built_in {
        selector.match_labels = Some([(labels::ROLE.to_owned(), name.to_owned())].into());
    } else {
        selector.match_expressions = Some(vec![LabelSelectorRequirement {
            key: labels::ROLE.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![names::POOL_WORKER.to_owned(), name.to_owned()]),
        }]);
    }
    pool.spec.machine_config_selector = Some(selector);
    pool.spec.node_selector = Some(LabelSelector {
        match_labels: Some([(format!("{}{name}", labels::NODE_ROLE_PREFIX), String::new())].into()),
        ..LabelSelector::default()
    });
    pool
}

/// A fragment for `role` that writes one file with mode 0644.
pub fn file_config(name: &str, role: &str, path: &str, content: &str) -> MachineConfig {
    let source = format!("data:;base64,{}", STANDARD.encode(content));
    machine_config(
        name,
        role,
        json!({
            "ignition": { "version": "3.4.0" },
            "storage": { "files": [{
                "path": path, "mode": 0o644, "overwrite": true, "contents": { "source": source },
            }] },
        }),
    )
}

/// A fragment for `role` with this Ignition config.
pub fn machine_config(name: &str, role: &str, config: Value) -> MachineConfig {
    let mut fragment = MachineConfig::default();
    fragment.metadata.name = Some(name.to_owned());
    fragment.metadata.labels = Some([(labels::ROLE.to_owned(), role.to_owned())].into());
    fragment.spec.config = Some(config);
    fragment
}

/// A ControllerConfig with all fields that the schema requires; its CA is only a placeholder.
pub fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": {"name": names::CONTROLLER_CONFIG},
        "spec": {
            "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null,
            "cloudProviderConfig": "", "clusterDNSIP": "10.0.0.10", "dns": null, "images": {}, "infra": null,
            "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Q0EK", "network": null, "networkType": "",
            "osImageURL": "", "proxy": null, "releaseImage": "", "rootCAData": "Q0EK",
        },
    })
}
