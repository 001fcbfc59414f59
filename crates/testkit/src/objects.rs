//! Builders for the objects that tests are made of: short to call, and complete enough for a real API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use kube::api::ObjectMeta;

/// A Ready node with `node-role.kubernetes.io/<role>` labels.
pub fn node(name: &str, roles: &[&str]) -> Node {
    let mut labels: BTreeMap<String, String> = roles
        .iter()
        .map(|role| (format!("node-role.kubernetes.io/{role}"), String::new()))
        .collect();
    labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus {
            conditions: Some(vec![condition("Ready", true)]),
            ..NodeStatus::default()
        }),
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
