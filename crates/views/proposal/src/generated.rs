//! What typed configuration among the manifests would generate, asked from the planners that the controller asks.
//!
//! Only fragments change here; what the templates make is taken as it is in the cluster, unless a manifest is among what
//! templates are filled with ([`is_for_templates`]).

use api::config::{
    ApiServer, ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, Node,
};
use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig, MachineConfigPool};
use api::names;
use api::operator::ImageContentSourcePolicy;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, ResourceExt};
use rollout::{Membership, NodeFacts};
use serde::Serialize;
use serde::de::DeserializeOwned;
use typed::inert::{Inert, SINGLE};
use typed::objects::{Given, Kubelets, Memory, Objects, PoolNode, Registries};
use typed::plan::{Plan, Update};
use typed::runtime::main_file::Written;
use typed::templates::profile::NodeSigns;

use crate::cluster::Cluster;
use crate::manifest::{self, Manifest};
use crate::request::laid_over;

/// Kinds that fragments are generated from, by group.
pub(crate) const KINDS: [(&str, &str); 13] = [
    ("machineconfiguration.openshift.io", "KubeletConfig"),
    ("machineconfiguration.openshift.io", "ContainerRuntimeConfig"),
    ("machineconfiguration.openshift.io", "ControllerConfig"),
    ("machineconfiguration.openshift.io", "PinnedImageSet"),
    ("config.openshift.io", "APIServer"),
    ("config.openshift.io", "Image"),
    ("config.openshift.io", "ImageDigestMirrorSet"),
    ("config.openshift.io", "ImageTagMirrorSet"),
    ("config.openshift.io", "ClusterImagePolicy"),
    ("config.openshift.io", "ImagePolicy"),
    ("config.openshift.io", "Node"),
    ("config.openshift.io", "FeatureGate"),
    ("operator.openshift.io", "ImageContentSourcePolicy"),
];

/// Whether fragments are generated from a manifest.
#[must_use]
pub fn is_typed(manifest: &Manifest) -> bool {
    KINDS.contains(&(manifest.group(), manifest.kind.as_str()))
}

/// Whether a manifest changes what templates make.
#[must_use]
pub fn is_for_templates(manifest: &Manifest) -> bool {
    matches!(manifest.kind.as_str(), "ControllerConfig" | "APIServer") && is_typed(manifest)
}

/// What nodes would do about PinnedImageSets among the manifests. No config changes for them.
#[must_use]
pub fn pinned(cluster: &Cluster, manifests: &[Manifest]) -> Vec<String> {
    let members = cluster.members();
    let count = |pool: &str| {
        let is_in = |member: &&Membership| matches!(member, Membership::Member { primary, .. } if primary == pool);
        members.values().filter(is_in).count()
    };
    let tell = |manifest: &Manifest| {
        let images = manifest.value.pointer("/spec/pinnedImages").and_then(|images| images.as_array());
        let images = images.map_or(0, Vec::len);
        let is_named =
            |pool: &&MachineConfigPool| pool.spec.pinned_image_sets.iter().any(|named| named.name == manifest.name);
        let pools = cluster.pools.iter().filter(is_named).map(ResourceExt::name_any);
        let pools: Vec<_> = pools.map(|pool| format!("{} nodes of pool {pool}", count(&pool))).collect();
        match pools.is_empty() {
            true => format!("PinnedImageSet {}: {}", manifest.name, typed::pinned::UNUSED),
            false => format!(
                "PinnedImageSet {}: {} pull and pin its {images} images in the background; nothing is drained or rebooted",
                manifest.name,
                pools.join(" and ")
            ),
        }
    };
    manifests.iter().filter(|manifest| manifest.kind == "PinnedImageSet" && is_typed(manifest)).map(tell).collect()
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error("cannot write an object of the cluster as JSON")]
    Write(#[from] serde_json::Error),
}

/// Everything that fragments are generated from.
pub struct Typed {
    pub objects: Objects,
    pub kubelets: Kubelets,
    pub registries: Registries,
    pub runtimes: Vec<ContainerRuntimeConfig>,
    /// Kind and metadata of manifests of which only one name has an effect.
    pub singles: Vec<(&'static str, ObjectMeta)>,
}

/// What the cluster has of the kinds that only typed configuration needs.
#[derive(Default)]
pub struct Sources {
    pub api_servers: Vec<ApiServer>,
    pub kubelet_configs: Vec<KubeletConfig>,
    pub runtimes: Vec<ContainerRuntimeConfig>,
    pub nodes: Vec<Node>,
    pub feature_gates: Vec<FeatureGate>,
    pub images: Vec<Image>,
    pub content_policies: Vec<ImageContentSourcePolicy>,
    pub digest_mirrors: Vec<ImageDigestMirrorSet>,
    pub tag_mirrors: Vec<ImageTagMirrorSet>,
    pub cluster_policies: Vec<ClusterImagePolicy>,
    pub policies: Vec<ImagePolicy>,
}

impl Typed {
    /// The cluster's objects with the manifests laid over them. `version` is the controller's.
    ///
    /// # Errors
    /// When a manifest does not fit its kind.
    pub fn over(cluster: &Cluster, sources: Sources, version: String, manifests: &[Manifest]) -> Result<Self, Error> {
        let over = Over { manifests, now: cluster.now };
        let objects = Objects {
            now: cluster.now,
            version,
            settings: named(over.lay(cluster.settings.clone())?, names::CLUSTER),
            templates: Given::Cluster,
            controller_config: named(over.lay(cluster.controller_configs.clone())?, names::CONTROLLER_CONFIG),
            api_server: named(over.lay(sources.api_servers)?, names::CLUSTER),
            pools: cluster.pools.clone(),
            nodes: nodes(cluster),
            main_files: main_files(cluster, manifests),
            machine_configs: generated(&cluster.configs),
            memory: Memory::default(),
        };
        let kubelets = Kubelets {
            kubelet_configs: over.lay(sources.kubelet_configs)?,
            node: named(over.lay(sources.nodes)?, names::CLUSTER),
            feature_gate: named(over.lay(sources.feature_gates)?, names::CLUSTER),
        };
        let registries = Registries {
            image: named(over.lay(sources.images)?, names::CLUSTER),
            content_policies: over.lay(sources.content_policies)?,
            digest_mirrors: over.lay(sources.digest_mirrors)?,
            tag_mirrors: over.lay(sources.tag_mirrors)?,
            cluster_policies: over.lay(sources.cluster_policies)?,
            policies: over.lay(sources.policies)?,
        };
        let runtimes = over.lay(sources.runtimes)?;
        Ok(Self { objects, kubelets, registries, runtimes, singles: singles(manifests) })
    }

    /// What the controller would do, without templates.
    #[must_use]
    pub fn plans(&self) -> Vec<Plan> {
        vec![
            self.objects.plan_kubelets(&self.kubelets),
            self.objects.plan_runtimes(&self.runtimes),
            self.objects.plan_registries(&self.registries),
            Inert { singles: self.singles.clone(), ..Inert::default() }.plan(self.objects.now),
        ]
    }
}

/// What would be said about objects that would not come into force.
#[must_use]
pub fn refusals(plans: &[Plan]) -> Vec<String> {
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

fn singles(manifests: &[Manifest]) -> Vec<(&'static str, ObjectMeta)> {
    let single = |manifest: &Manifest| {
        let kind = SINGLE.into_iter().find(|kind| *kind == manifest.kind).filter(|_| is_typed(manifest))?;
        Some((kind, ObjectMeta { name: Some(manifest.name.clone()), ..ObjectMeta::default() }))
    };
    manifests.iter().filter_map(single).collect()
}

fn named<K: Resource>(objects: Vec<K>, name: &str) -> Option<K> {
    objects.into_iter().find(|object| object.meta().name.as_deref() == Some(name))
}

fn generated(configs: &[MachineConfig]) -> Vec<MachineConfig> {
    let is_generated = |config: &&MachineConfig| typed::objects::is_generated_name(&config.name_any());
    configs.iter().filter(is_generated).cloned().collect()
}

/// containerd's main file as MachineConfigs write it, those among the manifests in place of the cluster's.
fn main_files(cluster: &Cluster, manifests: &[Manifest]) -> Vec<Written> {
    let given: Vec<MachineConfig> =
        manifests.iter().filter(|it| it.is::<MachineConfig>()).filter_map(|it| it.parse().ok()).collect();
    let is_replaced = |config: &&MachineConfig| given.iter().any(|it| it.name_any() == config.name_any());
    let kept = cluster.configs.iter().filter(|config| !is_replaced(config));
    kept.chain(&given).filter_map(Written::find).collect()
}

fn nodes(cluster: &Cluster) -> Vec<PoolNode> {
    let mut members = cluster.members();
    let read = |node| {
        let facts = NodeFacts::from_object(node);
        let pool = match members.remove(&facts.name) {
            Some(Membership::Member { primary, .. }) => primary,
            Some(Membership::Contested(_) | Membership::Unmanaged) | None => String::new(),
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
    cluster.nodes.iter().map(read).collect()
}

/// The user's objects, to be laid over the cluster's.
struct Over<'a> {
    manifests: &'a [Manifest],
    now: Timestamp,
}

impl Over<'_> {
    fn lay<K>(&self, mut objects: Vec<K>) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned,
    {
        for manifest in self.manifests.iter().filter(|manifest| manifest.is::<K>()) {
            let namespace = manifest.value.pointer("/metadata/namespace").and_then(|it| it.as_str());
            let same =
                |object: &&mut K| object.name_any() == manifest.name && object.meta().namespace.as_deref() == namespace;
            if let Some(present) = objects.iter_mut().find(same) {
                let mut value = Manifest::of(present)?.value;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_of_images_says_which_nodes_pull_it_or_that_none_does() {
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "worker"}}, "pinnedImageSets": [{"name": "base"}]},
        });
        let node = json!({"metadata": {"name": "one", "labels": {"pool": "worker"}}});
        let cluster = Cluster {
            pools: vec![serde_json::from_value(pool).unwrap()],
            nodes: vec![serde_json::from_value(node).unwrap()],
            ..Cluster::default()
        };
        let set = |name: &str| {
            format!(
                "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {{name: {name}}}\nspec: {{pinnedImages: [{{name: a}}]}}\n"
            )
        };
        let text = format!("{}---\n{}", set("base"), set("other"));
        let told = pinned(&cluster, &manifest::parse("a.yaml", &text).unwrap());
        assert_eq!(
            told,
            [
                "PinnedImageSet base: 1 nodes of pool worker pull and pin its 1 images in the background; nothing is drained or rebooted".to_owned(),
                format!("PinnedImageSet other: {}", typed::pinned::UNUSED),
            ]
        );
    }
}
