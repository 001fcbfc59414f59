//! The kinds that typed configuration is made from. A cluster may lack any of them: then it has none of that kind.

use api::config::{
    ApiServer, ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, Node,
};
use api::machineconfiguration::{
    ContainerRuntimeConfig, KubeletConfig, MachineOSBuild, MachineOSConfig, PinnedImageSet,
};
use api::machinist::KeptConfig;
use api::operator::ImageContentSourcePolicy;
use cluster::watch::State;
use cluster::{Change, Store, Watch};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use ::typed::inert::BARE;

use super::slim;

#[derive(Clone)]
pub(crate) struct TypedStores {
    pub(crate) kubelet_configs: Store<KubeletConfig>,
    pub(crate) runtime_configs: Store<ContainerRuntimeConfig>,
    pub(crate) nodes: Store<Node>,
    pub(crate) feature_gates: Store<FeatureGate>,
    pub(crate) api_servers: Store<ApiServer>,
    pub(crate) images: Store<Image>,
    pub(crate) content_policies: Store<ImageContentSourcePolicy>,
    pub(crate) digest_mirrors: Store<ImageDigestMirrorSet>,
    pub(crate) tag_mirrors: Store<ImageTagMirrorSet>,
    pub(crate) cluster_policies: Store<ClusterImagePolicy>,
    pub(crate) policies: Store<ImagePolicy>,
    pub(crate) os_configs: Store<MachineOSConfig>,
    pub(crate) os_builds: Store<MachineOSBuild>,
    pub(crate) kept: Store<KeptConfig>,
    pub(crate) pinned: Store<PinnedImageSet>,
    /// The kinds of [`BARE`], in that order.
    pub(crate) bare: [Store<ObjectMeta>; BARE.len()],
}

impl TypedStores {
    /// Starts every watch in `tasks`; each change rings.
    pub(super) fn start(client: &Client, tasks: &mut JoinSet<()>, bell: &UnboundedSender<()>) -> Self {
        Self {
            kubelet_configs: start(client, tasks, bell),
            runtime_configs: start(client, tasks, bell),
            nodes: start(client, tasks, bell),
            feature_gates: start(client, tasks, bell),
            api_servers: start(client, tasks, bell),
            images: start(client, tasks, bell),
            content_policies: start(client, tasks, bell),
            digest_mirrors: start(client, tasks, bell),
            tag_mirrors: start(client, tasks, bell),
            cluster_policies: start(client, tasks, bell),
            policies: start(client, tasks, bell),
            os_configs: start(client, tasks, bell),
            os_builds: start(client, tasks, bell),
            kept: start(client, tasks, bell),
            pinned: start(client, tasks, bell),
            bare: BARE.map(|(kind, _)| start_bare(client, kind, tasks, bell)),
        }
    }

    /// Returns once every kind was listed or is known to be missing.
    pub(super) async fn settled(&self) {
        self.kubelet_configs.settled().await;
        self.runtime_configs.settled().await;
        self.nodes.settled().await;
        self.feature_gates.settled().await;
        self.api_servers.settled().await;
        self.images.settled().await;
        self.content_policies.settled().await;
        self.digest_mirrors.settled().await;
        self.tag_mirrors.settled().await;
        self.cluster_policies.settled().await;
        self.policies.settled().await;
        self.os_configs.settled().await;
        self.os_builds.settled().await;
        self.kept.settled().await;
        self.pinned.settled().await;
        for bare in &self.bare {
            bare.settled().await;
        }
    }

    /// The objects of one of the kinds of [`BARE`].
    pub(crate) fn bare(&self, kind: &str) -> Option<&Store<ObjectMeta>> {
        BARE.iter().position(|(name, _)| *name == kind).map(|place| &self.bare[place])
    }

    /// How the watches are doing. Kinds of `config.openshift.io` that are not installed are no trouble.
    pub(super) fn states(&self) -> Vec<(&'static str, State)> {
        let optional = [
            ("nodes.config.openshift.io", self.nodes.state()),
            ("featuregates", self.feature_gates.state()),
            ("apiservers", self.api_servers.state()),
            ("images.config.openshift.io", self.images.state()),
            ("imagecontentsourcepolicies", self.content_policies.state()),
            ("imagedigestmirrorsets", self.digest_mirrors.state()),
            ("imagetagmirrorsets", self.tag_mirrors.state()),
            ("clusterimagepolicies", self.cluster_policies.state()),
            ("imagepolicies", self.policies.state()),
            ("machineosconfigs", self.os_configs.state()),
            ("machineosbuilds", self.os_builds.state()),
            ("keptconfigs", self.kept.state()),
            ("pinnedimagesets", self.pinned.state()),
        ];
        let mut states = vec![
            ("kubeletconfigs", self.kubelet_configs.state()),
            ("containerruntimeconfigs", self.runtime_configs.state()),
        ];
        let bare = BARE.iter().zip(&self.bare).map(|((kind, _), store)| (*kind, store.state()));
        states.extend(optional.into_iter().chain(bare).filter(|(_, state)| *state != State::NotInstalled));
        states
    }
}

fn start<K>(client: &Client, tasks: &mut JoinSet<()>, bell: &UnboundedSender<()>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + PartialEq + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let mut watch: Watch<K> = Watch::default();
    let store = watch.store();
    ring(watch.subscribe(), tasks, bell, |_| true);
    let config = watcher::Config::default().any_semantic().page_size(500);
    tasks.spawn(watch.run(Api::all(client.clone()), config, slim::<K>));
    store
}

/// Watches a kind whose objects have no conditions. Only their metadata is kept.
fn start_bare(client: &Client, kind: &str, tasks: &mut JoinSet<()>, bell: &UnboundedSender<()>) -> Store<ObjectMeta> {
    let mut watch: Watch<ObjectMeta> = Watch::default();
    let store = watch.store();
    ring(watch.subscribe(), tasks, bell, |_| true);
    let config = watcher::Config::default().any_semantic().page_size(500);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &bare_resource(kind));
    tasks.spawn(watch.run(api, config, |object: DynamicObject| ObjectMeta { managed_fields: None, ..object.metadata }));
    store
}

/// Where the objects of one of the kinds of [`BARE`] are.
pub(crate) fn bare_resource(kind: &str) -> ApiResource {
    let (group, version) = (api::cluster::GROUP, "v1alpha1");
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}

/// Rings for every change that matters.
pub(super) fn ring<T: Send + Sync + 'static>(
    mut changes: UnboundedReceiver<Change<T>>,
    tasks: &mut JoinSet<()>,
    bell: &UnboundedSender<()>,
    matters: impl Fn(&Change<T>) -> bool + Send + 'static,
) {
    let bell = bell.clone();
    tasks.spawn(async move {
        while let Some(change) = changes.recv().await {
            // Nobody listens once the process ends.
            if matters(&change) && bell.send(()).is_err() {
                return;
            }
        }
    });
}
