//! What cannot be read is not taken for missing: nothing is evicted, taken down, rendered or collected because of it.

use api::annotations;
use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::objects::file_config;
use testkit::{wait_for, wait_until};

use crate::stage::Stage;

fn target(pool: &MachineConfigPool) -> Option<String> {
    pool.spec.configuration.as_ref()?.name.clone()
}

/// A DaemonSet that every node needs, and its pod on node `a`.
async fn network(stage: &Stage) -> Api<Pod> {
    let template = json!({
        "metadata": {"labels": {"app": "network"}},
        "spec": {"containers": [{"name": "main", "image": "example.org/network"}]},
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "network"},
        "spec": {"selector": {"matchLabels": {"app": "network"}}, "template": template},
    });
    let sets: Api<DaemonSet> = Api::namespaced(stage.client.clone(), "default");
    let set = sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "network", "uid": set.uid(), "controller": true});
    stage.place("default", "network-a", "a", json!({"ownerReferences": [owner]})).await;
    stage.place("default", "web", "a", json!({})).await;
    Api::namespaced(stage.client.clone(), "default")
}

#[tokio::test]
async fn no_pod_is_evicted_while_daemon_sets_cannot_be_listed() {
    let stage = Stage::start().await;
    let first = stage.control();
    stage.settled_pool("worker", &["a"]).await;
    first.abort();
    let _ = first.await;
    let pods = network(&stage).await;
    let before = pods.get("network-a").await.unwrap();

    stage.faults.fail("daemonsets", 503);
    let _second = stage.control();
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    stage.event("DrainBlocked", "cannot read daemonsets").await;
    stage.says("worker", "Updating", &["cannot read daemonsets"]).await;
    for pod in ["network-a", "web"] {
        assert!(pods.get(pod).await.unwrap().metadata.deletion_timestamp.is_none(), "{pod}");
    }
    stage.faults.mend("daemonsets");
    stage.updated("worker", 1).await;
    assert_eq!(pods.get_opt("web").await.unwrap().map(|pod| pod.name_any()), None, "it was moved");
    assert_eq!(pods.get("network-a").await.unwrap().uid(), before.uid(), "the node kept its network");
}

#[tokio::test]
async fn the_control_plane_stays_while_the_members_of_etcd_cannot_be_listed() {
    let stage = Stage::start().await;
    let first = stage.control();
    let masters = ["m0", "m1", "m2"];
    stage.settled_pool("master", &masters).await;
    first.abort();
    let _ = first.await;
    for node in masters {
        // As a kubelet mirrors it: no drain evicts it.
        let mirrored = json!({"labels": {"component": "etcd"}, "annotations": {"kubernetes.io/config.mirror": "1"}});
        stage.place("kube-system", &format!("etcd-{node}"), node, mirrored).await;
    }

    stage.faults.fail("pods", 503);
    let _second = stage.control();
    stage.write(&file_config("50-more", "master", "/etc/more", "more")).await;
    stage.says("master", "Updating", &["0 of 3 done", "no node is taken unseen", "cannot read pods of etcd"]).await;
    let wanted = target(&stage.pools.get("master").await.unwrap());
    for node in masters {
        let node = stage.nodes.get(node).await.unwrap();
        assert_ne!(node.annotations().get(annotations::DESIRED_CONFIG), wanted.as_ref(), "{}", node.name_any());
    }
    stage.faults.mend("pods");
    stage.updated("master", 3).await;
}

#[tokio::test]
async fn a_pool_says_that_its_nodes_are_not_seen_any_more() {
    let stage = Stage::start().await;
    let _controllers = stage.control();
    stage.settled_pool("worker", &["a"]).await;
    let hold = |hold: Option<&str>| Patch::Merge(json!({"metadata": {"annotations": {annotations::HOLD: hold}}}));
    stage.nodes.patch("a", &PatchParams::default(), &hold(Some("true"))).await.unwrap();
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    stage.says("worker", "Updating", &["held: a"]).await;

    stage.faults.fail("nodes", 503);
    // The watch is believed for as long as a restart of the API takes, and a pool is planned when something changes.
    let mut times = 0;
    wait_until("the pool to say so", || {
        times += 1;
        let touched = Patch::Merge(json!({"metadata": {"labels": {"touched": times.to_string()}}}));
        let pools = stage.pools.clone();
        async move {
            let pool = pools.patch("worker", &PatchParams::default(), &touched).await.unwrap();
            let conditions = pool.status?.conditions;
            let says = |words: &str| conditions.iter().any(|one| one.message.contains(words));
            says("no node is taken unseen: cannot read nodes").then_some(())
        }
    })
    .await;
    stage.nodes.patch("a", &PatchParams::default(), &hold(None)).await.unwrap();
    stage.faults.mend("nodes");
    stage.updated("worker", 1).await;
}

#[tokio::test]
async fn a_pool_keeps_its_config_while_the_cluster_cannot_be_read() {
    let stage = Stage::start().await;
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "baseOSContainerImage": "example.org/os@sha256:1", "cloudProviderConfig": "", "clusterDNSIP": "10.96.0.10",
            "images": {}, "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Q0E=", "releaseImage": "", "rootCAData": "Q0E=",
        },
    });
    configs.create(&PostParams::default(), &serde_json::from_value(config).unwrap()).await.unwrap();
    let first = stage.control();
    stage.settled_pool("worker", &["a"]).await;
    first.abort();
    let _ = first.await;
    let before = target(&stage.pools.get("worker").await.unwrap());

    stage.faults.fail("controllerconfigs", 503);
    let _second = stage.control();
    stage.says("worker", "RenderDegraded", &["cannot read controllerconfigs"]).await;
    assert_eq!(target(&stage.pools.get("worker").await.unwrap()), before, "without its OS image it would be another");
    stage.faults.mend("controllerconfigs");
    wait_for(&stage.pools, "worker", "rendering to work again", |pool| {
        let conditions = pool.and_then(|pool| pool.status.as_ref()).map(|status| &status.conditions);
        conditions.into_iter().flatten().any(|one| one.type_ == "RenderDegraded" && one.status == "False")
    })
    .await;
    assert_eq!(target(&stage.pools.get("worker").await.unwrap()), before);
}
