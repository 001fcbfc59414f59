//! What one write costs in this crate: the part of a request that is neither transport nor storage.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::{hint::black_box, time::Instant};

use schema::{
    Schema,
    managed::{self, Writer},
    patch, selector,
};
use serde_json::{Value, json};

const ROUNDS: u32 = 5_000;

fn bench(name: &str, mut work: impl FnMut()) {
    for _ in 0..100 {
        work();
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        work();
    }
    let each = start.elapsed() / ROUNDS;
    println!("bench: {name} | {:.1} µs | -", each.as_secs_f64() * 1e6);
}

fn node() -> Value {
    let conditions: Vec<Value> = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .iter()
        .map(|kind| {
            json!({"type": kind, "status": "False", "reason": "KubeletHasSufficient", "message": "kubelet has sufficient",
                   "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    let images: Vec<Value> = (0..20)
        .map(|at| json!({"names": [format!("registry.example/image-{at}@sha256:0")], "sizeBytes": at}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "worker-1", "labels": {"kubernetes.io/hostname": "worker-1", "node-role.kubernetes.io/worker": ""},
            "annotations": {"machineconfiguration.openshift.io/currentConfig": "rendered-worker-0",
                "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-0",
                "machineconfiguration.openshift.io/state": "Done"}},
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
        "status": {"conditions": conditions, "images": images, "capacity": {"cpu": "4", "memory": "16Gi"},
            "allocatable": {"cpu": "4", "memory": "16Gi"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    })
}

fn main() {
    let writer = Writer { manager: "kubelet", api_version: "v1", subresource: "", time: "2026-01-01T00:00:00Z" };
    let kind = Schema::builtin("io.k8s.api.core.v1.Node").expect("in the tables");
    let mut live = node();
    kind.default(&mut live);
    managed::update(&kind, None, &mut live, &writer, &[]);

    bench("schema: create a node (prune, default, track, validate)", || {
        let mut object = node();
        black_box(kind.prune_and_name(&mut object));
        kind.default(&mut object);
        managed::update(&kind, None, &mut object, &writer, &[]);
        black_box(kind.validate(&object, None));
    });
    bench("schema: build the same node from JSON alone", || {
        black_box(node());
    });
    let change = json!({"metadata": {"annotations": {"machineconfiguration.openshift.io/state": "Working"}}});
    bench("schema: patch one annotation of a node (merge, prune, default, track, validate)", || {
        let mut object = patch::merge(&live, &change);
        black_box(kind.prune_and_name(&mut object));
        kind.default(&mut object);
        managed::update(&kind, Some(&live), &mut object, &writer, &[]);
        black_box(kind.validate(&object, Some(&live)));
    });
    let applied = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1",
        "annotations": {"machineconfiguration.openshift.io/desiredConfig": "rendered-worker-1"}}});
    bench("schema: apply one annotation of a node by force", || {
        black_box(managed::apply(&kind, Some(&live), &applied, &writer, true, &["status"]).ok());
    });

    let custom = Schema::custom(
        Some(&json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "no"}],
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string", "pattern": "^[a-z]+$"},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}}}}}})),
        false,
    );
    let list: Vec<Value> = (0..20).map(|at| json!({"k": at.to_string(), "v": "x"})).collect();
    let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"},
        "spec": {"min": 1, "max": 2, "name": "abc", "list": list}});
    bench("schema: validate a custom object with a rule", || {
        black_box(custom.validate(&object, None));
    });
    let labels = live["metadata"]["labels"].as_object();
    let wanted = selector::labels("node-role.kubernetes.io/worker,kubernetes.io/hostname in (worker-1,worker-2)");
    let wanted = wanted.expect("a selector");
    bench("schema: match a label selector", || {
        black_box(wanted.matches(labels));
    });
}
