//! What typed configuration among the manifests would generate, asked from the planners that the controller asks.
//!
//! Only fragments change here; what the templates make is taken as it is in the cluster, unless a manifest is among what
//! templates are filled with ([`changes_templates`]).

use api::config::{
    ApiServer, ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, Node,
};
use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig, MachineConfigPool};
use api::machinist::ClusterSettings;
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
use typed::plan::{Object, Plan, Update};
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

/// Whether what is generated depends on a manifest: it is generated from it, or it says what kind of hosts these are.
#[must_use]
pub fn has_part(manifest: &Manifest) -> bool {
    is_typed(manifest) || manifest.is::<ClusterSettings>()
}

/// Whether manifests change what templates make.
#[must_use]
pub fn changes_templates(cluster: &Cluster, manifests: &[Manifest]) -> bool {
    let fills = |manifest: &Manifest| matches!(manifest.kind.as_str(), "ControllerConfig" | "APIServer");
    let settings = manifests.iter().find(|it| it.is::<ClusterSettings>() && it.name == names::CLUSTER);
    let new = settings.and_then(|manifest| manifest.parse::<ClusterSettings>().ok());
    let changes_hosts = new.is_some_and(|new| {
        let present = named(cluster.settings.clone(), names::CLUSTER).map(|it| it.spec).unwrap_or_default();
        (new.spec.profile, new.spec.runtime_service) != (present.profile, present.runtime_service)
    });
    changes_hosts || manifests.iter().any(|manifest| fills(manifest) && is_typed(manifest))
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

    /// What the controller would do with the templates of the profile. Hosts that start from nothing lose what templates made.
    pub fn plans_with_templates(&mut self, pull_secret: Option<Vec<u8>>) -> Vec<Plan> {
        self.objects.templates = Given::Profile;
        let made = self.objects.plan_templates(Ok(pull_secret), Vec::new());
        std::iter::once(made).chain(self.plans()).collect()
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
        // A condition that is written becomes the last of the list.
        let last = conditions.last()?;
        let message = last["message"].as_str().filter(|message| !message.is_empty())?;
        let Object { kind, namespace, name } = &update.object;
        let name = namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
        match (last["type"].as_str()?, last["status"].as_str()?) {
            ("Failure" | "TemplateControllerFailing", "True") => {
                Some(format!("{kind} {name} would be refused: {message}"))
            }
            // Signature policies have this one condition for all that keeps them from being in force.
            ("Pending", _) => Some(format!("{kind} {name} would not be in force as it is: {message}")),
            _ => None,
        }
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

    /// A node as kubeadm makes it.
    fn node(name: &str, labels: serde_json::Value) -> k8s_openapi::api::core::v1::Node {
        let info = json!({"kubeletVersion": "v1.36.1", "containerRuntimeVersion": "containerd://2.1.0",
            "osImage": "Debian GNU/Linux 13"});
        let node = json!({"metadata": {"name": name, "labels": labels,
            "annotations": {"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock"}},
            "status": {"nodeInfo": info}});
        serde_json::from_value(node).unwrap()
    }

    /// A cluster of kubeadm that nobody has configured.
    fn plain() -> Cluster {
        let master = json!({"node-role.kubernetes.io/control-plane": ""});
        Cluster {
            nodes: vec![node("one", master), node("two", json!({})), node("three", json!({}))],
            ..Cluster::default()
        }
    }

    /// What the operator makes on this cluster, as far as a plan takes it.
    fn installation() -> Vec<Manifest> {
        let node = |label: Option<&str>| operate::NodeFacts {
            labels: label.into_iter().map(str::to_owned).collect(),
            runtime: "containerd://2.1.0".to_owned(),
            ..operate::NodeFacts::default()
        };
        let facts = operate::Facts {
            nodes: vec![node(Some("node-role.kubernetes.io/control-plane")), node(None), node(None)],
            api_ca: Some("the CA of the API".to_owned()),
            server_ca: Some("the CA of the config server".to_owned()),
            api_url: Some("https://api.example.org:6443".to_owned()),
            dns_address: Some("10.96.0.10".to_owned()),
            ..operate::Facts::default()
        };
        let objects = operate::found(&operate::Installation::default(), &facts);
        let texts: Vec<_> = objects.iter().map(|desired| desired.object.to_string()).collect();
        let manifests = manifest::parse("installation", &texts.join("\n---\n")).unwrap();
        let is_planned = |manifest: &Manifest| crate::Change::new(vec![manifest.clone()], Vec::new()).is_ok();
        manifests.into_iter().filter(is_planned).collect()
    }

    /// The plan of a change, with everything that is generated.
    fn planned(cluster: &Cluster, sources: Sources, manifests: &[Manifest]) -> crate::Proposal {
        let mut typed = Typed::over(cluster, sources, "v1".to_owned(), manifests).unwrap();
        let generated = match changes_templates(cluster, manifests) {
            true => typed.plans_with_templates(None),
            false => typed.plans(),
        };
        let change = crate::Change::new(manifests.to_vec(), Vec::new()).unwrap();
        let draft = crate::Draft::new(cluster, &change, &generated).unwrap();
        draft.plan(&crate::plan::Drains::default(), jiff::SignedDuration::from_secs(60)).unwrap()
    }

    /// The cluster after the installation.
    fn installed() -> Cluster {
        let mut cluster = plain();
        for manifest in installation() {
            match manifest.kind.as_str() {
                "MachineConfigPool" => cluster.pools.push(manifest.parse().unwrap()),
                "ClusterSettings" => cluster.settings.push(manifest.parse().unwrap()),
                "ControllerConfig" => cluster.controller_configs.push(manifest.parse().unwrap()),
                _ => {}
            }
        }
        cluster
    }

    #[test]
    fn an_installation_on_a_plain_cluster_moves_no_node() {
        let manifests = installation();
        let kinds: Vec<&str> = manifests.iter().map(|manifest| manifest.kind.as_str()).collect();
        for kind in ["MachineConfigPool", "ClusterSettings", "MachineConfiguration", "ControllerConfig"] {
            assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
        }
        let proposal = planned(&plain(), Sources::default(), &manifests);
        assert!(proposal.plan.is_empty(), "{:?}", proposal.plan);
        assert!(proposal.notes.is_empty(), "{:?}", proposal.notes);
        // So does a second look at the cluster as it is then.
        assert!(planned(&installed(), Sources::default(), &manifests).plan.is_empty());
    }

    fn settings(profile: &str) -> Vec<Manifest> {
        let text = format!(
            "apiVersion: machinist.dev/v1alpha1\nkind: ClusterSettings\nmetadata: {{name: cluster}}\nspec: {{profile: {profile}}}\n"
        );
        manifest::parse("a.yaml", &text).unwrap()
    }

    #[test]
    fn another_profile_is_planned_with_all_that_templates_make_of_it() {
        let proposal = planned(&installed(), Sources::default(), &settings("openshift"));
        let moved: Vec<_> = proposal.plan.pools.iter().map(|pool| (pool.pool.as_str(), pool.nodes.len())).collect();
        assert_eq!(moved, [("master", 1), ("worker", 2)], "{:?}", proposal.notes);
        // The same profile, given instead of found, changes nothing.
        assert!(planned(&installed(), Sources::default(), &settings("kubeadm")).plan.is_empty());
    }

    #[test]
    fn another_profile_moves_what_kubelet_configs_made() {
        let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
            "metadata": {"name": "pods", "uid": "u", "generation": 1},
            "spec": {"kubeletConfig": {"maxPods": 50}, "machineConfigPoolSelector": {"matchLabels":
                {"pools.operator.machineconfiguration.openshift.io/worker": ""}}}});
        let config: KubeletConfig = serde_json::from_value(config).unwrap();
        let sources = || Sources { kubelet_configs: vec![config.clone()], ..Sources::default() };
        let mut cluster = installed();
        let made = Typed::over(&cluster, sources(), "v1".to_owned(), &[]).unwrap().plans();
        cluster.configs = made.into_iter().flat_map(|plan| plan.apply).collect();
        assert_eq!(cluster.configs.len(), 1);
        let name = cluster.configs[0].name_any();
        let mut typed = Typed::over(&cluster, sources(), "v1".to_owned(), &settings("k3s")).unwrap();
        let plans = typed.plans_with_templates(None);
        let changed: Vec<_> = plans.iter().flat_map(|plan| &plan.apply).map(ResourceExt::name_any).collect();
        assert_eq!(changed, [name]);
    }

    #[test]
    fn a_signature_policy_that_would_not_be_in_force_is_told() {
        let text = "\
apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: bad}
spec: {scopes: ['https://quay.io'], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: a2V5}}}}
---
apiVersion: config.openshift.io/v1
kind: ImagePolicy
metadata: {name: bad, namespace: team}
spec: {scopes: ['https://quay.io'], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: a2V5}}}}
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: other}
spec: {}
";
        let proposal = planned(&installed(), Sources::default(), &manifest::parse("a.yaml", text).unwrap());
        let told = proposal.notes.join("\n");
        for word in [
            "ClusterImagePolicy bad would not be in force as it is: ",
            "ImagePolicy team/bad would not be in force as it is: ",
            "Image other: only the Image named cluster has an effect",
        ] {
            assert!(told.contains(word), "{word}: {told}");
        }
    }

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
