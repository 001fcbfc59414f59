//! Objects and marks of nodes beside their target: MachineConfigNode, labels and taints.

use std::collections::BTreeMap;

use api::machineconfiguration::MachineConfigNode;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use sandbox::fleet::{Behaviour, Fault};
use serde_json::{Value, json};
use testkit::objects::{file_config, node, pool};
use testkit::{Kind, wait_for};

use super::on_both;
use super::stage::Stage;
use crate::watching::annotation;

on_both!(every_node_has_an_object_that_follows_it, a_node_carries_the_labels_of_where_it_belongs);

fn contested(node: Option<&MachineConfigNode>) -> Option<(String, String)> {
    let conditions = &node?.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == "MultipleCustomPools")?;
    Some((found.status.clone(), found.message.clone()))
}

async fn every_node_has_an_object_that_follows_it(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a", "b"]).await;
    let objects: Api<MachineConfigNode> = Api::all(stage.client.clone());
    let says = |pool: &'static str, config: String| {
        move |object: Option<&MachineConfigNode>| {
            let spec = object.map(|object| &object.spec);
            spec.is_some_and(|spec| spec.pool.name == pool && spec.config_version.desired == config)
        }
    };
    let object = wait_for(&objects, "a", "an object for the node", says("worker", first.clone())).await.unwrap();
    assert_eq!(object.owner_references()[0].kind, "Node");

    // During an update the node gets another role, and its MachineConfigNode follows.
    stage.pools.create(&PostParams::default(), &pool("infra")).await.unwrap();
    stage.write(&file_config("10-infra", "infra", "/etc/infra", "infra")).await;
    stage.fleet.inject("a", Some(Fault::Relabel("infra")));
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    let infra = stage.updated("infra", "", 1).await;
    wait_for(&objects, "a", "the object to follow the node", says("infra", infra.clone())).await;
    stage.fleet.inject("a", None);

    // Two custom pools select the node: its MachineConfigNode reports the conflict until a user resolves it.
    stage.pools.create(&PostParams::default(), &pool("gpu")).await.unwrap();
    stage.relabel("a", json!({ "node-role.kubernetes.io/gpu": "" })).await;
    wait_for(&objects, "a", "the object to name both pools", |object| {
        let said = contested(object);
        said.is_some_and(|(status, message)| status == "True" && message.contains("gpu, infra"))
    })
    .await;
    stage.relabel("a", json!({ "node-role.kubernetes.io/gpu": null })).await;
    wait_for(&objects, "a", "the object to be well", |object| {
        contested(object).is_some_and(|(status, _)| status == "False") && says("infra", infra.clone())(object)
    })
    .await;

    // The object is recreated after a deletion, and is deleted with its node.
    objects.delete("a", &DeleteParams::default()).await.unwrap();
    wait_for(&objects, "a", "the object to come back", says("infra", infra.clone())).await;
    stage.nodes.delete("b", &DeleteParams::default()).await.unwrap();
    wait_for(&objects, "b", "the object to go with its node", |object| object.is_none()).await;
}

async fn a_node_carries_the_labels_of_where_it_belongs(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    scheduler(&stage, json!({ "mastersSchedulable": false })).await;
    let worker = stage.settled_pool("worker", &["a"]).await;
    stage.pools.create(&PostParams::default(), &pool("infra")).await.unwrap();
    stage.write(&file_config("10-infra", "infra", "/etc/infra", "infra")).await;
    let rendered = wait_for(&stage.pools, "infra", "a config", |pool| {
        pool.is_some_and(|pool| pool.spec.configuration.as_ref().is_some_and(|it| it.name.is_some()))
    });
    let infra = rendered.await.unwrap().spec.configuration.unwrap().name.unwrap();

    // A node that first booted in infra never gets worker's config, once it is known that it was let in for infra.
    let grant = serving::token::Grant {
        pool: "infra".to_owned(),
        machine: Some("born".to_owned()),
        ..serving::token::Grant::default()
    };
    let secret = cluster::tokens::issue(&stage.client, &grant).await.unwrap();
    let mut liar = node("liar", &["worker"]);
    let word = (api::annotations::FIRST_PIVOT_CONFIG.to_owned(), infra.clone());
    liar.metadata.annotations = Some([word].into_iter().collect());
    stage.nodes.create(&PostParams::default(), &liar).await.unwrap();
    let mut born = node("born", &["worker"]);
    let notes = ["currentConfig", "desiredConfig", "firstPivotConfig"].map(|key| (key, infra.as_str()));
    let notes = notes.into_iter().chain([("state", "Done")]);
    let notes = notes.map(|(key, value)| (format!("machineconfiguration.openshift.io/{key}"), value.to_owned()));
    born.metadata.annotations = Some(notes.collect());
    stage.nodes.create(&PostParams::default(), &born).await.unwrap();
    let used = json!({"status": {"uses": 1, "lastUsed": jiff::Timestamp::now().to_string()}});
    let tokens: Api<api::machinist::BootstrapToken> = Api::all(stage.client.clone());
    let token = serving::token::name("infra", &secret);
    tokens.patch_status(&token, &PatchParams::default(), &Patch::Merge(used)).await.unwrap();
    let labelled = wait_for(&stage.nodes, "born", "the labels of infra", |node| {
        node.is_some_and(|node| node.labels().contains_key("node-role.kubernetes.io/infra"))
    });
    let labelled = labelled.await.unwrap();
    assert_eq!(annotation(&labelled, api::annotations::DESIRED_CONFIG), infra, "and not {worker}");
    assert!(labelled.annotations().contains_key(api::annotations::CUSTOM_POOL_LABELS_APPLIED));

    let liar = stage.nodes.get("liar").await.unwrap();
    assert!(!liar.labels().contains_key("node-role.kubernetes.io/infra"), "its own word is not enough");

    // The cluster's Scheduler object decides whether the control plane is schedulable.
    stage.nodes.create(&PostParams::default(), &node("m", &["master"])).await.unwrap();
    let marked = |worker: bool, tainted: bool| {
        move |node: Option<&k8s_openapi::api::core::v1::Node>| {
            node.is_some_and(|node| {
                let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
                let is_tainted = taints.into_iter().any(|taint| taint.key == "node-role.kubernetes.io/master");
                let labels = node.labels();
                labels.contains_key("node-role.kubernetes.io/control-plane")
                    && labels.contains_key("node-role.kubernetes.io/worker") == worker
                    && is_tainted == tainted
            })
        }
    };
    wait_for(&stage.nodes, "m", "workloads to be kept away", marked(false, true)).await;
    scheduler(&stage, json!({ "mastersSchedulable": true })).await;
    wait_for(&stage.nodes, "m", "workloads to be let in", marked(true, false)).await;
}

async fn scheduler(stage: &Stage, spec: Value) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "Scheduler");
    let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), &ApiResource::from_gvk(&kind));
    let object = BTreeMap::from([
        ("apiVersion", json!("config.openshift.io/v1")),
        ("kind", json!("Scheduler")),
        ("metadata", json!({ "name": "cluster" })),
        ("spec", spec),
    ]);
    api.patch("cluster", &PatchParams::apply("story").force(), &Patch::Apply(&object)).await.unwrap();
}
