//! Proof that kinds which are said to have an effect have one: an object of the kind changes what is generated, or a test that
//! shows the effect is named and exists.

#![allow(clippy::disallowed_methods, reason = "the tests that are named are looked up in this repository")]

use std::collections::BTreeMap;
use std::path::Path;

use api::machineconfiguration::{ControllerConfig, MachineConfigSpec};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use typed::objects::{Given, Kubelets, Memory, Objects, Registries};

use crate::templates::controller_config;
use crate::world::pool;

/// What shows that a kind has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// An object of it changes what the planners of this crate generate.
    Generated,
    /// A test of this name in this file.
    Test(&'static str, &'static str),
}

impl Proof {
    #[track_caller]
    pub(crate) fn check(self, kind: &str) {
        match self {
            Self::Generated => {
                let mut world = World::new();
                let before = world.generated();
                world.add(kind);
                assert_ne!(world.generated(), before, "an object of kind {kind} changes nothing that is generated");
            }
            Self::Test(path, name) => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
                let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
                assert!(text.contains(&format!("fn {name}(")), "{kind}: there is no test {name} in {path}");
            }
        }
    }
}

/// A cluster that is configured by templates, and what its objects make.
struct World {
    objects: Objects,
    kubelets: Kubelets,
    registries: Registries,
    runtimes: Vec<api::machineconfiguration::ContainerRuntimeConfig>,
}

fn read<T: DeserializeOwned>(group: &str, kind: &str, name: &str, spec: &Value) -> T {
    let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": "team", "uid": "u",
        "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

impl World {
    fn new() -> Self {
        let mut worker = pool("worker");
        worker.metadata.labels.get_or_insert_default().insert(api::labels::MCO_BUILT_IN.to_owned(), String::new());
        let settings = read("machinist.dev/v1alpha1", "ClusterSettings", "cluster", &json!({"profile": "openshift"}));
        let objects = Objects {
            now: Timestamp::UNIX_EPOCH,
            version: "v1".to_owned(),
            settings: Some(settings),
            templates: Given::Profile,
            controller_config: Some(ControllerConfig::new("machine-config-controller", controller_config())),
            api_server: None,
            pools: vec![worker],
            nodes: Vec::new(),
            machine_configs: Vec::new(),
            main_files: Vec::new(),
            memory: Memory::default(),
        };
        let (kubelets, registries) = (Kubelets::default(), Registries::default());
        Self { objects, kubelets, registries, runtimes: Vec::new() }
    }

    fn add(&mut self, kind: &str) {
        let config = "config.openshift.io/v1";
        let machine_config = "machineconfiguration.openshift.io/v1";
        let selector = json!({"matchLabels": {"pool": "worker"}});
        let mirrors = json!([{"source": "quay.io/a", "mirrors": ["mirror.local/a"]}]);
        let root = json!({"policyType": "PublicKey", "publicKey": {"keyData": "a2V5"}});
        let policy = json!({"scopes": ["quay.io/a"], "policy": {"rootOfTrust": root}});
        match kind {
            "KubeletConfig" => {
                let spec = json!({"machineConfigPoolSelector": selector, "kubeletConfig": {"maxPods": 7}});
                self.kubelets.kubelet_configs.push(read(machine_config, kind, "a", &spec));
            }
            "ContainerRuntimeConfig" => {
                let spec =
                    json!({"machineConfigPoolSelector": selector, "containerRuntimeConfig": {"pidsLimit": 2048}});
                self.runtimes.push(read(machine_config, kind, "a", &spec));
            }
            "ControllerConfig" => {
                let config = self.objects.controller_config.as_mut().unwrap();
                config.spec.cluster_dns_ip = "10.0.0.10".to_owned();
            }
            "ClusterSettings" => {
                let none = read("machinist.dev/v1alpha1", kind, "cluster", &json!({"profile": "none"}));
                self.objects.settings = Some(none);
            }
            "APIServer" => {
                let spec = json!({"tlsSecurityProfile": {"type": "Modern", "modern": {}}});
                self.objects.api_server = Some(read(config, kind, "cluster", &spec));
            }
            "Node" => {
                let spec = json!({"workerLatencyProfile": "LowUpdateSlowReaction"});
                self.kubelets.node = Some(read(config, kind, "cluster", &spec));
            }
            "FeatureGate" => {
                let spec = json!({"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["SomeGate"]}});
                self.kubelets.feature_gate = Some(read(config, kind, "cluster", &spec));
            }
            "Image" => {
                let spec = json!({"registrySources": {"blockedRegistries": ["bad.io"]}});
                self.registries.image = Some(read(config, kind, "cluster", &spec));
            }
            "ImageDigestMirrorSet" => {
                let set = read(config, kind, "a", &json!({"imageDigestMirrors": mirrors}));
                self.registries.digest_mirrors.push(set);
            }
            "ImageTagMirrorSet" => {
                self.registries.tag_mirrors.push(read(config, kind, "a", &json!({"imageTagMirrors": mirrors})));
            }
            "ImageContentSourcePolicy" => {
                let spec = json!({"repositoryDigestMirrors": mirrors});
                self.registries.content_policies.push(read("operator.openshift.io/v1alpha1", kind, "a", &spec));
            }
            "ClusterImagePolicy" => self.registries.cluster_policies.push(read(config, kind, "a", &policy)),
            "ImagePolicy" => self.registries.policies.push(read(config, kind, "a", &policy)),
            other => panic!("nothing is known of kind {other}: add an object of it here, or name a test"),
        }
    }

    /// Everything that is generated, by name.
    fn generated(&self) -> BTreeMap<String, MachineConfigSpec> {
        let plans = [
            self.objects.plan_templates(Ok(None), Vec::new()),
            self.objects.plan_kubelets(&self.kubelets),
            self.objects.plan_runtimes(&self.runtimes),
            self.objects.plan_registries(&self.registries),
        ];
        let made = plans.into_iter().flat_map(|plan| plan.apply);
        made.map(|config| (config.metadata.name.unwrap_or_default(), config.spec)).collect()
    }
}
