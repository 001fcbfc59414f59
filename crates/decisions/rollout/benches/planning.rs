//! What planning costs: a whole pool at once, and one node's change in pools of different sizes.

#![allow(clippy::disallowed_methods, reason = "a benchmark has a clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::node::State;
use rollout::{Action, Ledger, NodeFacts, PoolFacts, ResourceVersion, Settings, Snapshot, plan};
use serde_json::json;

const SIZES: [usize; 3] = [100, 1_000, 10_000];
const CHANGES: u32 = 2_000;

fn main() {
    let objects: Vec<Node> = (0..10_000).map(node).collect();
    let start = Instant::now();
    let mut whole = empty();
    for object in &objects {
        whole.observe_node(NodeFacts::from_object(object));
    }
    let first = plan(&whole);
    let micros = start.elapsed().as_secs_f64() * 1e6 / 10_000.0;
    black_box(&first);
    println!("bench: read, index and plan 10,000 nodes from scratch | {micros:.2} µs/node | < 20 µs/node");

    let mut costs = Vec::new();
    for size in SIZES {
        let micros = change_cost(&objects[..size]);
        costs.push(micros);
        let target = if size == SIZES[0] { "-".to_owned() } else { format!("< {:.1} µs", costs[0] * 2.0) };
        println!("bench: one node's change, pool of {size} nodes | {micros:.1} µs | {target}");
    }
}

/// The mean cost of taking in that a node is through and of planning the next one, in the middle of a rollout.
fn change_cost(objects: &[Node]) -> f64 {
    let mut world = empty();
    for object in objects {
        let mut facts = NodeFacts::from_object(object);
        facts.taints =
            vec![Taint { key: "UpdateInProgress".into(), effect: "PreferNoSchedule".into(), ..Taint::default() }];
        world.observe_node(facts);
    }
    let mut version = 1_000_000;
    let first = plan(&world);
    carry_out(&mut world, &first.actions, &mut version);
    let (mut spent, mut counted) = (Duration::ZERO, 0);
    for change in 0..CHANGES {
        // A pool that is through gets a new target; that pass over all nodes is not part of one node's change.
        if world.nodes.index().waiting.is_empty() {
            set_target(&mut world, &format!("rendered-worker-{change}"));
        }
        let Some(claim) = world.ledger.spec.claims.first().cloned() else {
            let next = plan(&world);
            carry_out(&mut world, &next.actions, &mut version);
            continue;
        };
        let Some(mut facts) = world.nodes.get(&claim.node).cloned() else { continue };
        facts.current = Some(claim.config.clone());
        facts.desired = Some(claim.config);
        facts.state = State::Done;
        facts.taints.clear();
        version += 1;
        facts.resource_version = ResourceVersion::parse(&version.to_string());
        let start = Instant::now();
        world.observe_node(facts);
        let next = plan(&world);
        spent += start.elapsed();
        counted += 1;
        carry_out(&mut world, &next.actions, &mut version);
        world.pool.status = next.status;
    }
    spent.as_secs_f64() * 1e6 / f64::from(counted)
}

fn carry_out(world: &mut Snapshot, actions: &[Action], version: &mut u64) {
    for action in actions {
        *version += 1;
        match action {
            Action::WriteLedger { spec, .. } => {
                world.ledger = Ledger { resource_version: Some(version.to_string()), spec: (**spec).clone() };
            }
            Action::Target(target) => {
                let Some(mut facts) = world.nodes.get(&target.node).cloned() else { continue };
                facts.desired = Some(target.config.clone());
                facts.resource_version = ResourceVersion::parse(&version.to_string());
                world.observe_node(facts);
            }
            Action::SetTaints { node, taints, .. } => {
                let Some(mut facts) = world.nodes.get(node).cloned() else { continue };
                facts.taints.clone_from(taints);
                facts.resource_version = ResourceVersion::parse(&version.to_string());
                world.observe_node(facts);
            }
            Action::Fence { .. } | Action::Hold { .. } | Action::SetTopology { .. } | Action::TellContested { .. } => {}
        }
    }
}

fn empty() -> Snapshot {
    let settings = Settings { settle: SignedDuration::ZERO, ..Settings::default() };
    let pool =
        PoolFacts { name: "worker".to_owned(), max_unavailable: Some(IntOrString::Int(10)), ..PoolFacts::default() };
    let mut world = Snapshot::new(pool, settings, Timestamp::UNIX_EPOCH);
    set_target(&mut world, "rendered-worker-new");
    world
}

fn set_target(world: &mut Snapshot, name: &str) {
    let mut pool = world.pool.clone();
    pool.configuration = Some(api::machineconfiguration::MachineConfigPoolConfiguration {
        name: Some(name.to_owned()),
        ..Default::default()
    });
    world.observe_pool(pool, None);
}

fn node(number: usize) -> Node {
    let node = json!({
        "metadata": {
            "name": format!("node-{number:05}"), "uid": format!("uid-{number}"), "resourceVersion": (number + 1).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
                "kubernetes.io/hostname": format!("node-{number:05}"), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            },
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": "rendered-worker-old",
                "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-old",
                "machineconfiguration.openshift.io/state": "Done",
            },
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    serde_json::from_value(node).expect("this is a node")
}
