//! From fragments to a rendered config, and how long it is kept.

use api::machineconfiguration::MachineConfig;
use api::machinist::RenderedProvenance;
use kube::ResourceExt;
use kube::api::Api;
use sandbox::fleet::Behaviour;
use serde_json::json;
use testkit::objects::{file_config, machine_config, pool};
use testkit::{Kind, wait_for, wait_for_all};

use super::on_both;
use super::stage::Stage;
use crate::watching::watch_fleet;

on_both!(
    a_folder_of_manifests_ends_in_one_rollout,
    a_rendered_config_in_use_comes_back_under_its_name,
    a_bad_fragment_keeps_the_last_good_config,
    rendered_configs_that_nobody_uses_are_collected,
);

async fn a_folder_of_manifests_ends_in_one_rollout(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a", "b"]).await;
    let seen = watch_fleet(stage.nodes.clone());
    for n in 0..8 {
        stage.write(&file_config(&format!("50-part-{n}"), "worker", &format!("/etc/part-{n}"), "x")).await;
    }
    let second = stage.updated("worker", &first, 2).await;
    let rendered = stage.configs.get(&second).await.unwrap();
    let files = rendered.spec.config.unwrap()["storage"]["files"].as_array().unwrap().len();
    assert_eq!(files, 9, "one rendering holds the whole folder");
    let targeted = seen.lock().unwrap().targeted.clone();
    let later: Vec<_> = targeted.iter().filter(|(_, config)| *config != first).collect();
    assert_eq!(later.len(), 2, "each node moved once: {targeted:?}");

    let provenances: Api<RenderedProvenance> = Api::all(stage.client.clone());
    let provenance = provenances.get(&second).await.unwrap();
    let entry = provenance.spec.entries.iter().find(|entry| entry.name == "/etc/part-3").unwrap();
    assert_eq!(entry.from, "50-part-3");
    let source = stage.pools.get("worker").await.unwrap().spec.configuration.unwrap().source;
    assert_eq!(source[0].name.as_deref(), Some("00-worker"));
}

async fn a_rendered_config_in_use_comes_back_under_its_name(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    let original = stage.configs.get(&first).await.unwrap();

    // Its source is deleted first, so that rendering again could not restore it.
    stage.delete("00-worker").await;
    stage.condition("worker", "RenderDegraded", &["no MachineConfigs found", "worker"]).await;
    stage.condition("worker", "Degraded", &["no MachineConfigs found"]).await;
    assert_eq!(stage.target("worker").await, first, "the last good config is kept");

    stage.delete(&first).await;
    let back = |config: Option<&MachineConfig>| config.is_some_and(|config| config.uid() != original.uid());
    let restored = wait_for(&stage.configs, &first, "the rendered config to come back", back).await.unwrap();
    assert_eq!(restored.spec, original.spec);

    // A manual edit is reverted.
    let mut edited = restored.clone();
    edited.spec.kernel_arguments = vec!["debug".to_owned()];
    stage.write(&MachineConfig::new(&first, edited.spec)).await;
    wait_for(&stage.configs, &first, "the edit to be undone", |config| {
        config.is_some_and(|config| config.spec == original.spec && config.metadata.generation > Some(1))
    })
    .await;
    let node = stage.nodes.get("a").await.unwrap();
    assert_eq!(node.annotations()["machineconfiguration.openshift.io/state"], "Done", "no node degrades");
}

async fn a_bad_fragment_keeps_the_last_good_config(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    let bad = json!({ "ignition": { "version": "3.4.0" }, "storage": { "files": [{ "path": "relative" }] } });
    stage.write(&machine_config("50-bad", "worker", bad)).await;
    let text = stage.condition("worker", "RenderDegraded", &["50-bad", "storage.files", "path"]).await;
    assert!(text.starts_with("Failed to render configuration for pool worker: "), "{text}");
    stage.condition("worker", "Degraded", &["50-bad"]).await;
    stage.event("RenderFailed", &["50-bad"]).await;
    assert_eq!(stage.target("worker").await, first);

    stage.write(&file_config("50-bad", "worker", "/etc/good", "now")).await;
    stage.updated("worker", &first, 1).await;
    stage.well("worker", "RenderDegraded").await;
    stage.well("worker", "Degraded").await;
}

async fn rendered_configs_that_nobody_uses_are_collected(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    // A custom pool inherits worker's fragments, and its own override them.
    stage.write(&file_config("00-worker", "worker", "/etc/base", "worker")).await;
    stage.write(&file_config("10-infra", "infra", "/etc/base", "infra")).await;
    stage.pools.create(&Default::default(), &pool("infra")).await.unwrap();
    stage.fleet.create(vec!["a".into()], &["worker", "infra"], None).await.unwrap();
    let first = stage.updated("infra", "", 1).await;
    // A node outside every pool still runs the first config.
    stage.fleet.create(vec!["spare".into()], &[], Some(&first)).await.unwrap();
    let mut present = first.clone();
    for n in 0..8 {
        stage.write(&file_config("50-step", "infra", "/etc/step", &n.to_string())).await;
        present = stage.updated("infra", &present, 1).await;
    }
    let is_rendered = |config: &&MachineConfig| config.name_any().starts_with("rendered-infra-");
    let left = wait_for_all(&stage.configs, "all but the newest five to be collected", |configs| {
        configs.iter().filter(is_rendered).count() == 7
    });
    let left = left.await;
    for used in [&present, &first] {
        assert!(left.iter().any(|config| config.name_any() == *used), "what is in use stays");
    }
    let rendered = stage.configs.get(&present).await.unwrap();
    let files = rendered.spec.config.unwrap()["storage"]["files"].clone();
    let base = files.as_array().unwrap().iter().find(|file| file["path"] == "/etc/base").cloned().unwrap();
    assert!(base["contents"]["source"].as_str().unwrap().contains("aW5mcmE"), "infra wins over worker: {base}");
}
