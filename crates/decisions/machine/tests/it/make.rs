//! Objects for tests.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use machine::provider::{Error, ErrorKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

pub(crate) fn ago(duration: SignedDuration) -> String {
    (now() - duration).to_string()
}

/// Reads an object of one of our kinds.
pub(crate) fn object<K: DeserializeOwned>(mut value: Value) -> K {
    for (key, default) in [("apiVersion", "machine.openshift.io/v1beta1"), ("kind", "Any")] {
        value.as_object_mut().unwrap().entry(key).or_insert_with(|| json!(default));
    }
    serde_json::from_value(value).unwrap()
}

/// A Machine that can be acted on, with `over` laid upon it.
pub(crate) fn machine(over: Value) -> api::machine::Machine {
    let mut value = json!({
        "metadata": {
            "name": "m", "namespace": "ns", "uid": "uid-m", "creationTimestamp": "2026-03-01T11:00:00Z",
            "labels": {"machine.openshift.io/cluster-api-cluster": "c"},
            "finalizers": ["machine.machine.openshift.io"],
        },
        "spec": {"providerSpec": {"value": {"kind": "X"}}},
        "status": {"phase": "Provisioning"},
    });
    merge(&mut value, over);
    object(value)
}

pub(crate) fn node(over: Value) -> Node {
    let mut value = json!({"metadata": {"name": "n", "uid": "uid-n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    merge(&mut value, over);
    serde_json::from_value(value).unwrap()
}

/// Lays one value upon another: objects are joined, all else is replaced, null takes away.
pub(crate) fn merge(value: &mut Value, over: Value) {
    match (value, over) {
        (Value::Object(members), Value::Object(over)) => {
            for (key, part) in over {
                if part.is_null() {
                    members.remove(&key);
                } else {
                    merge(members.entry(key).or_insert(Value::Null), part);
                }
            }
        }
        (value, over) => *value = over,
    }
}

pub(crate) fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "the cloud says no")
}
