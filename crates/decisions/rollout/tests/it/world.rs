//! Pools and nodes for the tests, made from objects as a cluster would have them.

use std::fmt::Write;

use api::machineconfiguration::MachineConfigPool;
use api::machinist::PoolLedger;
use expect_test::Expect;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use rollout::snapshot::Objects;
use rollout::{Action, Ledger, NodeFacts, Plan, Settings, Snapshot, plan};
use serde_json::{Value, json};

pub(crate) const OLD: &str = "rendered-worker-old";
pub(crate) const NEW: &str = "rendered-worker-new";

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000 + seconds)
}

/// A pool that wants [`NEW`].
pub(crate) fn pool(name: &str, spec: Value) -> MachineConfigPool {
    let mut pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "generation": 1, "uid": "pool-uid"},
        "spec": {
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
            "configuration": {"name": NEW},
        },
    });
    merge(&mut pool["spec"], spec);
    serde_json::from_value(pool).unwrap()
}

/// A node that rests at `config`, changed by what else is said.
pub(crate) fn node(name: &str, config: &str, more: Value) -> NodeFacts {
    NodeFacts::from_object(&node_object(name, config, more))
}

pub(crate) fn node_object(name: &str, config: &str, more: Value) -> Node {
    let prefix = "machineconfiguration.openshift.io";
    let mut node = json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "10",
            "labels": {"node-role.kubernetes.io/worker": ""},
            "annotations": {
                format!("{prefix}/currentConfig"): config, format!("{prefix}/desiredConfig"): config,
                format!("{prefix}/state"): "Done", "machinist.dev/daemon": "test",
            },
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut node, more);
    serde_json::from_value(node).unwrap()
}

pub(crate) fn annotated(annotations: &[(&str, &str)]) -> Value {
    let named = annotations.iter().map(|(key, value)| {
        let key =
            if key.contains('/') { (*key).to_owned() } else { format!("machineconfiguration.openshift.io/{key}") };
        (key, json!(value))
    });
    json!({"metadata": {"annotations": named.collect::<serde_json::Map<_, _>>()}})
}

/// A node that is on its way to `target`.
pub(crate) fn working(name: &str, target: &str) -> NodeFacts {
    node(name, OLD, annotated(&[("desiredConfig", target), ("state", "Working")]))
}

pub(crate) fn down() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
}

pub(crate) fn snapshot(pool: &MachineConfigPool, nodes: Vec<NodeFacts>) -> Snapshot {
    let settings = Settings { settle: SignedDuration::ZERO, ..Settings::default() };
    let objects = Objects::new(pool, std::slice::from_ref(pool), &[]);
    let mut snapshot = Snapshot::from_objects(objects, settings, at(0));
    for node in nodes {
        snapshot.observe_node(node);
    }
    snapshot
}

pub(crate) fn workers(max_unavailable: Value, nodes: Vec<NodeFacts>) -> Snapshot {
    snapshot(&pool("worker", json!({"maxUnavailable": max_unavailable})), nodes)
}

pub(crate) fn ledger(spec: Value) -> Ledger {
    let ledger: PoolLedger = serde_json::from_value(json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "PoolLedger",
        "metadata": {"name": "worker", "resourceVersion": "7"}, "spec": spec,
    }))
    .unwrap();
    Ledger::from_object(Some(&ledger))
}

#[track_caller]
pub(crate) fn check(snapshot: &Snapshot, expected: Expect) {
    expected.assert_eq(&told(&plan(snapshot)));
}

/// A plan in short words.
pub(crate) fn told(plan: &Plan) -> String {
    let mut words = String::new();
    for action in &plan.actions {
        match action {
            Action::WriteLedger { resource_version, spec } => {
                let claims: Vec<_> = spec
                    .claims
                    .iter()
                    .map(|claim| format!("{}@{}", claim.node, claim.node_resource_version.as_deref().unwrap_or("?")))
                    .collect();
                let version = resource_version.as_deref().unwrap_or("none");
                let next: Vec<_> = spec.next.iter().map(|claim| claim.node.as_str()).collect();
                let next = if next.is_empty() { String::new() } else { format!(", then {}", next.join(", ")) };
                writeln!(words, "claim over {version}: {}{next}", claims.join(", ")).unwrap();
            }
            Action::Target(target) => {
                writeln!(words, "target {}@{} with {}", target.node, target.resource_version, target.config).unwrap()
            }
            Action::Fence { node, .. } => writeln!(words, "fence {node}").unwrap(),
            Action::Hold { node, value, .. } => writeln!(words, "hold {node}: {value:?}").unwrap(),
            Action::SetTaints { node, taints, .. } => writeln!(words, "taint {node}: {}", taints.len()).unwrap(),
            Action::SetTopology { node, topology } => writeln!(words, "topology of {node}: {topology}").unwrap(),
            Action::TellContested { node, message } => writeln!(words, "degrade {node}: {message}").unwrap(),
        }
    }
    for probe in &plan.probes {
        let question = probe.question.as_deref().unwrap_or("nothing");
        let back =
            probe.takes_back.as_ref().map(|back| format!(", back to {}", back.config.as_deref().unwrap_or("none")));
        writeln!(words, "ask {} for {question}{}", probe.node, back.unwrap_or_default()).unwrap();
    }
    for event in &plan.events {
        writeln!(words, "event {}: {}", event.reason, event.message).unwrap();
    }
    write!(words, "then {:?}", plan.next).unwrap();
    words
}

/// Carries out a plan as if every write succeeded at once.
pub(crate) fn carry_out(snapshot: &mut Snapshot, plan: &Plan) {
    for action in &plan.actions {
        let bumped = (snapshot.nodes.newest() + 1).to_string();
        match action {
            Action::WriteLedger { spec, .. } => {
                snapshot.ledger = Ledger { resource_version: Some(bumped), spec: (**spec).clone() };
            }
            Action::Target(target) => change(snapshot, &target.node, &bumped, |facts| {
                facts.desired = Some(target.config.clone());
                (facts.set_by, facts.held_config) = (None, None);
            }),
            Action::Hold { node, value, config, .. } => change(snapshot, node, &bumped, |facts| {
                facts.hold = value.clone().or(facts.hold.take());
                facts.held_config = Some(config.clone());
            }),
            Action::SetTaints { node, taints, .. } => {
                change(snapshot, node, &bumped, |facts| facts.taints.clone_from(taints));
            }
            Action::Fence { node, .. } => change(snapshot, node, &bumped, |_| {}),
            Action::SetTopology { .. } | Action::TellContested { .. } => {}
        }
    }
    for probe in &plan.probes {
        let bumped = (snapshot.nodes.newest() + 1).to_string();
        change(snapshot, &probe.node, &bumped, |facts| {
            facts.probe = probe.question.clone().or(facts.probe.take());
            if let Some(back) = &probe.takes_back {
                facts.desired.clone_from(&back.config);
            }
        });
    }
    snapshot.pool.status = plan.status.clone();
}

pub(crate) fn change(snapshot: &mut Snapshot, node: &str, version: &str, change: impl FnOnce(&mut NodeFacts)) {
    let Some(mut facts) = snapshot.nodes.get(node).cloned() else { return };
    change(&mut facts);
    facts.resource_version = rollout::ResourceVersion::parse(version);
    snapshot.observe_node(facts);
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
