//! Typed configuration on a real node: what a KubeletConfig and a mirror set do to files and services there.

use api::annotations;
use api::machineconfiguration::MachineConfigPool;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use testkit::objects::{node as node_object, pool};

use super::node::{Node, Setup};
use super::world::{World, get};
use crate::processes::controller;

/// What hosts start from: a template of a user's own, because those of the profile replace a whole distribution's files.
const TEMPLATE: &str = "---\npath: /etc/kubernetes/kubelet.conf\n---\napiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd\nkind: KubeletConfiguration\nmaxPods: 250\n";

const NAME: &str = "n91";

/// The cluster's facts. The service that default policies reload has to be one that Debian has and that can be reloaded.
fn facts() -> Value {
    let infra = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {},
        "status": {"platformStatus": {"type": "None"}, "controlPlaneTopology": "HighlyAvailable",
            "apiServerInternalURI": "https://api-int.lab.local:6443"}});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "machinist.dev/v1alpha1", "kind": "ClusterSettings", "metadata": {"name": "cluster"},
         "spec": {"profile": "openshift", "runtimeService": "ssh.service"}},
        {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
         "metadata": {"name": "machine-config-controller"}, "spec": {
            "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null, "cloudProviderConfig": "",
            "clusterDNSIP": "172.30.0.10", "dns": null, "images": {}, "infra": infra, "ipFamilies": "IPv4",
            "kubeAPIServerServingCAData": "Y2E=", "network": null, "proxy": null, "releaseImage": "", "rootCAData": "cm9vdA==",
         }},
    ]})
}

/// Waits until the node has left `old` and is done.
async fn moved(world: &World, old: &str) -> NodeObject {
    world
        .state(NAME, "Done", |node| {
            let current = get(node, annotations::CURRENT_CONFIG);
            !current.is_empty() && current != old && current == get(node, annotations::DESIRED_CONFIG)
        })
        .await
}

fn show(node: &Node, unit: &str, property: &str) -> String {
    node.run(&["systemctl", "show", "-P", property, unit]).trim().to_owned()
}

#[tokio::test]
async fn a_kubelet_config_restarts_the_kubelet_and_a_mirror_set_drains_nobody() {
    let Some(world) = World::new().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let templates = folder.path().join("templates");
    std::fs::create_dir_all(templates.join("common/01-kubelet")).unwrap();
    std::fs::write(templates.join("common/01-kubelet/kubelet-conf"), TEMPLATE).unwrap();
    let restart = json!([{"type": "Restart", "restart": {"serviceName": "kubelet.service"}}]);
    world.policies(&json!({"files": [{"path": "/etc/kubernetes/kubelet.conf", "actions": restart}]}));
    world.control_plane.apply(&facts().to_string());
    let _controller =
        controller(&world.control_plane, folder.path(), "controller", &["--templates", templates.to_str().unwrap()]);
    let mut worker = pool("worker");
    let built_in = api::labels::MCO_BUILT_IN.to_owned();
    let own = "pools.operator.machineconfiguration.openshift.io/worker".to_owned();
    worker.metadata.labels.get_or_insert_default().extend([(built_in, String::new()), (own, String::new())]);
    Api::<MachineConfigPool>::all(world.client.clone()).create(&PostParams::default(), &worker).await.unwrap();
    let mut object = node_object(NAME, &["worker"]);
    object.status = None;
    world.nodes().create(&PostParams::default(), &object).await.unwrap();
    let node = Node::boot(&world.control_plane, NAME, 91, &Setup { kubelet: true, ..Setup::default() });
    let first = moved(&world, "").await;
    assert!(node.read("/etc/kubernetes/kubelet.conf").unwrap().contains("maxPods: 250"));
    let boots = node.boots();

    let before = show(&node, "kubelet.service", "InvocationID");
    let selector = json!({"matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}});
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig", "metadata": {"name": "pods"},
        "spec": {"machineConfigPoolSelector": selector, "kubeletConfig": {"maxPods": 77}}});
    world.control_plane.apply(&config.to_string());
    let second = moved(&world, &get(&first, annotations::CURRENT_CONFIG)).await;
    assert!(node.read("/etc/kubernetes/kubelet.conf").unwrap().contains("maxPods: 77"));
    assert_ne!(show(&node, "kubelet.service", "InvocationID"), before, "the kubelet was restarted");
    assert_eq!(node.boots(), boots, "and the node was not");

    let before = (show(&node, "ssh.service", "InvocationID"), show(&node, "ssh.service", "ExecReload"));
    let set = json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "m"},
        "spec": {"imageDigestMirrors": [{"source": "quay.io/team", "mirrors": ["mirror.local/team"]}]}});
    world.control_plane.apply(&set.to_string());
    let third = moved(&world, &get(&second, annotations::CURRENT_CONFIG)).await;
    assert!(node.read("/etc/containers/registries.conf").unwrap().contains("location = \"mirror.local/team\""));
    assert_eq!(show(&node, "ssh.service", "InvocationID"), before.0, "the service of the settings was not restarted");
    assert_ne!(show(&node, "ssh.service", "ExecReload"), before.1, "it was reloaded");
    assert_eq!(node.boots(), boots);
    let drain = |node: &NodeObject| get(node, annotations::DESIRED_DRAIN);
    assert_eq!(drain(&third), drain(&second), "nobody asked for a drain");
}
