//! What typed configuration among the manifests would generate, asked from the planners that the controller asks.
//!
//! Only fragments change here; what the templates make is taken as it is in the cluster.

use api::config::{
    ApiServer, ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, Node,
};
use api::machineconfiguration::{ContainerRuntimeConfig, ControllerConfig, MachineConfig};
use api::machinist::ClusterSettings;
use api::names;
use api::operator::ImageContentSourcePolicy;
use explain::Member;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, Resource, ResourceExt};
use rollout::NodeFacts;
use serde::Serialize;
use serde::de::DeserializeOwned;
use typed::objects::{Given, Kubelets, Memory, Objects, PoolNode, Registries};
use typed::plan::{Plan, Update};
use typed::templates::profile::NodeSigns;

use super::proposal::{laid_over, manifest_of};
use crate::gather::{self, World};
use crate::manifests::Manifest;

/// Kinds that fragments are generated from, by group.
pub(super) const KINDS: [(&str, &str); 10] = [
    ("machineconfiguration.openshift.io", "KubeletConfig"),
    ("machineconfiguration.openshift.io", "ContainerRuntimeConfig"),
    ("config.openshift.io", "Image"),
    ("config.openshift.io", "ImageDigestMirrorSet"),
    ("config.openshift.io", "ImageTagMirrorSet"),
    ("config.openshift.io", "ClusterImagePolicy"),
    ("config.openshift.io", "ImagePolicy"),
    ("config.openshift.io", "Node"),
    ("config.openshift.io", "FeatureGate"),
    ("operator.openshift.io", "ImageContentSourcePolicy"),
];

pub(super) fn is_typed(manifest: &Manifest) -> bool {
    KINDS.contains(&(manifest.group(), manifest.kind.as_str()))
}

/// Everything that fragments are generated from.
pub(crate) struct Typed {
    pub(crate) objects: Objects,
    pub(crate) kubelets: Kubelets,
    pub(crate) registries: Registries,
    pub(crate) runtimes: Vec<ContainerRuntimeConfig>,
}

impl Typed {
    /// What the controller would do, without templates.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        vec![
            self.objects.plan_kubelets(&self.kubelets),
            self.objects.plan_runtimes(&self.runtimes),
            self.objects.plan_registries(&self.registries),
        ]
    }
}

/// What the controller would do about the cluster's objects with the manifests laid over them.
pub(super) async fn plan(
    client: &Client,
    world: &World,
    configs: &[MachineConfig],
    manifests: &[Manifest],
) -> anyhow::Result<Vec<Plan>> {
    Ok(gather(client, world, configs, manifests).await?.plans())
}

/// The cluster's objects with the manifests laid over them.
pub(crate) async fn gather(
    client: &Client,
    world: &World,
    configs: &[MachineConfig],
    manifests: &[Manifest],
) -> anyhow::Result<Typed> {
    let over = Over { client, manifests, now: world.now };
    let settings = over.list::<ClusterSettings>().await?.into_iter().find(|it| it.name_any() == names::CLUSTER);
    let controller_config = over.list::<ControllerConfig>().await?;
    let objects = Objects {
        now: world.now,
        version: controllers::Settings::default().version,
        settings,
        templates: Given::Cluster,
        controller_config: controller_config.into_iter().find(|it| it.name_any() == names::CONTROLLER_CONFIG),
        api_server: cluster(over.list::<ApiServer>().await?),
        pools: world.objects.pools.clone(),
        nodes: nodes(world),
        machine_configs: generated(configs),
        memory: Memory::default(),
    };
    let kubelets = Kubelets {
        kubelet_configs: over.list().await?,
        node: cluster(over.list::<Node>().await?),
        feature_gate: cluster(over.list::<FeatureGate>().await?),
    };
    let registries = Registries {
        image: cluster(over.list::<Image>().await?),
        content_policies: over.list::<ImageContentSourcePolicy>().await?,
        digest_mirrors: over.list::<ImageDigestMirrorSet>().await?,
        tag_mirrors: over.list::<ImageTagMirrorSet>().await?,
        cluster_policies: over.list::<ClusterImagePolicy>().await?,
        policies: over.list::<ImagePolicy>().await?,
    };
    Ok(Typed { objects, kubelets, registries, runtimes: over.list().await? })
}

/// What would be said about objects that would not come into force.
pub(crate) fn refusals(plans: &[Plan]) -> Vec<String> {
    let failed = |update: &Update| {
        let conditions = update.status.as_ref()?.get("conditions")?.as_array()?;
        let last = conditions.last().filter(|last| last["type"] == "Failure")?;
        let message = last["message"].as_str().unwrap_or_default();
        Some(format!("{} {} would be refused: {message}", update.object.kind, update.object.name))
    };
    let events = plans.iter().flat_map(|plan| &plan.events).filter(|event| event.is_warning);
    let told = events.map(|event| format!("{} {}: {}", event.about.kind, event.about.name, event.message));
    plans.iter().flat_map(|plan| &plan.updates).filter_map(failed).chain(told).collect()
}

fn cluster<K: Resource>(objects: Vec<K>) -> Option<K> {
    objects.into_iter().find(|object| object.meta().name.as_deref() == Some(names::CLUSTER))
}

fn generated(configs: &[MachineConfig]) -> Vec<MachineConfig> {
    let is_generated = |config: &&MachineConfig| typed::objects::is_generated_name(&config.name_any());
    configs.iter().filter(is_generated).cloned().collect()
}

fn nodes(world: &World) -> Vec<PoolNode> {
    let read = |node| {
        let facts = NodeFacts::from_object(node);
        let pool = match world.objects.members.get(&facts.name) {
            Some(Member::Pool(pool)) => pool.clone(),
            Some(_) | None => String::new(),
        };
        let kubeadm = facts.software.is_kubeadm.then(|| "kubeadm.alpha.kubernetes.io/cri-socket".to_owned());
        let signs = NodeSigns {
            kubelet_version: facts.software.kubelet,
            os_image: facts.software.os_image,
            runtime_version: facts.software.runtime,
            annotations: kubeadm.into_iter().collect(),
        };
        PoolNode { pool, signs }
    };
    world.objects.nodes.iter().map(read).collect()
}

/// The cluster's objects with the user's laid over them.
struct Over<'a> {
    client: &'a Client,
    manifests: &'a [Manifest],
    now: Timestamp,
}

impl Over<'_> {
    async fn list<K>(&self) -> anyhow::Result<Vec<K>>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let mut objects: Vec<K> = gather::list_if_installed(self.client).await?;
        let of_kind = |manifest: &&Manifest| manifest.kind == K::kind(&()) && manifest.group() == K::group(&());
        for manifest in self.manifests.iter().filter(of_kind) {
            let namespace = manifest.value.pointer("/metadata/namespace").and_then(|it| it.as_str());
            let same =
                |object: &&mut K| object.name_any() == manifest.name && object.meta().namespace.as_deref() == namespace;
            if let Some(present) = objects.iter_mut().find(same) {
                let mut value = manifest_of(present)?.value;
                let edited = laid_over(&value, &manifest.value);
                if edited["spec"] != value["spec"] {
                    let generation = present.meta().generation.unwrap_or_default();
                    value = edited;
                    value["metadata"]["generation"] = (generation + 1).into();
                    *present = Manifest { value, ..manifest.clone() }.parse()?;
                }
                continue;
            }
            let mut object: K = manifest.parse()?;
            object.meta_mut().creation_timestamp = Some(Time(self.now));
            object.meta_mut().generation = Some(1);
            objects.push(object);
        }
        Ok(objects)
    }
}
