//! Replacing Machinist on a running fleet.

use std::time::Duration;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use controllers::Settings;
use fleet::{Behaviour, Fleet};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::objects::file_config;
use testkit::{Kind, wait_for, wait_for_all};

use super::stage::{Stage, settings};
use crate::watching::annotation;

fn rendered(configs: &[MachineConfig]) -> Vec<String> {
    configs.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("rendered-worker-")).collect()
}

/// The same content as another release would write it: other encodings, defaults spelled out, another name.
fn as_another_release_wrote_it(config: &MachineConfig, name: &str) -> MachineConfig {
    let mut other = MachineConfig::new(name, config.spec.clone());
    other.metadata.labels = config.metadata.labels.clone();
    let version = [(annotations::GENERATED_BY_CONTROLLER_VERSION.to_owned(), "of-another-release".to_owned())];
    other.metadata.annotations = Some(version.into());
    let files =
        other.spec.config.as_mut().unwrap().pointer_mut("/storage/files").and_then(Value::as_array_mut).unwrap();
    for file in files.iter_mut() {
        let source = file["contents"]["source"].as_str().unwrap().to_owned();
        let bytes = ignition::data_url::decode(&source).unwrap();
        let plain: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
        file["contents"]["source"] = json!(format!("data:text/plain,{plain}"));
        file["user"] = json!({});
    }
    files.reverse();
    other.spec.fips = Some(false);
    other.spec.kernel_type = Some("default".to_owned());
    other
}

#[tokio::test]
async fn a_controller_of_another_release_rolls_no_node_whose_config_did_not_change() {
    let Some(stage) = Stage::start(Kind::Embedded).await else { return };
    let _operator = stage.operate(settings());
    stage.available().await;
    let control = |version: &str| {
        let settings = Settings { settle: Duration::ZERO, version: version.to_owned(), ..Settings::default() };
        tokio::spawn(controllers::run(stage.client.clone(), settings, std::future::pending()))
    };
    let configs: Api<MachineConfig> = Api::all(stage.client.clone());
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for fragment in
        [file_config("00-worker", "worker", "/etc/a", "one"), file_config("50-more", "worker", "/etc/b", "two")]
    {
        configs.create(&PostParams::default(), &fragment).await.unwrap();
    }
    let fleet = Fleet::new(stage.client.clone(), "upgrade", Behaviour::default());
    fleet.create(vec!["a".into(), "b".into()], &["worker"], None).await.unwrap();
    tokio::spawn(fleet.clone().run());
    // The fleet answers for its own nodes; the stage's worker has no daemon and would wait for ever.
    nodes.delete("worker-1", &DeleteParams::default()).await.unwrap();

    let first = control("1");
    let at = |name: String| {
        move |nodes: &[Node]| {
            let workers = nodes.iter().filter(|node| node.name_any().len() == 1);
            workers.clone().count() == 2
                && workers.clone().all(|node| annotation(node, annotations::CURRENT_CONFIG) == name)
        }
    };
    let pool = wait_for(&pools, "worker", "the first rollout", |pool| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|status| status.configuration.is_some() && status.updated_machine_count == Some(2))
    });
    let old = pool.await.unwrap().spec.configuration.unwrap().name.unwrap();
    wait_for_all(&nodes, "both nodes at the first config", at(old.clone())).await;
    first.abort();
    let _ = first.await;

    // From here on the cluster is as a release would leave it whose serialisation and names differ.
    let theirs = "rendered-worker-0123456789abcdef0123456789abcdef";
    let other = as_another_release_wrote_it(&configs.get(&old).await.unwrap(), theirs);
    configs.create(&PostParams::default(), &other).await.unwrap();
    let point = json!({"spec": {"configuration": {"name": theirs}}});
    pools.patch("worker", &PatchParams::default(), &Patch::Merge(point)).await.unwrap();
    for node in ["a", "b"] {
        let marks = json!({annotations::CURRENT_CONFIG: theirs, annotations::DESIRED_CONFIG: theirs});
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"annotations": marks}})))
            .await
            .unwrap();
    }

    let _second = control("2");
    let pool = wait_for(&pools, "worker", "the new controller to have seen the pool", |pool| {
        let Some(pool) = pool else { return false };
        let status = pool.status.clone().unwrap_or_default();
        let is_updated = status.conditions.iter().any(|one| one.type_ == "Updated" && one.status == "True");
        let proven = status.configuration.and_then(|configuration| configuration.name);
        is_updated && status.observed_generation == pool.metadata.generation && proven.as_deref() == Some(theirs)
    });
    pool.await;
    // Pools are rendered after a moment of quiet. When this later fragment of another pool is, the worker's were too.
    configs.create(&PostParams::default(), &file_config("00-master", "master", "/etc/m", "m")).await.unwrap();
    wait_for(&pools, "master", "the new controller to have rendered", |pool| {
        pool.is_some_and(|pool| pool.spec.configuration.as_ref().is_some_and(|one| one.name.is_some()))
    })
    .await;
    let pool = pools.get("worker").await.unwrap();
    assert_eq!(pool.spec.configuration.unwrap().name.as_deref(), Some(theirs));
    let all = configs.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(rendered(&all), [theirs, &old], "no new rendered config");
    wait_for_all(&nodes, "both nodes where they were", at(theirs.to_owned())).await;

    // And it is not asleep: a real change makes a config and moves the nodes.
    configs.create(&PostParams::default(), &file_config("60-new", "worker", "/etc/c", "three")).await.unwrap();
    wait_for_all(&nodes, "both nodes at a new config", |nodes| {
        let workers: Vec<&Node> = nodes.iter().filter(|node| node.name_any().len() == 1).collect();
        workers.iter().all(|node| {
            let current = annotation(node, annotations::CURRENT_CONFIG);
            current.starts_with("rendered-worker-") && current != theirs
        })
    })
    .await;
}
