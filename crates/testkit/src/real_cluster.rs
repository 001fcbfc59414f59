//! A cluster with real kubelets on one machine: pods run, images are unpacked, nodes are drained and reboot.
//!
//! The control plane runs as processes in a network namespace, and each node is a systemd container with containerd,
//! kubelet and kube-proxy. Images are made by [`Image`] and imported into every node; there is no registry. All addresses are
//! in namespaces of the cluster's own, so clusters of several clones run beside each other.
//! ```no_run
//! # use testkit::real_cluster::{Options, RealCluster};
//! # async fn story() {
//! let Some(cluster) = RealCluster::start(&Options::default()).await else { return };
//! println!("{}", cluster.kubectl(&["get", "nodes"]));
//! # }
//! ```

mod cgroups;
mod claim;
mod control_plane;
mod furniture;
mod network;
mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use containers::Base;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::{binaries, needs};
use claim::Claim;
use control_plane::{ControlPlane, Files};
use furniture::Furniture;
use network::Network;
use node::Common;
use packages::{Image, strip};
use referee::{cache, kubectl, wait_for_all};

pub(crate) use cgroups::obstacle;
pub use node::Node;

/// The image of test workloads: `in_pod` with its verbs `pause` and `serve PORT`.
pub const WORKLOAD: &str = "machinist.test/in-pod:1";

/// What a cluster consists of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes `control-1`, …: 0 for a managed control plane, of which the cluster sees no node.
    pub control_plane_nodes: u8,
    /// Nodes `worker-1`, …
    pub workers: u8,
    /// Images on every node, beside those of testkit.
    pub images: Vec<Image>,
}

impl Default for Options {
    fn default() -> Self {
        Self { control_plane_nodes: 1, workers: 2, images: Vec::new() }
    }
}

/// A running cluster. Dropping it ends its processes and removes all that it took of the machine.
pub struct RealCluster {
    nodes: Vec<Node>,
    control_plane: ControlPlane,
    // Last: it removes what the others stood on.
    _claim: Claim,
}

impl RealCluster {
    /// Boots a cluster and waits until all its nodes are ready.
    ///
    /// `None` when this machine lacks a part; the test has then been recorded by [`needs`] and returns.
    ///
    /// # Panics
    /// When the parts are there and it does not start.
    pub async fn start(options: &Options) -> Option<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        if !needs::real_cluster() {
            return None;
        }
        let cluster = Self::boot(options).await;
        Some(cluster.unwrap_or_else(|error| panic!("the cluster does not start: {error:#}")))
    }

    async fn boot(options: &Options) -> Result<Self> {
        let Options { control_plane_nodes, workers, images } = options.clone();
        ensure!(control_plane_nodes + workers <= network::MOST_NODES, "at most {} nodes", network::MOST_NODES);
        let (claim, parts) = tokio::task::spawn_blocking(move || {
            let parts = Parts::gather()?;
            let claim = Claim::take()?;
            write_images(&claim.folder().join("images"), &images)?;
            anyhow::Ok((claim, parts))
        })
        .await??;

        let start = Instant::now();
        let network = Network::create(claim.id())?;
        let files = Files::create(claim.quick_folder())?;
        let nodes = {
            let images = claim.folder().join("images");
            let common = Common {
                claim: &claim,
                network: &network,
                files: &files,
                base: &parts.base,
                programs: &parts.programs,
                images: &images,
            };
            boot_nodes(&common, control_plane_nodes, workers)?
        };
        let control_plane = ControlPlane::start(files, &network).await?;
        let answers = start.elapsed();
        let cluster = Self { nodes, control_plane, _claim: claim };
        cluster.joined(usize::from(control_plane_nodes)).await?;
        println!(
            "testkit: a cluster of {} nodes is up in {:.1} s, its API after {:.1} s",
            cluster.nodes.len(),
            start.elapsed().as_secs_f64(),
            answers.as_secs_f64()
        );
        Ok(cluster)
    }

    /// The administrator's kubeconfig, for programs on this machine.
    pub fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig()
    }

    /// A new client of the administrator. Each belongs to the runtime that asks for it.
    pub async fn client(&self) -> Client {
        referee::control_plane::client(&self.kubeconfig()).await
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its name.
    #[track_caller]
    pub fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name() == name).unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// Runs kubectl as the administrator; it has to succeed.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl::must(&self.kubeconfig(), arguments, None)
    }

    /// Runs kubectl with `input` on its standard input and returns whatever came of it.
    pub fn try_kubectl(&self, arguments: &[&str], input: Option<&str>) -> Output {
        kubectl::run(&self.kubeconfig(), arguments, input, &[])
    }

    /// `kubectl apply --server-side -f -` of a manifest.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        kubectl::must(&self.kubeconfig(), &["apply", "--server-side", "-f", "-"], Some(manifest))
    }

    /// Waits until every node is ready, and gives those of the control plane their role: a kubelet may not do that itself.
    async fn joined(&self, control_plane_nodes: usize) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client().await);
        let (count, known) = (self.nodes.len(), |objects: &[NodeObject]| objects.len());
        wait_for_all(&nodes, "every kubelet to register its node", |objects| known(objects) == count).await;
        for node in &self.nodes[..control_plane_nodes] {
            let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
            nodes.patch(node.name(), &PatchParams::default(), &Patch::Merge(role)).await?;
        }
        wait_for_all(&nodes, "every node to be ready", |objects| objects.iter().all(is_ready)).await;
        Ok(())
    }

    /// What people look at first when something is wrong.
    fn report(&self) -> String {
        let show = |arguments: &[&str]| {
            let output = self.try_kubectl(arguments, None);
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        let mut text = show(&["get", "nodes", "-o", "wide"]);
        text += &show(&["get", "pods", "-A", "-o", "wide"]);
        text += &show(&["get", "events", "-A", "--sort-by=.lastTimestamp"]);
        // Labelled by what each process is, so that this is all of ours and nobody else's.
        text += &show(&["logs", "-n", api::names::NAMESPACE, "-l", api::labels::K8S_APP, "--prefix", "--tail=20"]);
        text += &format!("--- kube-apiserver\n{}\n", self.control_plane.log());
        for node in &self.nodes {
            text += &format!("--- {}: kubelet\n{}\n", node.name(), node.journal("kubelet", 15));
        }
        text
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.report());
        }
    }
}

/// Whether a node says that it can run pods.
pub fn is_ready(node: &NodeObject) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What takes minutes to make and is kept in the user's cache folder.
struct Parts {
    base: PathBuf,
    programs: PathBuf,
}

impl Parts {
    fn gather() -> Result<Self> {
        cache::control_plane_programs()?;
        let base = Base::named("kubernetes-node-base", furniture::PACKAGES, &furniture::PACKAGED);
        Ok(Self { base: base.make()?, programs: cache::node_programs()? })
    }
}

/// Writes the archives that nodes import at their first boot.
fn write_images(folder: &Path, images: &[Image]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let program = folder.with_file_name("in_pod");
    strip(&binaries::example("testkit", "in_pod"), &program)?;
    let own =
        |name: &str| Image::new(name).entrypoint(&["/usr/bin/in_pod", "pause"]).program("/usr/bin/in_pod", &program);
    let images = [own(furniture::PAUSE)?, own(WORKLOAD)?].into_iter().chain(images.iter().cloned());
    for (number, image) in images.enumerate() {
        image.write(&folder.join(format!("{number}.tar")))?;
    }
    Ok(())
}

fn boot_nodes(common: &Common<'_>, control_plane_nodes: u8, workers: u8) -> Result<Vec<Node>> {
    let control_plane = (1..=control_plane_nodes).map(|index| (format!("control-{index}"), true));
    let workers = (1..=workers).map(|index| (format!("worker-{index}"), false));
    let mut nodes = Vec::new();
    for (number, (name, is_control_plane)) in (1..).zip(control_plane.chain(workers)) {
        nodes.push(Node::boot(common, &Furniture { name: &name, number, is_control_plane })?);
    }
    Ok(nodes)
}
