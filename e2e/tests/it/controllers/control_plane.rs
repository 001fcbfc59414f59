//! Control-plane nodes: one at a time, never below etcd's quorum, the node of our own leader last.

use std::time::Duration;

use controllers::Settings;
use k8s_openapi::api::core::v1::Pod;
use sandbox::fleet::Behaviour;
use serde_json::json;
use testkit::Kind;
use testkit::objects::file_config;

use super::on_both;
use super::stage::Stage;
use crate::watching::watch_fleet;

on_both!(the_control_plane_keeps_its_quorum_and_our_leader_goes_last);

fn etcd(node: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": format!("etcd-{node}"), "labels": { "component": "etcd", "tier": "control-plane" } },
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false,
            "containers": [{ "name": "etcd", "image": "example.org/etcd" }],
        },
    }))
    .unwrap()
}

async fn the_control_plane_keeps_its_quorum_and_our_leader_goes_last(kind: Kind) {
    let behaviour = Behaviour { update: Duration::from_millis(100), ..Behaviour::default() };
    let settings = Settings { node: Some("m0".to_owned()), ..Settings::default() };
    let Some(stage) = Stage::start_with(kind, behaviour, settings).await else { return };
    let first = stage.settled_pool("master", &["m0", "m1", "m2"]).await;
    // A maxUnavailable that a user set for the control plane is ignored.
    stage.patch_pool("master", json!({ "spec": { "maxUnavailable": 3 } })).await;
    for node in ["m0", "m1", "m2"] {
        stage.place("kube-system", &etcd(node)).await;
    }
    stage.set_ready("kube-system", "etcd-m2", false).await;
    let seen = watch_fleet(stage.nodes.clone());

    // Updating the member that is already down costs nothing; updating another one would break the quorum.
    stage.write(&file_config("50-more", "master", "/etc/more", "more")).await;
    stage.condition("master", "Updating", &["1 of 3 done", "etcd would lose its quorum without node m1"]).await;
    let targeted = |config: &str| {
        let seen = seen.lock().unwrap();
        let later = seen.targeted.iter().filter(|(_, target)| target != config);
        later.map(|(node, _)| node.clone()).collect::<Vec<_>>()
    };
    assert_eq!(targeted(&first), ["m2"]);

    stage.set_ready("kube-system", "etcd-m2", true).await;
    stage.updated("master", &first, 3).await;
    assert_eq!(targeted(&first), ["m2", "m1", "m0"], "the node that runs our leader is last");
    assert_eq!(seen.lock().unwrap().most_down, 1, "one at a time, whatever maxUnavailable says");
}
