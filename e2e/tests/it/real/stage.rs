//! A cluster with real kubelets and an image of the present sources, and what every story does with it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use operate::programs::{LINKS, MACHINIST, MACHINISTD};
use packages::{Image, strip};
use testkit::binaries::binary;
use testkit::real_cluster::{Options, RealCluster};
use testkit::{wait_for, wait_for_within};

pub(super) const NAMESPACE: &str = api::names::NAMESPACE;

/// The image of our own binaries, as pods name it unless told otherwise.
pub(super) const IMAGE: &str = concat!("machinist:", env!("CARGO_PKG_VERSION"));

/// A rollout drains and reboots node after node; a machine that runs every test at once needs a while for each.
pub(super) const ROLLOUT: Duration = Duration::from_secs(300);

pub(super) struct Stage {
    pub(super) cluster: RealCluster,
    pub(super) client: Client,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// A cluster whose nodes have our image. `None` where this machine lacks a part.
    pub(super) async fn boot(options: Options) -> Option<Self> {
        if !testkit::needs::real_cluster() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        let cluster = RealCluster::start(&Options { images: vec![image], ..options }).await?;
        let client = cluster.client().await;
        Some(Self { cluster, client, _folder: folder })
    }

    pub(super) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(super) fn daemon_sets(&self) -> Api<DaemonSet> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Runs `machinist` as the administrator.
    pub(super) fn machinist(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary("machinist"));
        command.args(arguments).env("KUBECONFIG", self.cluster.kubeconfig()).output().unwrap()
    }

    pub(super) async fn write(&self, config: &MachineConfig) {
        let configs: Api<MachineConfig> = Api::all(self.client.clone());
        let parameters = PatchParams::apply("story").force();
        configs.patch(&config.name_any(), &parameters, &Patch::Apply(config)).await.unwrap();
    }

    /// The config that all nodes of the pool run, if they do.
    pub(super) async fn running(&self, pool: &str) -> String {
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        let pool = wait_for(&pools, pool, "the operator to make the pool", |pool| pool.is_some()).await.unwrap();
        pool.status.and_then(|status| status.configuration?.name).unwrap_or_default()
    }

    /// Waits until `count` nodes of the pool run another config than `old`, and returns its name.
    pub(super) async fn updated(&self, pool: &str, old: &str, count: i32) -> String {
        self.updated_from(pool, old, count, &[]).await
    }

    /// The same, to a config that these fragments are part of.
    pub(super) async fn updated_from(&self, pool: &str, old: &str, count: i32, sources: &[&str]) -> String {
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        let is_updated = |pool: Option<&MachineConfigPool>| {
            let Some(status) = pool.and_then(|pool| pool.status.as_ref()) else { return false };
            let name = status.configuration.as_ref().and_then(|configuration| configuration.name.as_deref());
            let mut conditions = status.conditions.iter();
            let of = status.configuration.as_ref().map(|configuration| format!("{:?}", configuration.source));
            let is_from = |source: &&str| of.as_ref().is_some_and(|of| of.contains(&format!("\"{source}\"")));
            sources.iter().all(is_from)
                && name.is_some_and(|name| name != old)
                && status.updated_machine_count == Some(count)
                && conditions.any(|condition| condition.type_ == "Updated" && condition.status == "True")
        };
        let found = wait_for_within(ROLLOUT, &pools, pool, "the pool to be updated", is_updated).await.unwrap();
        found.status.unwrap().configuration.unwrap().name.unwrap()
    }

    /// Waits until every pod of a Deployment is there and ready.
    pub(super) async fn deployed(&self, deployments: &Api<Deployment>, name: &str) {
        let is_ready = |deployment: Option<&Deployment>| {
            let wanted = deployment.and_then(|deployment| deployment.spec.as_ref()?.replicas);
            let status = deployment.and_then(|deployment| deployment.status.as_ref());
            let ready = status.and_then(|status| status.ready_replicas);
            wanted.is_some() && wanted == ready && status.and_then(|status| status.unavailable_replicas).is_none()
        };
        wait_for(deployments, name, "the Deployment to be ready", is_ready).await;
    }

    /// Waits until a DaemonSet has `count` pods and all are ready.
    pub(super) async fn on_nodes(&self, name: &str, count: i32) {
        let is_ready = |set: Option<&DaemonSet>| {
            let status = set.and_then(|set| set.status.as_ref());
            status.is_some_and(|status| (status.desired_number_scheduled, status.number_ready) == (count, count))
        };
        wait_for(&self.daemon_sets(), name, "its pods to be ready on every node", is_ready).await;
    }
}

/// An image of the binaries that this test was built with.
///
/// They are dynamic, so the image has the C library of this machine too. A static build would compile every dependency once
/// more for another target, which takes minutes; the release is built so, and its own tests are about that.
fn image(folder: &Path) -> Image {
    let mut image = Image::new(IMAGE);
    for name in [MACHINIST, MACHINISTD] {
        let stripped = folder.join(name);
        strip(&binary(name), &stripped).unwrap();
        image = image.program(&format!("/usr/bin/{name}"), &stripped).unwrap();
    }
    for link in LINKS {
        image = image.link(&format!("/usr/bin/{}", link.name), link.program);
    }
    image
}
