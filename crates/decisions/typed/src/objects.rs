//! The objects of a cluster that typed configuration depends on, read into what each planner looks at.
//!
//! The controller hands in what it watches and `machinist plan` what it lists, so both get the same answers.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::config::{
    ApiServer, ClusterImagePolicy, FeatureGate, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, Node,
};
use api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerCertificate, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool,
    MachineConfigSpec,
};
use api::machinist::{ClusterSettings, KeptConfig};
use api::names::{POOL_ARBITER, POOL_MASTER, POOL_WORKER};
use api::operator::ImageContentSourcePolicy;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::defaults::{self, Rendered, Source};
use crate::kubelet::tls::{self, Tls};
use crate::plan::{Existing, Plan, Standing, note, remembered, standing};
use crate::pools::{name_of, template_role};
use crate::runtime::main_file::{self, MainFile, Written};
use crate::templates::profile::{Kubelet, NodeSigns, Profile, Runtime};
use crate::templates::{self, Templates};
use crate::{kubelet, registries, runtime};

/// What all planners depend on. Every list is complete.
#[derive(Clone)]
pub struct Objects {
    pub now: Timestamp,
    /// Version of the controller, which generated MachineConfigs are stamped with.
    pub version: String,
    /// ClusterSettings `cluster`.
    pub settings: Option<ClusterSettings>,
    pub templates: Given,
    /// ControllerConfig `machine-config-controller`.
    pub controller_config: Option<ControllerConfig>,
    /// APIServer `cluster`.
    pub api_server: Option<ApiServer>,
    pub pools: Vec<MachineConfigPool>,
    pub nodes: Vec<PoolNode>,
    /// MachineConfigs that write containerd's main file, whatever their name is.
    pub main_files: Vec<Written>,
    /// MachineConfigs with a name that a planner gives, see [`is_generated_name`]. Others are not looked at.
    pub machine_configs: Vec<MachineConfig>,
    pub memory: Memory,
}

debug_without_contents!(Objects { version, nodes });

/// Which templates hosts start from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Given {
    /// Those that come with the profile.
    #[default]
    Profile,
    /// Those that a user gives instead.
    Templates(Templates),
    /// Nobody knows here: what they have made in the cluster counts, and none are planned.
    Cluster,
}

/// A node and the pool it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolNode {
    /// Empty for a node that is in none.
    pub pool: String,
    pub signs: NodeSigns,
}

/// What was remembered of MachineConfigs that another controller made.
#[derive(Clone, Default, PartialEq)]
pub struct Memory {
    /// What each of them said when it was first seen.
    pub originals: BTreeMap<String, MachineConfigSpec>,
    /// What is remembered of MachineConfigs that are ours by now, or gone, and can be forgotten.
    pub outdated: Vec<String>,
}

debug_without_contents!(Memory { outdated });

impl Memory {
    /// What counts of that which was remembered. A MachineConfig that was created anew, or written by another version of
    /// its controller, is looked at anew: that is no edit.
    pub fn from_objects(kept: &[KeptConfig], machine_configs: &[MachineConfig]) -> Self {
        let existing = Existing::new(machine_configs);
        let mut memory = Self::default();
        for kept in kept {
            let name = kept.metadata.name.clone().unwrap_or_default();
            match existing.get(&name).filter(|live| standing(live) == Standing::Foreign) {
                None => memory.outdated.push(name),
                Some(live) => {
                    let now = remembered(live);
                    if (&now.uid, &now.version) == (&kept.spec.uid, &kept.spec.version) {
                        memory.originals.insert(name, kept.spec.original.clone());
                    }
                }
            }
        }
        memory
    }
}

/// What only the kubelet's planner depends on.
#[derive(Clone, Debug, Default)]
pub struct Kubelets {
    pub kubelet_configs: Vec<KubeletConfig>,
    /// Node `cluster` of `config.openshift.io`.
    pub node: Option<Node>,
    /// FeatureGate `cluster`.
    pub feature_gate: Option<FeatureGate>,
}

/// What only the planner of registries depends on.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// Image `cluster`.
    pub image: Option<Image>,
    pub content_policies: Vec<ImageContentSourcePolicy>,
    pub digest_mirrors: Vec<ImageDigestMirrorSet>,
    pub tag_mirrors: Vec<ImageTagMirrorSet>,
    pub cluster_policies: Vec<ClusterImagePolicy>,
    pub policies: Vec<ImagePolicy>,
}

/// Whether a planner of this crate gives MachineConfigs this name. A pool's name may be anything.
pub fn is_generated_name(name: &str) -> bool {
    let is_numbered = |number: &str| name.starts_with(number) && name.contains("-generated-");
    templates::plan::is_generated_name(name)
        || ["97-", "98-", "99-"].iter().any(|number| is_numbered(number))
        || is_older_name(name)
}

/// Early releases named MachineConfigs `99-<pool>-<uid>-kubelet`.
fn is_older_name(name: &str) -> bool {
    name.starts_with("99-") && (name.ends_with("-kubelet") || name.ends_with("-containerruntime"))
}

impl Objects {
    /// What kind of hosts these are: as given, or as found.
    pub fn profile(&self) -> Profile {
        let given = self.settings.as_ref().and_then(|settings| Profile::parse(settings.spec.profile.as_deref()?));
        given.unwrap_or_else(|| self.found_profile())
    }

    /// Templates that are in force say more than any node. Without them, hosts of OpenShift's kind are not taken for ours:
    /// that would change every one of them.
    fn found_profile(&self) -> Profile {
        let is_template = |config: &MachineConfig| {
            let name = config.metadata.name.as_deref().unwrap_or_default();
            templates::plan::is_generated_name(name) && matches!(standing(config), Standing::Ours | Standing::Foreign)
        };
        if self.machine_configs.iter().any(is_template) {
            return Profile::OpenShift;
        }
        let signs: Vec<NodeSigns> = self.nodes.iter().map(|node| node.signs.clone()).collect();
        match Profile::detect(&signs) {
            Profile::OpenShift => Profile::None,
            found => found,
        }
    }

    /// Whether templates decide what hosts start from, so that the pull secret has to be known.
    pub fn has_templates(&self) -> bool {
        match self.templates {
            Given::Cluster => matches!(self.profile().kubelet(), Kubelet::Whole),
            Given::Profile | Given::Templates(_) => {
                // A folder without templates is a mistake that the planner of templates tells.
                matches!(self.profile().kubelet(), Kubelet::Whole) || !self.used_templates().is_empty()
            }
        }
    }

    fn used_templates(&self) -> Templates {
        let profile = self.profile();
        match (&self.templates, profile.kubelet()) {
            (Given::Templates(given), Kubelet::Whole) => given.clone(),
            (Given::Profile | Given::Templates(_) | Given::Cluster, _) => Templates::builtin(profile),
        }
    }

    /// The runtimes of each pool's nodes, as far as they are known.
    fn runtimes(&self) -> BTreeMap<String, BTreeSet<Runtime>> {
        let mut runtimes: BTreeMap<String, BTreeSet<Runtime>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(runtime) = Runtime::parse(&node.signs.runtime_version) {
                runtimes.entry(node.pool.clone()).or_default().insert(runtime);
            }
        }
        runtimes
    }

    /// What is known of containerd's main file on the nodes of each pool.
    fn main_files(&self) -> BTreeMap<String, MainFile> {
        let mut used = self.runtimes().into_values().flatten().chain([self.default_runtime()]);
        if !used.any(|runtime| matches!(runtime, Runtime::Containerd { .. })) {
            return BTreeMap::new();
        }
        let templates = if self.has_templates() {
            self.of_roles(|role, source| self.file_or_none(source, role, main_file::PATH))
        } else {
            BTreeMap::new()
        };
        let settings = self.settings.as_ref().and_then(|settings| settings.spec.containerd.as_ref());
        let of_pool = |pool: &MachineConfigPool| {
            let template = templates.get(&template_role(pool)).and_then(|template| template.as_deref().ok());
            let template = template.filter(|text| !text.is_empty());
            (name_of(pool), MainFile::of(pool, &self.main_files, template, settings))
        };
        self.pools.iter().map(of_pool).collect()
    }

    /// The runtime of pools whose nodes do not tell, and of the templates: that of most nodes, of equally many the one whose
    /// unit the settings name. So a single node that differs changes nothing for the others.
    fn default_runtime(&self) -> Runtime {
        let named = match self.settings.as_ref().map(|settings| settings.spec.runtime_service()) {
            Some("containerd.service") => Runtime::Containerd { major: 2 },
            Some(_) | None => Runtime::Crio,
        };
        let most = |(runtime, count): &(Runtime, usize)| (*count, runtime.name() == named.name(), *runtime);
        self.runtime_counts().into_iter().max_by_key(most).map_or(named, |(runtime, _)| runtime)
    }

    /// How many nodes have each runtime. A node of no pool, such as one with Windows, gets no templates and has no say.
    fn runtime_counts(&self) -> BTreeMap<Runtime, usize> {
        let mut counts = BTreeMap::new();
        let pooled = self.nodes.iter().filter(|node| !node.pool.is_empty());
        for runtime in pooled.filter_map(|node| Runtime::parse(&node.signs.runtime_version)) {
            *counts.entry(runtime).or_default() += 1;
        }
        counts
    }

    /// What to say where nodes have several runtimes: templates are made for one of them.
    fn mixed_runtimes(&self) -> Option<String> {
        let counts = self.runtime_counts();
        let listed: Vec<_> = counts.iter().map(|(runtime, count)| format!("{runtime} on {count}")).collect();
        (counts.len() > 1).then(|| {
            format!(
                "nodes have several runtimes ({}), and templates are for {}",
                listed.join(", "),
                self.default_runtime()
            )
        })
    }

    /// The oldest minor version of each pool's kubelets. Versions that are not Kubernetes' own say nothing.
    fn minors(&self) -> BTreeMap<String, u64> {
        let mut minors: BTreeMap<String, u64> = BTreeMap::new();
        for node in &self.nodes {
            let Some(minor) = minor(&node.signs.kubelet_version) else { continue };
            let oldest = minors.entry(node.pool.clone()).or_insert(minor);
            *oldest = minor.min(*oldest);
        }
        minors
    }

    /// The minor versions of each pool's kubelets that exit on a gate they do not know.
    fn strict(&self) -> BTreeMap<String, BTreeSet<u64>> {
        let mut strict: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        // Workers of OpenShift may be plain RHEL with plain versions, and know its gates all the same.
        if self.nodes.iter().any(|node| is_openshifts(&node.signs)) {
            return strict;
        }
        for node in &self.nodes {
            if let Some(minor) = minor(&node.signs.kubelet_version) {
                strict.entry(node.pool.clone()).or_default().insert(minor);
            }
        }
        strict
    }

    fn adopt(&self) -> BTreeSet<String> {
        let asked = |config: &&MachineConfig| {
            config.metadata.annotations.as_ref().is_some_and(|notes| notes.contains_key(annotations::ADOPT))
        };
        self.machine_configs.iter().filter(asked).filter_map(|config| config.metadata.name.clone()).collect()
    }

    /// Fingerprints of what kept MachineConfigs were made from, as they are noted on them.
    fn inputs(&self) -> BTreeMap<String, String> {
        let noted = |config: &MachineConfig| {
            let inputs = note(config, annotations::KEPT_INPUTS)?;
            Some((config.metadata.name.clone()?, inputs.to_owned()))
        };
        self.machine_configs.iter().filter_map(noted).collect()
    }

    fn template_snapshot(
        &self,
        pull_secret: Result<Option<Vec<u8>>, String>,
        certificates: Vec<ControllerCertificate>,
    ) -> Option<templates::plan::Snapshot> {
        Some(templates::plan::Snapshot {
            now: self.now,
            version: self.version.clone(),
            profile: self.profile(),
            runtime: self.default_runtime(),
            mixed_runtimes: self.mixed_runtimes(),
            templates: self.used_templates(),
            controller_config: self.controller_config.clone()?,
            pull_secret,
            api_tls: self.api_tls(),
            certificates,
            machine_configs: self.machine_configs.clone(),
            originals: self.memory.originals.clone(),
            adopt: self.adopt(),
        })
    }

    /// What the APIServer asks of TLS servers. Of a profile whose ciphers no kubelet knows nothing can be applied, so hosts keep
    /// what they have.
    fn api_tls(&self) -> Option<Tls> {
        let profile = self.api_server.as_ref()?.spec.tls_security_profile.as_ref()?;
        if !tls::has_no_cipher(profile) {
            return Some(Tls::from_profile(Some(profile)));
        }
        let live = |role: &str| defaults::kubelet_base(&self.machine_configs, Source::Cluster, role).ok();
        [POOL_MASTER, POOL_WORKER].into_iter().find_map(live).map(|live| Tls::of_configuration(&live))
    }

    /// What templates make of each role, without the pull secret: no default of a kubelet or a runtime depends on it.
    fn rendered(&self) -> Result<BTreeMap<String, Rendered>, String> {
        let snapshot = self.template_snapshot(Ok(None), Vec::new());
        let snapshot = snapshot.ok_or_else(|| {
            "there is no ControllerConfig machine-config-controller; the operator makes it once the cluster's certificates are known"
                .to_owned()
        })?;
        templates::plan::render(&snapshot)
    }

    /// A file of every role's templates.
    fn of_roles<T>(&self, read: impl Fn(&str, Source<'_>) -> Result<T, String>) -> BTreeMap<String, Result<T, String>> {
        let roles = [POOL_MASTER, POOL_WORKER, POOL_ARBITER].into_iter();
        if self.templates == Given::Cluster {
            return roles.map(|role| (role.to_owned(), read(role, Source::Cluster))).collect();
        }
        let rendered = self.rendered();
        let of_role = |role: &str| {
            let read = match &rendered {
                Ok(rendered) => rendered.get(role).map(|rendered| read(role, Source::Templates(rendered)))?,
                Err(why) => Err(why.clone()),
            };
            Some((role.to_owned(), read))
        };
        roles.filter_map(of_role).collect()
    }

    /// What becomes of templates; nothing without a ControllerConfig.
    pub fn plan_templates(
        &self,
        pull_secret: Result<Option<Vec<u8>>, String>,
        certificates: Vec<ControllerCertificate>,
    ) -> Plan {
        if self.templates == Given::Cluster {
            return Plan::default();
        }
        let snapshot = self.template_snapshot(pull_secret, certificates);
        snapshot.map(|snapshot| templates::plan::plan(&snapshot)).unwrap_or_default()
    }

    /// What becomes of KubeletConfigs, feature gates and the Node config.
    pub fn plan_kubelets(&self, kubelets: &Kubelets) -> Plan {
        let profile = self.profile();
        let bases = match profile.kubelet() {
            Kubelet::Whole => self.of_roles(|role, source| defaults::kubelet_base(&self.machine_configs, source, role)),
            Kubelet::Dropin { .. } | Kubelet::Unknown => BTreeMap::new(),
        };
        kubelet::plan::plan(&kubelet::plan::Snapshot {
            now: self.now,
            version: self.version.clone(),
            profile,
            pools: self.pools.clone(),
            kubelet_configs: kubelets.kubelet_configs.clone(),
            machine_configs: self.machine_configs.clone(),
            bases,
            node: kubelets.node.clone(),
            feature_gate: kubelets.feature_gate.clone(),
            api_server: self.api_server.clone(),
            minors: self.minors(),
            strict: self.strict(),
            originals: self.memory.originals.clone(),
            inputs: self.inputs(),
            adopt: self.adopt(),
        })
    }

    /// What becomes of ContainerRuntimeConfigs.
    pub fn plan_runtimes(&self, runtime_configs: &[ContainerRuntimeConfig]) -> Plan {
        let storage = if self.has_templates() && !runtime_configs.is_empty() {
            // A set of templates need not say anything about storage; CRI-O's own defaults count then.
            self.of_roles(|role, source| self.file_or_none(source, role, runtime::STORAGE))
        } else {
            BTreeMap::new()
        };
        runtime::plan::plan(&runtime::plan::Snapshot {
            now: self.now,
            version: self.version.clone(),
            profile: self.profile(),
            pools: self.pools.clone(),
            runtime_configs: runtime_configs.to_vec(),
            machine_configs: self.machine_configs.clone(),
            runtimes: self.runtimes(),
            default_runtime: self.default_runtime(),
            main_files: self.main_files(),
            storage,
            stores: true,
            originals: self.memory.originals.clone(),
            adopt: self.adopt(),
        })
    }

    /// What becomes of the Image, mirror sets and image policies.
    pub fn plan_registries(&self, given: &Registries) -> Plan {
        let defaults = if self.has_templates() { self.registry_defaults() } else { BTreeMap::new() };
        let release_image = self.controller_config.as_ref().map(|config| config.spec.release_image.clone());
        registries::plan::plan(&registries::plan::Snapshot {
            now: self.now,
            version: self.version.clone(),
            profile: self.profile(),
            pools: self.pools.clone(),
            machine_configs: self.machine_configs.clone(),
            image: given.image.clone(),
            content_policies: given.content_policies.clone(),
            digest_mirrors: given.digest_mirrors.clone(),
            tag_mirrors: given.tag_mirrors.clone(),
            cluster_policies: given.cluster_policies.clone(),
            policies: given.policies.clone(),
            release_image: release_image.filter(|image| !image.is_empty()),
            defaults,
            runtimes: self.runtimes(),
            default_runtime: self.default_runtime(),
            main_files: self.main_files(),
            originals: self.memory.originals.clone(),
            inputs: self.inputs(),
            adopt: self.adopt(),
        })
    }

    /// The registries.conf and policy.json that templates make. A set of templates need not make them; what it makes has
    /// to be readable, because the cluster's own policy is made from it.
    fn registry_defaults(&self) -> BTreeMap<String, Result<(String, Value), String>> {
        self.of_roles(|role, source| {
            let registries = self.file_or_none(source, role, registries::REGISTRIES)?;
            let policy = match self.file_or_none(source, role, registries::POLICY)?.as_str() {
                "" => json!({"default": [{"type": "insecureAcceptAnything"}]}),
                text => serde_json::from_str(text)
                    .map_err(|error| format!("{} of role {role} is not JSON: {error}", registries::POLICY))?,
            };
            Ok((registries, policy))
        })
    }

    /// A file of a role's templates, empty where templates that work do not make it.
    fn file_or_none(&self, source: Source<'_>, role: &str, path: &str) -> Result<String, String> {
        let found = defaults::file(&self.machine_configs, source, role, path);
        found.or_else(|why| match source {
            Source::Templates(Err(_)) => Err(why),
            Source::Templates(Ok(_)) | Source::Cluster => Ok(String::new()),
        })
    }
}

/// The minor version of `v1.33.1+k3s1`.
fn minor(version: &str) -> Option<u64> {
    let mut parts = version.strip_prefix("v1.")?.split(|c: char| !c.is_ascii_digit());
    parts.next()?.parse().ok()
}

/// Whether a kubelet is one of OpenShift: by its host, because newer ones have plain versions, or by the hash of a commit
/// behind its version, as in `v1.27.16+03a907c`.
fn is_openshifts(node: &NodeSigns) -> bool {
    let build = node.kubelet_version.split_once('+').map(|(_, build)| build);
    let has_hash = build.is_some_and(|build| build.len() >= 7 && build.chars().all(|c| c.is_ascii_hexdigit()));
    has_hash || Profile::of_node(node) == Profile::OpenShift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_of_openshift_are_told_from_others() {
        let of = |version: &str| NodeSigns { kubelet_version: version.to_owned(), ..NodeSigns::default() };
        for version in ["v1.26.1+5b8d1a2", "v1.27.16+03a907c"] {
            assert!(is_openshifts(&of(version)), "{version}");
        }
        for version in ["v1.33.1", "v1.33.1+k3s1", "v1.33.1+rke2r1", "v1.30.0-eks-036c24b"] {
            assert!(!is_openshifts(&of(version)), "{version}");
        }
        let plain = NodeSigns {
            os_image: "Red Hat Enterprise Linux CoreOS 418.94".to_owned(),
            runtime_version: "cri-o://1.31.6".to_owned(),
            ..of("v1.31.6")
        };
        assert!(is_openshifts(&plain));
    }

    #[test]
    fn versions_of_kubelets_are_read_and_others_say_nothing() {
        assert_eq!(minor("v1.33.1+k3s1"), Some(33));
        assert_eq!(minor("v1.9.0"), Some(9));
        assert_eq!(minor("machinist-0.1.0"), None);
        assert_eq!(minor(""), None);
    }

    #[test]
    fn names_that_planners_give_are_told_from_those_of_users() {
        let generated = ["00-worker", "01-master-kubelet", "97-infra-generated-kubelet", "99-a-generated-registries"];
        for name in generated.into_iter().chain(["99-worker-generated-kubelet-3", "99-worker-1f-kubelet"]) {
            assert!(is_generated_name(name), "{name}");
        }
        for name in ["50-worker-kubelet", "99-worker-ssh", "00-infra", "rendered-worker-1"] {
            assert!(!is_generated_name(name), "{name}");
        }
    }
}
