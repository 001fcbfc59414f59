//! Runbooks that need pods that run.

use super::stage::{IMAGE, Stage};
use crate::stories::Fleet;

/// R26 and R27 install by kustomize, so they come first on a cluster, and what they leave is an installation like any other.
pub(super) async fn plain_kubernetes_and_own_images(stage: &Stage) {
    // What somebody has built and pushed is here the same image under another name.
    for node in stage.cluster.nodes() {
        let (own, other) = (format!("docker.io/library/{IMAGE}"), "example.org/own:1");
        node.run(&["ctr", "-n", "k8s.io", "images", "tag", &own, other]);
    }
    let fleet = Fleet::of_kubelets(&stage.cluster.kubeconfig());
    // Following a page waits for processes, which the runtime's other tasks should not have to.
    tokio::task::block_in_place(|| fleet.follow("plain-kubernetes.md"));
}
