//! In which order nodes would go: the rollout's own plan, carried out on paper until it rests.

use std::collections::BTreeMap;

use api::known::Reading;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigPoolConfiguration};
use jiff::SignedDuration;
use kube::ResourceExt as _;
use rollout::node::State;
use rollout::{Action, Ledger, NodeFacts, ResourceVersion};

use crate::cluster::Cluster;
use crate::plan::Left;

/// How often a plan may write the ledger and target nobody: it does so when others have to be fenced off first.
const WRITES: usize = 16;

/// Where a rollout would get.
pub(crate) struct Reach {
    pub(crate) waves: Vec<Vec<String>>,
    pub(crate) left: Vec<Left>,
    /// Why no host of the pool can take the config.
    pub(crate) refused: Option<String>,
    /// What each node runs now.
    pub(crate) current: BTreeMap<String, Option<String>>,
}

pub(crate) fn of(pool: &MachineConfigPool, new: &MachineConfig, objects: &Cluster) -> Reach {
    let to = &new.name_any();
    let mut pool = pool.clone();
    pool.spec.configuration = Some(MachineConfigPoolConfiguration { name: Some(to.to_owned()), ..Default::default() });
    pool.spec.paused = Some(false);
    let mut pools = objects.pools.clone();
    match pools.iter_mut().find(|it| it.name_any() == pool.name_any()) {
        Some(it) => *it = pool.clone(),
        None => pools.push(pool.clone()),
    }
    let input = rollout::Objects {
        machine_config_nodes: &objects.machine_config_nodes,
        ledger: objects.ledgers.iter().find(|ledger| ledger.name_any() == pool.name_any()),
        pods: objects.etcd.as_ref().map(Vec::as_slice),
        configs: Reading::known(&objects.configs, objects.now),
        ..rollout::Objects::new(&pool, &pools, &objects.nodes)
    };
    // On paper no time passes; how long the target has to settle is told beside the order.
    let settings = rollout::Settings {
        settle: SignedDuration::ZERO,
        leader_node: objects.leader_node.clone(),
        ..Default::default()
    };
    let mut snapshot = rollout::Snapshot::from_objects(input, settings, objects.now);
    snapshot.observe_hosts(|current, word| change::backend::refusal(word, &objects.config(current)?.spec, &new.spec));
    let current = snapshot.nodes.iter().map(|node| (node.name.clone(), node.current.clone())).collect();
    let mut waves = Vec::new();
    let mut writes = 0;
    loop {
        let plan = rollout::plan(&snapshot);
        let is_written = keep(&mut snapshot.ledger, &plan.actions);
        let targets: Vec<String> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Target(target) => Some(target.node.clone()),
                _ => None,
            })
            .collect();
        if targets.is_empty() && is_written && writes < WRITES {
            writes += 1;
            continue;
        }
        if targets.is_empty() {
            let degraded = plan.status.conditions.iter().find(|condition| condition.reason == rollout::REFUSED);
            let refused = degraded.map(|condition| condition.message.clone());
            return Reach { waves, left: left(&snapshot, to, &plan.next), refused, current };
        }
        for name in &targets {
            let Some(facts) = snapshot.nodes.get(name).cloned() else { continue };
            // A node that has moved on has a newer version than the one it was claimed with.
            let newest = snapshot.nodes.iter().map(|node| node.resource_version.number).max().unwrap_or(0);
            let version = ResourceVersion::parse(&newest.saturating_add(1).to_string());
            snapshot.observe_node(NodeFacts { resource_version: version, ..arrived(facts, to) });
        }
        waves.push(targets);
    }
}

/// Takes over what a plan writes into the ledger. Whether that is anything new.
fn keep(ledger: &mut Ledger, actions: &[Action]) -> bool {
    let written = actions.iter().find_map(|action| match action {
        Action::WriteLedger { spec, .. } => Some((**spec).clone()),
        _ => None,
    });
    let Some(spec) = written.filter(|spec| *spec != ledger.spec) else { return false };
    ledger.spec = spec;
    true
}

/// A node that has made the change.
fn arrived(facts: NodeFacts, to: &str) -> NodeFacts {
    NodeFacts {
        current: Some(to.to_owned()),
        desired: Some(to.to_owned()),
        state: State::Done,
        unready: None,
        unschedulable: false,
        reason: None,
        reverted: None,
        ..facts
    }
}

fn left(snapshot: &rollout::Snapshot, to: &str, next: &rollout::Next) -> Vec<Left> {
    let (rollout::Next::OnChange(waiting) | rollout::Next::After(_, waiting)) = next;
    let there = |node: &&NodeFacts| node.desired.as_deref() != Some(to);
    let left = snapshot.nodes.iter().filter(there).map(|node| Left {
        node: node.name.clone(),
        why: match (&node.hold, snapshot.nodes.rules().refusal(node)) {
            (Some(_), _) => "a person holds it".to_owned(),
            (None, Some(why)) => why.to_owned(),
            (None, None) => waiting.to_string(),
        },
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn config(name: &str) -> MachineConfig {
        let mut config = MachineConfig::default();
        config.metadata.name = Some(name.to_owned());
        config
    }

    fn objects(ledger: &serde_json::Value) -> Cluster {
        let node = |name: &str, version: &str| {
            let annotations = json!({
                "machineconfiguration.openshift.io/currentConfig": "rendered-worker-a",
                "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-a",
                "machineconfiguration.openshift.io/state": "Done",
            });
            let metadata = json!({"name": name, "resourceVersion": version, "annotations": annotations, "labels": {"pool": "worker"}});
            serde_json::from_value(json!({
                "metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .expect("it is valid")
        };
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "worker"}}, "configuration": {"name": "rendered-worker-a"}},
        });
        let ledger = json!({
            "apiVersion": "machinist.dev/v1alpha1", "kind": "PoolLedger",
            "metadata": {"name": "worker", "resourceVersion": "9"}, "spec": ledger,
        });
        Cluster {
            pools: vec![serde_json::from_value(pool).expect("it is valid")],
            nodes: vec![node("one", "5"), node("two", "6")],
            ledgers: vec![serde_json::from_value(ledger).expect("it is valid")],
            etcd: Reading::known(Vec::new(), Timestamp::UNIX_EPOCH),
            ..Cluster::default()
        }
    }

    #[test]
    fn nodes_go_one_after_the_other_whatever_the_ledger_remembers() {
        let target = json!({"config": "rendered-worker-a", "since": "2026-01-01T00:00:00Z"});
        let over = json!([{"node": "one", "config": "rendered-worker-a", "nodeResourceVersion": "3"}]);
        let objects = objects(&json!({"target": target, "claims": over}));
        let reach = of(&objects.pools[0].clone(), &config("rendered-worker-b"), &objects);
        assert_eq!(reach.waves, [["one"], ["two"]]);
        assert_eq!(reach.left.len(), 0);
    }

    #[test]
    fn a_config_that_was_tried_and_taken_back_reaches_nobody() {
        let target = json!({"config": "rendered-worker-b", "since": "2026-01-01T00:00:00Z"});
        let held = json!([{"config": "rendered-worker-b", "node": "one", "reason": "sshd does not answer"}]);
        let objects = objects(&json!({"target": target, "held": held}));
        let reach = of(&objects.pools[0].clone(), &config("rendered-worker-b"), &objects);
        assert_eq!(reach.waves, Vec::<Vec<String>>::new());
        let left: Vec<&str> = reach.left.iter().map(|left| left.node.as_str()).collect();
        assert_eq!(left, ["one", "two"]);
    }

    #[test]
    fn the_node_of_the_leading_controller_goes_last() {
        let mut objects = objects(&json!({}));
        let reach = of(&objects.pools[0].clone(), &config("rendered-worker-b"), &objects);
        assert_eq!(reach.waves, [["one"], ["two"]]);
        objects.leader_node = Some("one".to_owned());
        let reach = of(&objects.pools[0].clone(), &config("rendered-worker-b"), &objects);
        assert_eq!(reach.waves, [["two"], ["one"]]);
    }

    #[test]
    fn hosts_that_cannot_take_a_config_are_named_and_where_none_can_the_pool_is_refused() {
        let mut objects = objects(&json!({}));
        objects.configs = vec![config("rendered-worker-a")];
        let says = |node: &mut k8s_openapi::api::core::v1::Node, word: &str| {
            let annotations = node.metadata.annotations.get_or_insert_default();
            annotations.insert(api::annotations::OS_UPDATES.to_owned(), word.to_owned());
        };
        let mut new = config("rendered-worker-b");
        new.spec.kernel_arguments = vec!["nosmt".to_owned()];
        says(&mut objects.nodes[0], "none");
        let why = "kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree, and with neither GRUB \
                   (grubby, update-grub) nor systemd-boot";
        let reach = of(&objects.pools[0].clone(), &new, &objects);
        assert_eq!((reach.waves, reach.refused), (vec![vec!["two".to_owned()]], None));
        assert_eq!((reach.left[0].node.as_str(), reach.left[0].why.as_str()), ("one", why));
        says(&mut objects.nodes[1], "bootc");
        let reach = of(&objects.pools[0].clone(), &new, &objects);
        assert_eq!(reach.waves, Vec::<Vec<String>>::new());
        assert!(reach.refused.is_some_and(|told| told.contains(why) && told.contains("a host with bootc alone")));
    }
}
