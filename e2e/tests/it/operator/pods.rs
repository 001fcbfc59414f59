//! The daemon in the pod of its DaemonSet: with the kubelet's credential, which it finds below the host's root. The pod's own
//! account has no rights; where it is given those of daemons, admission holds it to the notes on the node the pod runs on.

use api::annotations;
use api::machineconfiguration::{ControllerConfig, MachineConfig};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{wait_for, wait_until};

use super::stage::{NAMESPACE, Stage};

const ACCOUNT: &str = "machine-config-daemon";

/// Needs a real API server: only that binds tokens to pods.
pub(crate) async fn the_daemon_of_a_pod_looks_after_its_node_and_no_other(stage: &Stage) {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &testkit::objects::node("pod-node", &[])).await.unwrap();
    let token = token(stage, "pod-node").await;

    let kubeconfig = Kubeconfig::read_from(stage.control_plane.kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.auth_info = serde_json::from_value(json!({"token": token})).unwrap();
    let as_pod: Api<Node> = Api::all(kube::Client::try_from(config).unwrap());
    let mark = Patch::Merge(json!({"metadata": {"annotations": {annotations::STATE: "Done"}}}));
    for node in ["pod-node", "worker-1"] {
        let refusal = as_pod.patch(node, &PatchParams::default(), &mark).await.unwrap_err().to_string();
        assert!(refusal.contains("cannot patch"), "{refusal}");
    }

    // The account is shared by the pods of all nodes, so it reads no pool's configs.
    let configs: Api<MachineConfig> = Api::all(as_pod.clone().into_client());
    let controller_configs: Api<ControllerConfig> = Api::all(as_pod.clone().into_client());
    let refusals = [configs.get("any").await.err(), controller_configs.get("any").await.err()];
    for refusal in refusals.map(|refusal| refusal.unwrap().to_string()) {
        assert!(refusal.contains("cannot get"), "{refusal}");
    }
    an_account_with_the_rights_of_daemons_is_held_to_its_own_node(stage, &as_pod).await;

    // The daemon itself finds the kubelet's credential below the host's root.
    let folder = tempfile::tempdir().unwrap();
    let kubelet = folder.path().join("rootfs/var/lib/kubelet");
    std::fs::create_dir_all(&kubelet).unwrap();
    std::fs::copy(stage.control_plane.node_kubeconfig("pod-node"), kubelet.join("kubeconfig")).unwrap();
    let root = format!("--root={}", folder.path().join("rootfs").display());
    let arguments = ["start", "--simulate", "--node=pod-node", &root, "--metrics-url=127.0.0.1:0"].map(str::to_owned);
    let log = folder.path().join("daemon.log");
    let _daemon = Process::start(&binary("machinistd"), &arguments, &[], &log).unwrap();
    wait_for(&nodes, "pod-node", "the daemon to bring the certificates", |node| {
        node.is_some_and(|node| node.annotations().contains_key(annotations::LAST_SYNCED_CONTROLLER_CONFIG))
    })
    .await;
    let ca = std::fs::read_to_string(folder.path().join("rootfs/etc/kubernetes/kubelet-ca.crt")).unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE"), "{ca}");
}

/// What `install --daemon-account` gives the account is not enough to move a node to another pool.
async fn an_account_with_the_rights_of_daemons_is_held_to_its_own_node(stage: &Stage, as_pod: &Api<Node>) {
    let [role, binding, ..] = &cluster::rights::manifests(ACCOUNT, NAMESPACE, operator::DAEMON_ROLES)[..] else {
        panic!("a role and its binding");
    };
    let (mut role, mut binding) = (role.clone(), binding.clone());
    for object in [&mut role, &mut binding] {
        object["metadata"]["name"] = json!("story-daemon-account");
    }
    binding["roleRef"]["name"] = json!("story-daemon-account");
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();

    let patch = |node: &'static str, patch: Value| async move {
        as_pod.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await
    };
    let note = || json!({"metadata": {"annotations": {"example.com/story": "told"}}});
    wait_until("the account to have its rights", || async { patch("pod-node", note()).await.ok() }).await;
    wait_until("admission to know the policy", || async { patch("worker-1", note()).await.err() }).await;
    for (node, change) in [
        ("worker-1", note()),
        ("pod-node", json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}})),
        ("pod-node", json!({"metadata": {"labels": {"env": "gpu"}}})),
        ("pod-node", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})),
    ] {
        let refusal = patch(node, change.clone()).await.unwrap_err().to_string();
        assert!(refusal.contains("the daemon may only write the Node it runs on"), "{change}: {refusal}");
    }
    bindings.delete("story-daemon-account", &DeleteParams::default()).await.unwrap();
}

/// A token as the kubelet would mount it into a pod of the DaemonSet on this node.
async fn token(stage: &Stage, node: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "machine-config-daemon-x"},
        "spec": {
            "nodeName": node, "serviceAccountName": ACCOUNT,
            "containers": [{"name": ACCOUNT, "image": "example.com/machinist"}],
        },
    });
    let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid()});
    let request = json!({"spec": {"audiences": [], "expirationSeconds": 3600, "boundObjectRef": bound}});
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let request = serde_json::from_value(request).unwrap();
    let answer = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token
}
