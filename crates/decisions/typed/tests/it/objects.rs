//! All planners on the objects of one cluster: what one of them cannot read, no other takes for missing.

use api::config::Image;
use api::machineconfiguration::{ContainerRuntimeConfig, ControllerConfig, MachineConfig, MachineConfigSpec};
use api::machinist::ContainerdSettings;
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use typed::objects::{Given, Kubelets, Memory, Objects, PoolNode, Registries};
use typed::plan::Plan;
use typed::templates::profile::NodeSigns;
use typed::templates::{Template, Templates};

use crate::registries::image;
use crate::templates::controller_config;
use crate::world::{feature_gate, pool, readable};

struct Cluster {
    objects: Objects,
    registries: Registries,
    runtime_configs: Vec<ContainerRuntimeConfig>,
}

impl Cluster {
    /// One that is configured by templates, with a blocked registry and a size of storage.
    fn new() -> Self {
        let mut worker = pool("worker");
        worker.metadata.labels.get_or_insert_default().insert(api::labels::MCO_BUILT_IN.to_owned(), String::new());
        let settings = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "ClusterSettings",
            "metadata": {"name": "cluster"}, "spec": {"profile": "openshift"}});
        let sized = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ContainerRuntimeConfig",
            "metadata": {"name": "sized", "uid": "u", "generation": 1},
            "spec": {"containerRuntimeConfig": {"overlaySize": "8G"},
                "machineConfigPoolSelector": {"matchLabels": {"pool": "worker"}}}});
        let objects = Objects {
            now: Timestamp::UNIX_EPOCH,
            version: "v1".to_owned(),
            settings: serde_json::from_value(settings).unwrap(),
            templates: Given::Profile,
            controller_config: Some(ControllerConfig::new("machine-config-controller", controller_config())),
            api_server: None,
            pools: vec![worker],
            nodes: Vec::new(),
            machine_configs: Vec::new(),
            main_files: Vec::new(),
            memory: Memory::default(),
        };
        let blocked: Image = image(&json!({"blockedRegistries": ["bad.io"]}));
        let registries = Registries { image: Some(blocked), ..Registries::default() };
        let mut cluster = Self { objects, registries, runtime_configs: vec![serde_json::from_value(sized).unwrap()] };
        cluster.step();
        cluster
    }

    fn step(&mut self) {
        for plan in [
            self.objects.plan_templates(Ok(None), Vec::new()),
            self.objects.plan_runtimes(&self.runtime_configs),
            self.objects.plan_registries(&self.registries),
        ] {
            self.carry_out(plan);
        }
    }

    fn carry_out(&mut self, plan: Plan) {
        let configs = &mut self.objects.machine_configs;
        for config in plan.apply {
            readable(&config);
            configs.retain(|live| live.metadata.name != config.metadata.name);
            configs.push(config);
        }
        configs.retain(|live| !plan.delete.contains(live.metadata.name.as_ref().unwrap()));
    }

    fn specs(&self) -> BTreeMap<String, MachineConfigSpec> {
        let named = |config: &MachineConfig| (config.metadata.name.clone().unwrap(), config.spec.clone());
        self.objects.machine_configs.iter().map(named).collect()
    }
}

#[track_caller]
fn nothing_moves(what: &str, breaks: impl FnOnce(&mut Objects)) {
    let mut cluster = Cluster::new();
    let before = cluster.specs();
    assert!(before.contains_key("99-worker-generated-registries"), "{:?}", before.keys());
    assert!(before.contains_key("99-worker-generated-containerruntime"), "{:?}", before.keys());
    breaks(&mut cluster.objects);
    cluster.step();
    cluster.step();
    let after = cluster.specs();
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{what}");
    let changed: Vec<&String> = before.keys().filter(|name| after[*name] != before[*name]).collect();
    assert!(changed.is_empty(), "{what}: {changed:?}");
}

#[test]
fn a_cluster_whose_templates_cannot_be_filled_in_stays_as_it_is() {
    nothing_moves("no platform", |objects| {
        let spec = &mut objects.controller_config.as_mut().unwrap().spec;
        spec.infra.as_mut().unwrap().status.as_mut().unwrap().platform_status = None;
    });
    nothing_moves("no ControllerConfig", |objects| objects.controller_config = None);
    nothing_moves("no templates", |objects| objects.templates = Given::Templates(Templates::new(Vec::new())));
    nothing_moves("a template that does not work", |objects| {
        let bad = Template { path: "common/00/a".into(), text: "{{".into() };
        objects.templates = Given::Templates(Templates::new(vec![bad]));
    });
}

#[test]
fn a_tls_profile_of_unknown_ciphers_leaves_hosts_with_the_one_they_have() {
    let mut cluster = Cluster::new();
    let of = |profile: serde_json::Value| {
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
            "spec": {"tlsSecurityProfile": profile}});
        serde_json::from_value(object).unwrap()
    };
    let intermediate = cluster.specs();
    cluster.objects.api_server = Some(of(json!({"type": "Modern", "modern": {}})));
    cluster.step();
    let modern = cluster.specs();
    assert_ne!(modern, intermediate);
    let custom = json!({"ciphers": ["NO-SUCH-CIPHER"], "minTLSVersion": "VersionTLS12"});
    cluster.objects.api_server = Some(of(json!({"type": "Custom", "custom": custom})));
    cluster.step();
    assert_eq!(cluster.specs(), modern);
}

#[test]
fn gates_are_held_to_the_kubelets_of_the_nodes_unless_they_are_openshifts() {
    let mut cluster = Cluster::new();
    let kubelets = Kubelets { feature_gate: Some(feature_gate(&[("NoSuchGate", true)])), ..Kubelets::default() };
    for (version, is_told) in [("v1.36.1", true), ("v1.27.16+03a907c", false)] {
        let signs = NodeSigns { kubelet_version: version.to_owned(), ..NodeSigns::default() };
        cluster.objects.nodes = vec![PoolNode { pool: "worker".to_owned(), signs }];
        let plan = cluster.objects.plan_kubelets(&kubelets);
        let told = plan.events.iter().any(|event| event.message.contains("gate NoSuchGate is left out"));
        assert_eq!(told, is_told, "{version}: {:?}", plan.events);
    }
}

fn with_runtime(version: &str) -> PoolNode {
    let signs = NodeSigns { runtime_version: version.to_owned(), ..NodeSigns::default() };
    PoolNode { pool: "worker".to_owned(), signs }
}

#[test]
fn one_node_with_another_runtime_changes_no_template_and_is_told() {
    let mut cluster = Cluster::new();
    cluster.objects.nodes = vec![with_runtime("cri-o://1.34.0"), with_runtime("cri-o://1.34.0")];
    cluster.step();
    let templates = |cluster: &Cluster| {
        let specs = cluster.specs();
        specs.into_iter().filter(|(name, _)| !name.starts_with("99-")).collect::<BTreeMap<_, _>>()
    };
    let before = templates(&cluster);
    // Whatever its place among the nodes.
    cluster.objects.nodes.insert(0, with_runtime("containerd://2.1.0"));
    cluster.step();
    assert_eq!(templates(&cluster), before);
    let plan = cluster.objects.plan_templates(Ok(None), Vec::new());
    let said = plan.updates.iter().map(|update| format!("{:?}", update.status)).collect::<String>();
    assert!(
        said.contains("nodes have several runtimes (CRI-O on 2, containerd 2 on 1), and templates are for CRI-O"),
        "{said}"
    );
    cluster.objects.nodes.extend([with_runtime("containerd://2.1.0"), with_runtime("containerd://2.1.0")]);
    cluster.step();
    assert_ne!(templates(&cluster), before, "most nodes have it now");
}

#[test]
fn nodes_of_no_pool_have_no_say_about_the_runtime() {
    let mut cluster = Cluster::new();
    cluster.objects.nodes = vec![with_runtime("cri-o://1.34.0")];
    cluster.step();
    let before = cluster.specs();
    let signs = NodeSigns { runtime_version: "containerd://1.7.2".to_owned(), ..NodeSigns::default() };
    let windows = PoolNode { pool: String::new(), signs };
    cluster.objects.nodes.extend([windows.clone(), windows]);
    cluster.step();
    assert_eq!(cluster.specs(), before);
}

/// A MachineConfig that another controller generated.
fn foreign(name: &str) -> MachineConfig {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "annotations": {
            "machineconfiguration.openshift.io/generated-by-controller-version": "1f2e3d",
        }},
        "spec": {},
    });
    serde_json::from_value(config).unwrap()
}

fn mirrors(mirrors: &[&str]) -> Registries {
    let set = |(number, mirror): (usize, &&str)| {
        let set = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet",
            "metadata": {"name": format!("m{number}"), "uid": "u"},
            "spec": {"imageDigestMirrors": [{"source": format!("quay.io/{number}"), "mirrors": [mirror]}]},
        });
        serde_json::from_value(set).unwrap()
    };
    Registries { digest_mirrors: mirrors.iter().enumerate().map(set).collect(), ..Registries::default() }
}

/// A cluster that was taken over with these mirrors, once its inputs are noted.
fn taken_over(before: &Registries) -> Objects {
    let name = "99-worker-generated-registries";
    let mut objects = Cluster::new().objects;
    objects.machine_configs = vec![foreign("00-worker"), foreign(name)];
    let plan = objects.plan_registries(before);
    assert!(plan.apply.is_empty() && plan.delete.is_empty(), "it is kept");
    let noted = BTreeMap::from([("machinist.dev/kept-inputs".to_owned(), plan.inputs[name].clone())]);
    objects.machine_configs[1].metadata.annotations.get_or_insert_default().extend(noted);
    assert!(objects.plan_registries(before).is_empty(), "it is noted once, and nothing moves");
    objects
}

#[test]
fn registries_of_a_cluster_taken_over_are_kept_until_their_inputs_change() {
    // Whatever was there when the cluster was taken over is in what is kept, also if that was nothing.
    for before in [mirrors(&[]), mirrors(&["mirror.local/a"]), mirrors(&["mirror.local/a", "mirror.local/b"])] {
        let objects = taken_over(&before);
        assert_eq!(objects.plan_registries(&mirrors(&["other.local/team"])).apply.len(), 1, "it is ours to apply");
    }
    let objects = taken_over(&mirrors(&["mirror.local/a"]));
    let emptied = objects.plan_registries(&mirrors(&[]));
    assert_eq!(emptied.apply.len(), 1, "what the other controller left must go with its inputs");
    assert!(emptied.delete.is_empty());
}

#[test]
fn the_order_of_a_list_and_a_fingerprint_of_another_release_move_no_node() {
    let before = mirrors(&["mirror.local/a", "mirror.local/b"]);
    let mut objects = taken_over(&before);
    let mut turned = before.clone();
    turned.digest_mirrors.reverse();
    assert!(objects.plan_registries(&turned).is_empty());
    let notes = objects.machine_configs[1].metadata.annotations.as_mut().unwrap();
    notes.insert("machinist.dev/kept-inputs".to_owned(), "0:feed".to_owned());
    let plan = objects.plan_registries(&before);
    assert!(plan.apply.is_empty());
    assert_eq!(plan.inputs.len(), 1, "it is noted anew");
}

#[test]
fn an_adopted_config_gives_way_to_ours_also_where_ours_is_empty() {
    for given in [mirrors(&[]), mirrors(&["mirror.local/a"])] {
        let mut objects = taken_over(&given);
        let notes = objects.machine_configs[1].metadata.annotations.as_mut().unwrap();
        notes.insert("machinist.dev/adopt".to_owned(), String::new());
        let plan = objects.plan_registries(&given);
        assert_eq!(plan.apply.len(), 1);
        objects.machine_configs[1] = plan.apply[0].clone();
        let next = objects.plan_registries(&given);
        assert!(next.apply.is_empty(), "{next:?}");
    }
}

#[test]
fn templates_and_settings_say_what_containerd_reads() {
    let level = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ContainerRuntimeConfig",
        "metadata": {"name": "level", "uid": "u", "generation": 1},
        "spec": {"containerRuntimeConfig": {"logLevel": "debug"},
            "machineConfigPoolSelector": {"matchLabels": {"pool": "worker"}}}});
    let level: ContainerRuntimeConfig = serde_json::from_value(level).unwrap();
    let says = |objects: &Objects| {
        let runtimes = objects.plan_runtimes(std::slice::from_ref(&level));
        let status = runtimes.updates[0].status.clone().unwrap();
        let last = status["conditions"].as_array().unwrap().last().unwrap()["type"].clone();
        let told = objects.plan_registries(&mirrors(&["mirror.local"])).events;
        (last.as_str().unwrap().to_owned(), told.iter().any(|event| event.message.contains("not known to read")))
    };
    for version in ["containerd://1.7.2", "containerd://2.1.0"] {
        let mut objects = Cluster::new().objects;
        let signs = NodeSigns { runtime_version: version.to_owned(), ..NodeSigns::default() };
        objects.nodes = vec![PoolNode { pool: "worker".to_owned(), signs }];
        objects.machine_configs.clear();
        assert_eq!(says(&objects), ("Success".to_owned(), false), "{version}");
        let spec = &mut objects.settings.as_mut().unwrap().spec;
        spec.profile = Some("kubeadm".to_owned());
        // A source that is a namespace has no host file, so there is nothing that could go unread.
        assert_eq!(says(&objects), ("Failure".to_owned(), false), "{version}");
        objects.settings.as_mut().unwrap().spec.containerd =
            Some(ContainerdSettings { reads_hosts: true, reads_dropins: true });
        assert_eq!(says(&objects), ("Success".to_owned(), false), "{version}");
    }
}
