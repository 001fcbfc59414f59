//! The path of a change from `kubectl apply` of a MachineConfig to the file on each node, on a real API.

use std::sync::{Arc, Mutex};

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use testkit::objects::{file_config, node, pool};
use testkit::process::Process;
use testkit::{ControlPlane, Kind, control_plane, needs, wait_for, wait_for_all, wait_until};

use crate::processes::{controller, daemon};
use crate::watching::{Seen, annotation, is_down, watch_fleet};

fn manifest(fragment: &MachineConfig) -> String {
    serde_json::to_string(fragment).unwrap()
}

fn condition<'a>(pool: &'a MachineConfigPool, type_: &str) -> Option<&'a str> {
    let conditions = &pool.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == type_).map(|condition| condition.status.as_str())
}

/// Waits until the pool targets a config other than `old` and every node runs it.
async fn updated(control_plane: &ControlPlane, pool: &str, old: &str) -> String {
    let pools: Api<MachineConfigPool> = Api::all(control_plane.client().await);
    let is_updated = |pool: Option<&MachineConfigPool>| {
        let Some(pool) = pool else { return false };
        let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
        let name = status.and_then(|configuration| configuration.name.as_deref());
        name.is_some_and(|name| name != old) && condition(pool, "Updated") == Some("True")
    };
    let pool = wait_for(&pools, pool, "the pool to be updated to a new config", is_updated).await.unwrap();
    pool.status.unwrap().configuration.unwrap().name.unwrap()
}

const NODES: [&str; 3] = ["a", "b", "c"];

/// A pool of three nodes that run their first config.
struct Scene {
    control_plane: ControlPlane,
    folder: tempfile::TempDir,
    nodes: Api<Node>,
    seen: Arc<Mutex<Seen>>,
    first: String,
    controller: Option<Process>,
    _daemons: Vec<Process>,
}

impl Scene {
    async fn start() -> Option<Self> {
        if !needs::kubectl() {
            return None;
        }
        let control_plane = control_plane(Kind::Real).await?;
        control_plane.install().await;
        let folder = tempfile::tempdir().unwrap();
        let client = control_plane.client().await;
        let controller = controller(&control_plane, folder.path(), "first", &[]);
        let nodes: Api<Node> = Api::all(client.clone());
        let mut daemons = Vec::new();
        for name in NODES {
            nodes.create(&PostParams::default(), &node(name, &["worker"])).await.unwrap();
            let root = folder.path().join(name);
            std::fs::create_dir(&root).unwrap();
            daemons.push(daemon(&control_plane, folder.path(), name, &root));
        }
        let seen = watch_fleet(nodes.clone());
        let pools: Api<MachineConfigPool> = Api::all(client);
        pools.create(&PostParams::default(), &pool("worker")).await.unwrap();
        control_plane.apply(&manifest(&file_config("00-worker", "worker", "/etc/base", "base")));
        let first = updated(&control_plane, "worker", "").await;
        seen.lock().unwrap().restart();
        Some(Self { control_plane, folder, nodes, seen, first, controller: Some(controller), _daemons: daemons })
    }

    /// Checks that one node was updated after the other, and that the pool reports it.
    async fn check(&self) {
        let second = updated(&self.control_plane, "worker", &self.first).await;
        let all = wait_for_all(&self.nodes, "three nodes at the new config", |nodes| {
            nodes.iter().all(|node| annotation(node, annotations::CURRENT_CONFIG) == second && !is_down(node))
        });
        assert_eq!(all.await.len(), 3);
        let seen = self.seen.lock().unwrap().clone();
        assert_eq!(seen.most_down, 1, "{seen:?}");
        assert_eq!(seen.targeted.len(), 3, "{seen:?}");
        for node in NODES {
            let motd = std::fs::read_to_string(self.folder.path().join(node).join("etc/motd"));
            assert_eq!(motd.unwrap(), "hello", "the file is on node {node}");
        }
        let table = self.control_plane.kubectl(&["get", "mcp", "worker"]);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..9], ["worker", &second, "True", "False", "False", "3", "3", "3", "0"], "{table}");
    }
}

#[tokio::test]
async fn a_machine_config_reaches_each_node_of_its_pool_one_at_a_time() {
    let Some(scene) = Scene::start().await else { return };
    scene.control_plane.apply(&manifest(&file_config("50-motd", "worker", "/etc/motd", "hello")));
    scene.check().await;
}

#[tokio::test]
async fn a_controller_killed_during_a_rollout_is_replaced_and_the_rollout_continues() {
    let Some(mut scene) = Scene::start().await else { return };
    scene.control_plane.apply(&manifest(&file_config("50-motd", "worker", "/etc/motd", "hello")));
    let seen = scene.seen.clone();
    wait_until("the first node to be targeted", || async { (!seen.lock().unwrap().targeted.is_empty()).then_some(()) })
        .await;
    scene.controller.take().unwrap().kill();
    let at_the_kill = scene.seen.lock().unwrap().targeted.len();
    assert!(at_the_kill < 3, "the rollout was over before the kill");
    scene.controller = Some(controller(&scene.control_plane, scene.folder.path(), "second", &[]));
    scene.check().await;
}
