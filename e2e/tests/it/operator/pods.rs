//! The daemon in the pod of its DaemonSet: with the pod's own account, held by admission to the node the pod runs on.

use api::annotations;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::json;
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{needs, wait_for, wait_until};

use super::stage::{NAMESPACE, Stage};

const ACCOUNT: &str = "machine-config-daemon";

/// Needs a real API server: only that binds tokens to pods.
pub(crate) async fn the_daemon_of_a_pod_looks_after_its_node_and_no_other(stage: &Stage) {
    if !needs::root() || !needs::program("unshare", "install Debian's util-linux") {
        return;
    }
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &testkit::objects::node("pod-node", &[])).await.unwrap();
    let token = token(stage, "pod-node").await;

    let kubeconfig = Kubeconfig::read_from(stage.control_plane.kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.auth_info = serde_json::from_value(json!({"token": token})).unwrap();
    let as_pod: Api<Node> = Api::all(kube::Client::try_from(config).unwrap());
    let mark = Patch::Merge(json!({"metadata": {"annotations": {annotations::STATE: "Done"}}}));
    wait_until("admission to know the policy", || async {
        as_pod.patch("worker-1", &PatchParams::default(), &mark).await.err()
    })
    .await;
    let refusal = as_pod.patch("worker-1", &PatchParams::default(), &mark).await.unwrap_err().to_string();
    assert!(refusal.contains("the daemon may only write the Node it runs on"), "{refusal}");

    let folder = tempfile::tempdir().unwrap();
    let _daemon = in_a_pod(stage, folder.path(), &token);
    wait_for(&nodes, "pod-node", "the daemon to bring the certificates", |node| {
        node.is_some_and(|node| node.annotations().contains_key(annotations::LAST_SYNCED_CONTROLLER_CONFIG))
    })
    .await;
    let ca = std::fs::read_to_string(folder.path().join("rootfs/etc/kubernetes/kubelet-ca.crt")).unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE"), "{ca}");
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

/// `machinistd` with a pod's files where a pod has them, which only its own mount namespace shows.
fn in_a_pod(stage: &Stage, folder: &std::path::Path, token: &str) -> Process {
    let files = folder.join("account");
    std::fs::create_dir(&files).unwrap();
    std::fs::create_dir(folder.join("rootfs")).unwrap();
    let kubeconfig = Kubeconfig::read_from(stage.control_plane.kubeconfig()).unwrap();
    let cluster = kubeconfig.clusters.into_iter().next().unwrap().cluster.unwrap();
    let ca = match (cluster.certificate_authority_data, cluster.certificate_authority) {
        (Some(data), _) => STANDARD.decode(data).unwrap(),
        (None, path) => std::fs::read(path.unwrap()).unwrap(),
    };
    for (name, contents) in [("token", token.as_bytes()), ("ca.crt", &ca), ("namespace", NAMESPACE.as_bytes())] {
        std::fs::write(files.join(name), contents).unwrap();
    }
    let script = format!(
        "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io && \
         ln -s {} /run/secrets/kubernetes.io/serviceaccount && \
         exec {} start --in-cluster --simulate --node pod-node --root {} --metrics-url 127.0.0.1:0",
        files.display(),
        binary("machinistd").display(),
        folder.join("rootfs").display()
    );
    let arguments = ["--mount", "sh", "-ec", &script].map(str::to_owned);
    let address = stage.control_plane.server().trim_start_matches("https://").to_owned();
    let (host, port) = address.rsplit_once(':').unwrap();
    let environment = [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port)]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
    let unshare = std::path::Path::new("unshare");
    Process::start(unshare, &arguments, &environment, &folder.join("daemon.log")).unwrap()
}
