//! Typed configuration as real kubelets and a real container runtime take it, on hosts as kubeadm makes them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use packages::{Image, Layout, strip};
use serde_json::{Value, json};
use testkit::{binaries, wait_for};

use super::registry::{ADDRESS, Registry};
use super::stage::Stage;

/// A registry that nobody can reach: only its mirror has the image.
const SOURCE: &str = "registry.invalid";

/// No kubelet has this many by itself.
const PODS: u32 = 77;

/// What was declared, and the image that only the mirror has.
pub(super) struct Declared {
    image: Layout,
}

/// Declares a limit of pods and a mirror. They reach the nodes with whatever is written next.
pub(super) async fn declare(stage: &Stage) -> Declared {
    // The main file of containerd is the image's, so what it reads has to be said.
    let profile = json!({"spec": {"profile": "kubeadm", "containerd": {"readsHosts": true}}}).to_string();
    stage.cluster.kubectl(&["patch", "clustersettings", "cluster", "--type=merge", "-p", &profile]);
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig", "metadata": {"name": "pods"},
            "spec": {
                "machineConfigPoolSelector": {"matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}},
                "kubeletConfig": {"maxPods": PODS},
            },
        },
        {
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "mirror"},
            "spec": {"imageDigestMirrors": [{"source": SOURCE, "mirrors": [ADDRESS]}]},
        },
        {
            "apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster"},
            "spec": {"registrySources": {"insecureRegistries": [ADDRESS]}},
        },
    ]});
    stage.cluster.apply(&objects.to_string());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("in_pod");
    strip(&binaries::example("testkit", "in_pod"), &program).unwrap();
    let image = Image::new("mirrored:1").entrypoint(&["/usr/bin/in_pod", "pause"]);
    // A layer that no node has: the program lies elsewhere than in the images of testkit.
    let image = image.program("/usr/bin/in_pod", &program).unwrap().file("/mirrored", &program);
    Declared { image: image.layout().unwrap() }
}

impl Declared {
    pub(super) async fn is_in_force(&self, stage: &Stage) {
        for node in stage.cluster.nodes() {
            let path = format!("/api/v1/nodes/{}/proxy/configz", node.name());
            let answer: Value = serde_json::from_str(&stage.cluster.kubectl(&["get", "--raw", &path])).unwrap();
            assert_eq!(answer["kubeletconfig"]["maxPods"], PODS, "{}", node.name());
        }
        let registry = Registry::start(stage.cluster.node("worker-1"), self.image.clone());
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mirrored", "namespace": "default"},
            "spec": {
                "nodeName": "worker-1",
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "mirrored", "image": format!("{SOURCE}/team/app@{}", self.image.manifest)}],
            },
        });
        stage.cluster.apply(&pod.to_string());
        let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
        let is_running =
            |pod: Option<&Pod>| pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Running");
        wait_for(&pods, "mirrored", "the image to come from the mirror", is_running).await;
        let asked = registry.asked();
        let manifest = format!("/v2/team/app/manifests/{}", self.image.manifest);
        assert!(asked.iter().any(|request| request.contains(&manifest)), "{asked:?}");
    }
}
