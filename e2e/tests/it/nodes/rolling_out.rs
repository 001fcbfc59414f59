//! Real nodes with the real controller: rollouts, drains and moves between pools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, watcher};
use serde_json::json;
use testkit::objects::{file_config, node as node_object, pool};
use testkit::process::Process;
use testkit::{wait_for, wait_for_all};

use super::node::{Node, Setup};
use super::world::{World, get};
use crate::processes::controller;

/// Nodes of a `worker` pool that run their first config, and the controller that rolled it out.
struct Fleet {
    world: World,
    nodes: Vec<Node>,
    _controller: Process,
    _folder: tempfile::TempDir,
}

impl Fleet {
    async fn start(names: &[&str], first_number: u8) -> Option<Self> {
        let world = World::new().await?;
        world.quiet_folder();
        let folder = tempfile::tempdir().unwrap();
        let controller = controller(&world.control_plane, folder.path(), "controller", &[]);
        let pools: Api<MachineConfigPool> = Api::all(world.client.clone());
        pools.create(&PostParams::default(), &pool("worker")).await.unwrap();
        let fleet = Self { world, nodes: Vec::new(), _controller: controller, _folder: folder };
        fleet.write(&file_config("00-worker", "worker", "/etc/quiet/base", "base")).await;
        let mut nodes = Vec::new();
        for (number, name) in (first_number..).zip(names) {
            // Only the stand-in on the node reports the node ready.
            let mut object = node_object(name, &["worker"]);
            object.status = None;
            fleet.world.nodes().create(&PostParams::default(), &object).await.unwrap();
            let setup = Setup { kubelet: true, ..Setup::default() };
            nodes.push(Node::boot(&fleet.world.control_plane, name, number, &setup));
        }
        let fleet = Self { nodes, ..fleet };
        fleet.updated("worker", "", names.len()).await;
        Some(fleet)
    }

    async fn write(&self, config: &MachineConfig) {
        let configs: Api<MachineConfig> = Api::all(self.world.client.clone());
        let parameters = PatchParams::apply("story").force();
        configs.patch(&config.name_any(), &parameters, &Patch::Apply(config)).await.unwrap();
    }

    /// Waits until all nodes of the pool run a config other than `old`, and returns its name.
    async fn updated(&self, pool: &str, old: &str, count: usize) -> String {
        let pools: Api<MachineConfigPool> = Api::all(self.world.client.clone());
        let is_updated = |pool: Option<&MachineConfigPool>| {
            let Some(status) = pool.and_then(|pool| pool.status.as_ref()) else { return false };
            let name = status.configuration.as_ref().and_then(|configuration| configuration.name.as_deref());
            let is_true = |condition: &api::machineconfiguration::MachineConfigPoolCondition| {
                condition.type_ == "Updated" && condition.status == "True"
            };
            name.is_some_and(|name| name != old)
                && usize::try_from(status.updated_machine_count.unwrap_or(0)) == Ok(count)
                && status.conditions.iter().any(is_true)
        };
        let found = wait_for(&pools, pool, "the pool to be updated", is_updated).await.unwrap();
        found.status.unwrap().configuration.unwrap().name.unwrap()
    }

    async fn place(&self, name: &str, node: &str) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.world.client.clone(), "default");
        wait_for(&accounts, "default", "the default service account", |account| account.is_some()).await;
        let pods = self.pods();
        let pod = json!({
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "main", "image": "example.org/main" }],
            },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.world.client.clone(), "default")
    }
}

/// The observed states of each node in order, and the maximum number of nodes that were down at once.
#[derive(Default)]
struct Seen {
    words: BTreeMap<String, Vec<&'static str>>,
    down: BTreeMap<String, bool>,
    most_down: usize,
}

impl Seen {
    fn take(&mut self, node: &NodeObject) {
        let name = node.name_any();
        let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        let is_drained = get(node, annotations::LAST_APPLIED_DRAIN).starts_with("drain-");
        let is_done = get(node, annotations::STATE) == "Done";
        let word = match (is_cordoned, is_drained, is_done) {
            _ if get(node, annotations::POST_CONFIG_ACTION) == "Rebooting" => "rebooting",
            (true, true, _) => "drained",
            (true, false, _) => "cordoned",
            (false, false, true) => "done",
            (false, ..) => "open",
        };
        let words = self.words.entry(name.clone()).or_default();
        if words.last() != Some(&word) {
            words.push(word);
        }
        self.down.insert(name, is_cordoned);
        self.most_down = self.most_down.max(self.down.values().filter(|down| **down).count());
    }
}

#[tokio::test]
async fn a_change_that_reboots_takes_one_node_after_the_other_drained_and_uncordoned() {
    let names = ["n1", "n2", "n3"];
    let Some(fleet) = Fleet::start(&names, 21).await else { return };
    let first = fleet.updated("worker", "", 3).await;
    for name in names {
        fleet.place(&format!("pod-on-{name}"), name).await;
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (notes, nodes) = (Arc::clone(&seen), fleet.world.nodes());
    tokio::spawn(async move {
        let mut events = watcher(nodes, watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            if let Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) = event {
                notes.lock().unwrap().take(&node);
            }
        }
    });
    fleet.write(&file_config("50-loud", "worker", "/etc/loud", "loud")).await;
    let second = fleet.updated("worker", &first, 3).await;
    let all = wait_for_all(&fleet.world.nodes(), "three open nodes", |nodes| {
        let is_open = |node: &NodeObject| node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true);
        nodes.iter().all(|node| is_open(node) && get(node, annotations::CURRENT_CONFIG) == second)
    });
    assert_eq!(all.await.len(), 3);
    for node in &fleet.nodes {
        assert_eq!(node.read("/etc/loud").as_deref(), Some("loud"));
        assert_eq!(node.boots(), 2, "{} has rebooted once", node.name);
    }
    let pods = fleet.pods().list(&Default::default()).await.unwrap();
    assert!(pods.items.is_empty(), "every node was drained before it went down");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.most_down, 1, "one node at a time");
    for (name, words) in &seen.words {
        let order: Vec<&str> = words.iter().copied().filter(|word| *word != "open").collect();
        let place =
            |word: &str| order.iter().position(|seen| *seen == word).unwrap_or_else(|| panic!("{name}: {order:?}"));
        let (cordoned, rebooting, done) =
            (place("cordoned"), place("rebooting"), order.iter().rposition(|word| *word == "done"));
        assert!(cordoned < place("drained") && place("drained") < rebooting, "{name}: {order:?}");
        assert!(done.is_some_and(|done| rebooting < done), "{name}: {order:?}");
    }
}

#[tokio::test]
async fn a_pod_with_a_budget_holds_the_drain_of_its_node_and_is_named() {
    let Some(fleet) = Fleet::start(&["n1"], 31).await else { return };
    let first = fleet.updated("worker", "", 1).await;
    fleet.place("shop", "n1").await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(fleet.world.client.clone(), "default");
    let budget = json!({
        "metadata": { "name": "shop-stays" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "shop" } } },
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    wait_for(&budgets, "shop-stays", "the budget to be counted", |budget| {
        budget.and_then(|budget| budget.status.as_ref()).is_some_and(|status| status.observed_generation.is_some())
    })
    .await;
    fleet.write(&file_config("50-loud", "worker", "/etc/loud", "loud")).await;
    let events: Api<Event> = Api::all(fleet.world.client.clone());
    wait_for_all(&events, "an event that names pod and budget", |events| {
        events.iter().any(|event| {
            let note = event.note.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("DrainBlocked") && note.contains("shop-stays") && note.contains("shop")
        })
    })
    .await;
    let node = &fleet.nodes[0];
    assert_eq!((node.boots(), node.read("/etc/loud")), (1, None), "nothing is written before the drain");
    assert!(fleet.pods().get_opt("shop").await.unwrap().is_some(), "and the pod still runs");

    budgets.delete("shop-stays", &DeleteParams::default()).await.unwrap();
    fleet.updated("worker", &first, 1).await;
    assert_eq!((node.boots(), node.read("/etc/loud").as_deref()), (2, Some("loud")));
}

#[tokio::test]
async fn a_node_that_moves_from_worker_to_infra_takes_the_other_pools_config() {
    let Some(fleet) = Fleet::start(&["n1"], 41).await else { return };
    let pools: Api<MachineConfigPool> = Api::all(fleet.world.client.clone());
    fleet.write(&file_config("50-worker", "worker", "/etc/quiet/both", "worker")).await;
    fleet.write(&file_config("60-infra", "infra", "/etc/quiet/infra", "infra")).await;
    pools.create(&PostParams::default(), &pool("infra")).await.unwrap();
    let relabel = json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}});
    fleet.world.nodes().patch("n1", &PatchParams::default(), &Patch::Merge(relabel)).await.unwrap();
    let infra = fleet.updated("infra", "", 1).await;
    assert!(infra.starts_with("rendered-infra-"), "{infra}");
    fleet.world.done("n1", &infra).await;
    let node = &fleet.nodes[0];
    assert_eq!(node.read("/etc/quiet/infra").as_deref(), Some("infra"));
    assert_eq!(node.read("/etc/quiet/both").as_deref(), Some("worker"), "a custom pool has worker's fragments too");

    let back = json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": null}}});
    fleet.world.nodes().patch("n1", &PatchParams::default(), &Patch::Merge(back)).await.unwrap();
    let worker = fleet.updated("worker", "", 1).await;
    fleet.world.done("n1", &worker).await;
    assert_eq!(node.read("/etc/quiet/infra"), None);
    assert_eq!(node.boots(), 1, "nothing of this needs a reboot");
}
