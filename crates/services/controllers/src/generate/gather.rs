//! Reads what typed configuration is made from. What cannot be read is told apart from what is not there.

use std::sync::Arc;

use api::known::Unread;
use api::machineconfiguration::{ContainerRuntimeConfig, ControllerCertificate, ControllerConfigSpec};
use api::names;
use cluster::{Store, read};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::api::{Api, ObjectMeta};
use rollout::{Membership, NodeFacts, Pools};
use typed::inert::{BARE, Bare, Inert};
use typed::objects::{Given, Kubelets, Memory, Objects, PoolNode, Registries};
use typed::pinned;
use typed::runtime::main_file::Written;
use typed::templates::profile::NodeSigns;

use super::Generate;

/// The only type of secret that holds a docker config.
const DOCKER_CONFIG: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");

impl Generate {
    pub(super) fn objects(&self, now: Timestamp) -> Result<Objects, Unread> {
        let world = &self.context.world;
        let pools = all(&world.pools, "machineconfigpools", now)?;
        let members = Pools::from_objects(&pools);
        let nodes = world.nodes.fresh("nodes")?;
        world.configs.contact().fresh("machineconfigs", now)?;
        let mut machine_configs = world.configs.all();
        let main_files = machine_configs.iter().filter_map(|config| Written::find(config)).collect();
        machine_configs
            .retain(|config| typed::objects::is_generated_name(config.metadata.name.as_deref().unwrap_or_default()));
        let machine_configs: Vec<_> = machine_configs.iter().map(|config| (**config).clone()).collect();
        let kept = all(&world.typed.kept, "keptconfigs", now)?;
        Ok(Objects {
            now,
            version: self.context.settings.version.clone(),
            settings: one(&world.cluster_settings, "clustersettings", names::CLUSTER, now)?,
            templates: self.context.settings.templates.clone().map_or(Given::Profile, Given::Templates),
            controller_config: one(&world.controller_configs, "controllerconfigs", names::CONTROLLER_CONFIG, now)?,
            api_server: one(&world.typed.api_servers, "apiservers", names::CLUSTER, now)?,
            nodes: nodes.iter().map(|node| pool_node(node, &members)).collect(),
            memory: Memory::from_objects(&kept, &machine_configs),
            machine_configs,
            main_files,
            pools,
        })
    }

    pub(super) fn kubelets(&self, now: Timestamp) -> Result<Kubelets, Unread> {
        let stores = &self.context.world.typed;
        Ok(Kubelets {
            kubelet_configs: all(&stores.kubelet_configs, "kubeletconfigs", now)?,
            node: one(&stores.nodes, "nodes.config.openshift.io", names::CLUSTER, now)?,
            feature_gate: one(&stores.feature_gates, "featuregates", names::CLUSTER, now)?,
        })
    }

    pub(super) fn runtime_configs(&self, now: Timestamp) -> Result<Vec<ContainerRuntimeConfig>, Unread> {
        all(&self.context.world.typed.runtime_configs, "containerruntimeconfigs", now)
    }

    pub(super) fn registries(&self, now: Timestamp) -> Result<Registries, Unread> {
        let stores = &self.context.world.typed;
        Ok(Registries {
            image: one(&stores.images, "images.config.openshift.io", names::CLUSTER, now)?,
            content_policies: all(&stores.content_policies, "imagecontentsourcepolicies", now)?,
            digest_mirrors: all(&stores.digest_mirrors, "imagedigestmirrorsets", now)?,
            tag_mirrors: all(&stores.tag_mirrors, "imagetagmirrorsets", now)?,
            cluster_policies: all(&stores.cluster_policies, "clusterimagepolicies", now)?,
            policies: all(&stores.policies, "imagepolicies", now)?,
        })
    }

    /// Which images nodes shall hold.
    pub(super) fn pinned(&self, now: Timestamp) -> Result<pinned::Snapshot, Unread> {
        let world = &self.context.world;
        let pools = all(&world.pools, "machineconfigpools", now)?;
        let members = Pools::from_objects(&pools);
        let member = |node: &Arc<NodeFacts>| pinned::Member {
            node: node.name.clone(),
            pool: pool_of(node, &members),
            told: node.software.pinned.clone(),
        };
        let nodes = world.nodes.fresh("nodes")?.iter().map(member).collect();
        Ok(pinned::Snapshot { sets: all(&world.typed.pinned, "pinnedimagesets", now)?, nodes, pools })
    }

    /// What is there and does nothing. A kind that cannot be read is told nothing.
    pub(super) fn inert(&self, now: Timestamp) -> Result<Inert, Unread> {
        let world = &self.context.world;
        let mut bare = Vec::new();
        for ((kind, _), store) in BARE.into_iter().zip(&world.typed.bare) {
            bare.extend(all(store, kind, now)?.into_iter().map(|metadata| Bare::new(kind, metadata)));
        }
        let typed = &world.typed;
        let singles = [
            named("APIServer", &typed.api_servers, now)?,
            named("FeatureGate", &typed.feature_gates, now)?,
            named("Image", &typed.images, now)?,
            named("Node", &typed.nodes, now)?,
        ];
        Ok(Inert {
            bare,
            singles: singles.concat(),
            os_configs: all(&world.typed.os_configs, "machineosconfigs", now)?,
            os_builds: all(&world.typed.os_builds, "machineosbuilds", now)?,
            configuration: one(&world.machine_configurations, "machineconfigurations", names::CLUSTER, now)?,
        })
    }

    /// The docker config that the ControllerConfig names. One that is named and missing is an error: hosts would lose theirs.
    pub(super) async fn pull_secret(&self, objects: &Objects) -> Result<Option<Vec<u8>>, String> {
        let named = objects.controller_config.as_ref().and_then(|config| config.spec.pull_secret.as_ref());
        let Some(named) = named.filter(|_| objects.has_templates()) else { return Ok(None) };
        let (namespace, name) = (named.namespace.clone().unwrap_or_default(), named.name.clone().unwrap_or_default());
        let place = format!("Secret {namespace}/{name}, which ControllerConfig spec.pullSecret names,");
        let api: Api<Secret> = Api::namespaced(self.context.world.client.clone(), &namespace);
        let secret = read::get(&api, &name).await;
        let secret = secret.fresh("secrets", objects.now).map_err(|unread| unread.to_string())?;
        let secret = secret.into_inner().as_ref().ok_or_else(|| format!("{place} does not exist"))?;
        let (wanted, key) = DOCKER_CONFIG;
        let found = secret.type_.as_deref().unwrap_or_default();
        if found != wanted {
            return Err(format!("expected secret type {wanted} found {found} ({place} is of another type)"));
        }
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        let data = data.ok_or_else(|| format!("{place} has no key {key}"))?;
        Ok(Some(data.0.clone()))
    }
}

/// The certificates of a ControllerConfig's bundles, for its status.
pub(super) fn certificates(spec: &ControllerConfigSpec) -> Vec<ControllerCertificate> {
    let optional =
        |bundle: &Option<k8s_openapi::ByteString>| bundle.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    let mut bundles = vec![
        ("KubeAPIServerServingCAData".to_owned(), spec.kube_api_server_serving_ca_data.0.clone()),
        ("CloudProviderCAData".to_owned(), optional(&spec.cloud_provider_ca_data)),
        ("RootCAData".to_owned(), spec.root_ca_data.0.clone()),
        ("AdditionalTrustBundle".to_owned(), optional(&spec.additional_trust_bundle)),
    ];
    let registries = spec.image_registry_bundle_data.iter().chain(&spec.image_registry_bundle_user_data);
    bundles.extend(registries.map(|bundle| (bundle.file.clone(), bundle.data.0.clone())));
    let read = bundles.into_iter().flat_map(|(bundle_file, pem)| {
        // What is no certificate is told where it is read from; here it has no date to tell.
        let found = operate::certificates::read(&pem).unwrap_or_default();
        found.into_iter().map(move |certificate| ControllerCertificate {
            bundle_file: bundle_file.clone(),
            subject: certificate.subject,
            signer: certificate.issuer,
            not_before: Some(Time(certificate.not_before)),
            not_after: Some(Time(certificate.not_after)),
        })
    });
    read.collect()
}

fn pool_of(node: &NodeFacts, pools: &Pools) -> String {
    match pools.of(node) {
        Membership::Member { primary, .. } => primary,
        Membership::Unmanaged | Membership::Contested(_) => String::new(),
    }
}

fn pool_node(node: &NodeFacts, pools: &Pools) -> PoolNode {
    let pool = pool_of(node, pools);
    let software = &node.software;
    let annotations = software.is_kubeadm.then(|| "kubeadm.alpha.kubernetes.io/cri-socket".to_owned());
    let signs = NodeSigns {
        kubelet_version: software.kubelet.clone(),
        os_image: software.os_image.clone(),
        runtime_version: software.runtime.clone(),
        annotations: annotations.into_iter().collect(),
    };
    PoolNode { pool, signs }
}

/// Every object of a kind; none where the API does not have it.
fn all<T: Clone>(store: &Store<T>, what: &str, now: Timestamp) -> Result<Vec<T>, Unread> {
    let reading = store.reading();
    let objects = reading.fresh_or_none(what, now)?;
    Ok(objects.map(|objects| objects.iter().map(|object| (**object).clone()).collect()).unwrap_or_default())
}

/// The metadata of every object of a kind.
fn named<T: Resource>(
    kind: &'static str,
    store: &Store<T>,
    now: Timestamp,
) -> Result<Vec<(&'static str, ObjectMeta)>, Unread> {
    let reading = store.reading();
    let objects = reading.fresh_or_none(kind, now)?;
    let named = |objects: &Vec<Arc<T>>| objects.iter().map(|object| (kind, object.meta().clone())).collect();
    Ok(objects.map(|objects| named(&objects)).unwrap_or_default())
}

/// One object of a kind that a cluster may do without.
fn one<T: Clone>(store: &Store<T>, what: &str, name: &str, now: Timestamp) -> Result<Option<T>, Unread> {
    let reading = store.reading_of(&cluster::watch::Key::cluster(name));
    let object = reading.fresh_or_none(what, now)?;
    Ok(object.and_then(|object| object.as_ref().map(|object| (**object).clone())))
}
