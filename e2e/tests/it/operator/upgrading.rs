//! Upgrades and downgrades Machinist on a running fleet. The other release formats and names rendered configs
//! differently.

use std::time::Duration;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigSpec};
use controllers::Settings;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use sandbox::fleet::{Behaviour, Fleet};
use serde_json::{Value, json};
use testkit::objects::file_config;
use testkit::{Kind, wait_for, wait_for_all};

use super::stage::{Stage, settings};
use crate::processes::controller;
use crate::watching::annotation;

/// Prefix of the other release's names, after the pool. None of our own hashes is likely to begin with it.
const THEIRS: &str = "00000000";

/// Formats the same content like the other release: plain data URLs, lists in reverse order, defaults left out or
/// spelled out, and a different hash.
fn other_form(pool: &str, spec: &mut MachineConfigSpec) -> (String, usize) {
    let config = spec.config.as_mut().unwrap();
    if let Some(files) = config.pointer_mut("/storage/files").and_then(Value::as_array_mut) {
        for file in files.iter_mut() {
            let source = file["contents"]["source"].as_str().unwrap().to_owned();
            let bytes = ignition::data_url::decode(&source).unwrap();
            let plain: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            file["contents"]["source"] = json!(format!("data:text/plain,{plain}"));
            file["user"] = json!({});
        }
        files.reverse();
    }
    spec.fips = None;
    spec.kernel_type = None;
    let text = serde_json::to_string(spec).unwrap();
    let hash = text.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    (format!("rendered-{pool}-{THEIRS}{hash:024x}"), text.len())
}

struct Cluster {
    stage: Stage,
    configs: Api<MachineConfig>,
    pools: Api<MachineConfigPool>,
    nodes: Api<Node>,
}

impl Cluster {
    async fn add(&self, fragment: MachineConfig) {
        self.configs.create(&PostParams::default(), &fragment).await.unwrap();
    }

    /// Waits until both nodes run the pool's target, and that is not `before`.
    async fn rolled_out(&self, before: &str) -> String {
        let pool = wait_for(&self.pools, "worker", "the pool to be rolled out", |pool| {
            let Some(pool) = pool else { return false };
            let target = pool.spec.configuration.as_ref().and_then(|one| one.name.clone());
            let status = pool.status.clone().unwrap_or_default();
            let proven = status.configuration.and_then(|one| one.name);
            target.as_deref() != Some(before) && proven == target && status.updated_machine_count == Some(2)
        });
        let name = pool.await.unwrap().spec.configuration.unwrap().name.unwrap();
        wait_for_all(&self.nodes, "both nodes at the pool's config", |nodes| all_at(nodes, &name)).await;
        name
    }

    /// Waits until a release that just started has rendered a new pool, `pool`, and thus reconciled every pool once,
    /// and checks that the workers did not change. Returns the new pool's config.
    async fn untouched(&self, pool: &str, was: &str) -> MachineConfig {
        let rendered = || async {
            let all = self.configs.list(&ListParams::default()).await.unwrap().items;
            let mut names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
            names.retain(|name| name.starts_with("rendered-worker-"));
            names
        };
        let before = rendered().await;
        self.pools.create(&PostParams::default(), &testkit::objects::pool(pool)).await.unwrap();
        self.add(file_config(&format!("00-{pool}"), pool, "/etc/p", pool)).await;
        let object = wait_for(&self.pools, pool, "the release to have rendered", |pool| {
            pool.is_some_and(|pool| pool.spec.configuration.as_ref().is_some_and(|one| one.name.is_some()))
        });
        let new = object.await.unwrap().spec.configuration.unwrap().name.unwrap();
        wait_for(&self.pools, "worker", "the release to have seen the workers", |pool| {
            let Some(pool) = pool else { return false };
            let status = pool.status.clone().unwrap_or_default();
            let is_updated = status.conditions.iter().any(|one| one.type_ == "Updated" && one.status == "True");
            is_updated && status.observed_generation == pool.metadata.generation
        })
        .await;
        let worker = self.pools.get("worker").await.unwrap();
        assert_eq!(worker.spec.configuration.unwrap().name.as_deref(), Some(was));
        assert_eq!(rendered().await, before, "no new rendered config");
        let nodes = self.nodes.list(&ListParams::default()).await.unwrap().items;
        assert!(all_at(&nodes, was), "both nodes where they were");
        self.configs.get(&new).await.unwrap()
    }
}

fn all_at(nodes: &[Node], config: &str) -> bool {
    let workers: Vec<&Node> = nodes.iter().filter(|node| node.name_any().len() == 1).collect();
    let is_at = |node: &&Node| {
        [annotations::CURRENT_CONFIG, annotations::DESIRED_CONFIG].iter().all(|key| annotation(node, key) == config)
    };
    workers.len() == 2 && workers.iter().all(is_at)
}

#[tokio::test]
async fn a_controller_of_another_release_rolls_no_node_whose_config_did_not_change() {
    let Some(stage) = Stage::start(Kind::Embedded).await else { return };
    let _operator = stage.operate(settings());
    stage.available().await;
    let client = stage.client.clone();
    let cluster = Cluster {
        configs: Api::all(client.clone()),
        pools: Api::all(client.clone()),
        nodes: Api::all(client.clone()),
        stage,
    };
    let fleet = Fleet::new(client.clone(), "upgrade", Behaviour::default());
    fleet.create(vec!["a".into(), "b".into()], &["worker"], None).await.unwrap();
    tokio::spawn(fleet.clone().run());
    // The simulated fleet runs daemons only for its own nodes; the stage's worker has none and would never finish.
    cluster.nodes.delete("worker-1", &DeleteParams::default()).await.unwrap();
    cluster.add(file_config("00-worker", "worker", "/etc/a", "one")).await;
    cluster.add(file_config("50-more", "worker", "/etc/b", "two")).await;

    let folder = tempfile::tempdir().unwrap();
    let mut ours = controller(&cluster.stage.control_plane, folder.path(), "ours", &[]);
    let first = cluster.rolled_out("").await;
    assert!(!first.contains(THEIRS), "{first}");
    ours.kill();

    let other = Settings {
        settle: Duration::ZERO,
        version: "of-another-release".to_owned(),
        form: other_form,
        ..Settings::default()
    };
    let theirs = tokio::spawn(controllers::run(client, other, std::future::pending()));
    let infra = cluster.untouched("infra", &first).await;
    assert!(infra.name_any().starts_with(&format!("rendered-infra-{THEIRS}")), "it is another release");
    assert!(infra.spec.config.unwrap().to_string().contains("data:text/plain,%"), "whose code writes differently");
    // The controller does work: a real change creates a config and updates the nodes.
    cluster.add(file_config("60-new", "worker", "/etc/c", "three")).await;
    let second = cluster.rolled_out(&first).await;
    assert!(second.starts_with(&format!("rendered-worker-{THEIRS}")), "{second}");
    theirs.abort();
    let _ = theirs.await;

    let _ours = controller(&cluster.stage.control_plane, folder.path(), "ours-again", &[]);
    let edge = cluster.untouched("edge", &second).await;
    assert!(!edge.name_any().contains(THEIRS), "{}", edge.name_any());
    cluster.add(file_config("70-newer", "worker", "/etc/d", "four")).await;
    let third = cluster.rolled_out(&second).await;
    assert!(!third.contains(THEIRS), "{third}");
}
