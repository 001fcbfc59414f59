//! ContainerRuntimeConfigs on their whole way.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::{ContainerRuntimeConfig, MachineConfig};
use expect_test::expect;
use jiff::Timestamp;
use serde_json::{Value, json};
use typed::plan::Plan;
use typed::runtime::main_file::MainFile;
use typed::runtime::plan::{Snapshot, plan};
use typed::templates::Runtime;

use crate::world::{pool, readable};

struct World(Snapshot);

impl World {
    fn new(pools: &[&str]) -> Self {
        let storage = "[storage]\ndriver = \"overlay\"\n".to_owned();
        Self(Snapshot {
            now: Timestamp::UNIX_EPOCH,
            version: "v1".to_owned(),
            profile: typed::templates::Profile::OpenShift,
            pools: pools.iter().map(|name| pool(name)).collect(),
            runtime_configs: Vec::new(),
            machine_configs: Vec::new(),
            runtimes: BTreeMap::new(),
            default_runtime: Runtime::Crio,
            main_files: BTreeMap::new(),
            storage: [("worker".to_owned(), Ok(storage))].into(),
            stores: true,
            originals: BTreeMap::new(),
            adopt: BTreeSet::new(),
        })
    }

    fn add(&mut self, name: &str, pool: &str, settings: Value) {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ContainerRuntimeConfig",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1,
                "creationTimestamp": format!("2026-01-01T00:{:02}:00Z", self.0.runtime_configs.len())},
            "spec": {"containerRuntimeConfig": settings, "machineConfigPoolSelector": {"matchLabels": {"pool": pool}}},
        });
        self.0.runtime_configs.push(serde_json::from_value(config).unwrap());
    }

    fn config(&mut self, name: &str) -> &mut ContainerRuntimeConfig {
        self.0.runtime_configs.iter_mut().find(|it| it.metadata.name.as_deref() == Some(name)).unwrap()
    }

    fn says(&mut self, name: &str) -> String {
        let conditions = self.config(name).status.clone().unwrap_or_default().conditions;
        conditions.last().map(|it| format!("{}: {}", it.type_, it.message)).unwrap_or_default()
    }

    #[track_caller]
    fn settle(&mut self) {
        for _ in 0..5 {
            let found = plan(&self.0);
            if found.is_empty() {
                return;
            }
            self.carry_out(found);
        }
        panic!("it does not settle: {:?}", plan(&self.0));
    }

    fn carry_out(&mut self, plan: Plan) {
        for config in plan.apply {
            readable(&config);
            self.0.machine_configs.retain(|live| live.metadata.name != config.metadata.name);
            self.0.machine_configs.push(config);
        }
        self.0.machine_configs.retain(|live| !plan.delete.contains(live.metadata.name.as_ref().unwrap()));
        for update in plan.updates {
            let config = self.config(&update.object.name);
            config.metadata.annotations.get_or_insert_default().extend(update.annotations);
            config.metadata.finalizers = update.finalizers.or(config.metadata.finalizers.take());
            if let Some(status) = update.status {
                config.status = serde_json::from_value(status).unwrap();
            }
        }
    }

    /// All MachineConfigs in the order of their names.
    fn sorted(&self) -> Vec<MachineConfig> {
        let mut configs = self.0.machine_configs.clone();
        configs.sort_by_key(|it| it.metadata.name.clone());
        configs
    }

    /// The files of a MachineConfig: the end of each path, and the content on one line.
    fn files(&self, name: &str) -> String {
        let config = self.0.machine_configs.iter().find(|it| it.metadata.name.as_deref() == Some(name)).unwrap();
        let files = config.spec.config.as_ref().unwrap()["storage"]["files"].as_array().cloned().unwrap_or_default();
        let shown = files.iter().map(|file| {
            let source = file["contents"]["source"].as_str().unwrap();
            let text = String::from_utf8(ignition::data_url::decode(source).unwrap()).unwrap();
            let path = file["path"].as_str().unwrap().rsplit('/').next().unwrap();
            format!("{path}: {}\n", text.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        shown.collect()
    }
}

#[test]
fn a_pool_that_does_not_take_what_is_generated_for_it_says_so() {
    let mut world = World::new(&["worker", "gpu"]);
    world.0.pools[1].spec.machine_config_selector =
        serde_json::from_value(json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}})).unwrap();
    world.add("a", "gpu", json!({"pidsLimit": 2048}));
    world.settle();
    assert!(world.says("a").contains("it reaches no node of pool gpu"), "{}", world.says("a"));
}

#[test]
fn what_workers_get_is_checked_and_made_for_the_runtimes_of_pools_that_get_it_too() {
    let mut world = World::new(&["worker", "infra"]);
    world.0.runtimes.insert("infra".to_owned(), [Runtime::Containerd { major: 2 }].into());
    world.add("a", "worker", json!({"logLevel": "debug"}));
    world.settle();
    assert!(
        world.says("a").contains("pool infra") || world.says("a").contains("pool \"infra\""),
        "{}",
        world.says("a")
    );
    let main = MainFile::parse("a test", "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n");
    world.0.main_files.insert("infra".to_owned(), main);
    world.settle();
    assert_eq!(world.says("a"), "Success: Success");
    let files = world.files("99-worker-generated-containerruntime");
    assert!(files.contains("log_level = \"debug\"") && files.contains("[debug] level = \"debug\""), "{files}");
}

#[test]
fn several_on_one_pool_combine_also_in_storage_conf() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"pidsLimit": 2048, "overlaySize": "8G", "logLevel": "info"}));
    world.add("b", "worker", json!({"additionalImageStores": [{"path": "/mnt/a"}], "logLevel": "debug"}));
    world.settle();
    expect![[r#"
        storage.conf: [storage] driver = "overlay" [storage.options] additionalimagestores = ["/mnt/a"] size = "8G"
        01-ctrcfg-logLevel: [crio] [crio.runtime] log_level = "debug"
        01-ctrcfg-pidsLimit: [crio] [crio.runtime] pids_limit = 2048
    "#]]
    .assert_eq(&world.files("99-worker-generated-containerruntime-1"));
    assert_eq!((world.says("a"), world.says("b")), ("Success: Success".to_owned(), "Success: Success".to_owned()));
}

#[test]
fn custom_pools_start_from_what_workers_have() {
    let mut world = World::new(&["worker", "infra"]);
    world.add("workers", "worker", json!({"overlaySize": "8G"}));
    world.add("infra", "infra", json!({"additionalLayerStores": [{"path": "/mnt/l"}]}));
    world.settle();
    expect![[r#"
        storage.conf: [storage] driver = "overlay" [storage.options] additionallayerstores = ["/mnt/l:ref"] size = "8G"
    "#]]
    .assert_eq(&world.files("99-infra-generated-containerruntime"));
}

#[test]
fn a_bad_one_is_told_and_stays_as_it_was_accepted() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"pidsLimit": 2048}));
    world.add("b", "worker", json!({"pidsLimit": 7}));
    world.settle();
    assert_eq!(world.says("a"), "Success: Success");
    assert!(world.says("b").starts_with("Failure: Error: invalid PidsLimit 7 (spec."), "{}", world.says("b"));
    let config = world.config("a");
    config.spec.container_runtime_config.pids_limit = Some(3);
    config.metadata.generation = Some(2);
    world.settle();
    assert!(world.says("a").contains("invalid PidsLimit 3"), "{}", world.says("a"));
    assert!(world.files("99-worker-generated-containerruntime").contains("pids_limit = 2048"));
}

#[test]
fn what_containerd_cannot_do_is_refused_with_a_way_out() {
    let mut world = World::new(&["worker"]);
    world.0.runtimes.insert("worker".to_owned(), BTreeSet::from([Runtime::Containerd { major: 2 }]));
    let text = "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n";
    world.0.main_files.insert("worker".to_owned(), MainFile::parse("MachineConfig 50-worker", text));
    world.add("a", "worker", json!({"pidsLimit": 2048, "logLevel": "debug"}));
    world.add("b", "worker", json!({"logLevel": "debug"}));
    world.settle();
    expect![[r#"Failure: Error: pool "worker": containerd has no equivalent of pidsLimit; set podPidsLimit in a KubeletConfig"#]]
        .assert_eq(&world.says("a"));
    assert_eq!(world.says("b"), "Success: Success");
    assert!(world.files("99-worker-generated-containerruntime-1").contains("level = \"debug\""));
}

#[test]
fn what_containerd_is_not_known_to_read_is_no_success() {
    let mut world = World::new(&["worker"]);
    world.0.runtimes.insert("worker".to_owned(), BTreeSet::from([Runtime::Containerd { major: 1 }]));
    world.add("a", "worker", json!({"logLevel": "debug"}));
    world.add("b", "worker", json!({"defaultRuntime": "crun"}));
    world.settle();
    expect![[r#"Failure: Error: containerd of pool "worker" is not known to read /etc/containerd/conf.d: write /etc/containerd/config.toml with imports = ["/etc/containerd/conf.d/*.toml"] by a MachineConfig, or set spec.containerd.readsDropins of ClusterSettings cluster to true where hosts have that line already"#]]
        .assert_eq(&world.says("a"));
    expect![[r#"Failure: Error: pool "worker": defaultRuntime needs a MachineConfig with /etc/containerd/config.toml, because containerd forgets what that file says of its runtimes when a drop-in names one"#]]
        .assert_eq(&world.says("b"));
    assert!(world.0.machine_configs.is_empty());
    let text = "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n";
    world.0.main_files.insert("worker".to_owned(), MainFile::parse("MachineConfig 50-worker", text));
    world.settle();
    assert_eq!((world.says("a"), world.says("b")), ("Success: Success".to_owned(), "Success: Success".to_owned()));
}

#[test]
fn on_k3s_it_is_refused_with_a_way_out() {
    let mut world = World::new(&["worker"]);
    world.0.profile = typed::templates::Profile::K3s;
    world.add("a", "worker", json!({"logLevel": "debug"}));
    world.settle();
    assert!(world.says("a").contains("config-v3.toml.tmpl instead"), "{}", world.says("a"));
}

#[test]
fn the_eleventh_on_a_pool_is_refused() {
    let mut world = World::new(&["worker"]);
    for number in 0..11 {
        world.add(&format!("c{number:02}"), "worker", json!({"logLevel": "info"}));
    }
    world.settle();
    expect!["Failure: Error: could not get ctrcfg key: max number of supported ctrcfgs (10) has been reached. Please delete old ctrcfgs before retrying"]
        .assert_eq(&world.says("c10"));
    assert_eq!(world.0.machine_configs.len(), 10);
}

#[test]
fn templates_that_do_not_render_leave_everything_in_force() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"pidsLimit": 2048}));
    world.add("b", "worker", json!({"overlaySize": "8G"}));
    world.settle();
    let before = world.sorted();
    world.0.storage = [("worker".to_owned(), Err("its head is wrong".to_owned()))].into();
    world.settle();
    assert_eq!(world.sorted(), before);
    assert!(world.says("b").contains("its head is wrong"), "{}", world.says("b"));
    let config = world.config("a");
    config.spec.container_runtime_config.pids_limit = Some(3000);
    config.metadata.generation = Some(2);
    world.settle();
    assert_eq!(world.says("a"), "Success: Success", "what needs no storage.conf does not wait for it");
    assert!(world.files("99-worker-generated-containerruntime").contains("pids_limit = 3000"));
    assert_eq!(world.sorted()[1].spec, before[1].spec);
}

#[test]
fn one_refused_on_one_pool_keeps_what_it_has_on_each() {
    let mut world = World::new(&["worker", "infra"]);
    world.add("a", "worker", json!({"logLevel": "debug"}));
    world.config("a").spec.machine_config_pool_selector =
        serde_json::from_value(json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]})).unwrap();
    world.settle();
    let before = world.sorted();
    world.0.runtimes.insert("infra".to_owned(), BTreeSet::from([Runtime::Containerd { major: 2 }]));
    let config = world.config("a");
    config.spec.container_runtime_config.pids_limit = Some(4096);
    config.metadata.generation = Some(2);
    world.settle();
    assert!(world.says("a").contains("pool \"infra\": containerd"), "{}", world.says("a"));
    assert_eq!(world.sorted().len(), before.len());
}

#[test]
fn sizes_below_a_byte_and_limits_below_zero_are_refused() {
    for (field, size) in [
        ("logSizeMax", "-500m"),
        ("logSizeMax", "8190.5"),
        ("logSizeMax", "-1.0001"),
        ("overlaySize", "500m"),
        ("overlaySize", "0.5"),
        ("overlaySize", "7u"),
    ] {
        let mut world = World::new(&["worker"]);
        world.add("a", "worker", json!({field: size}));
        world.settle();
        assert!(world.says("a").starts_with("Failure: "), "{field} {size}: {}", world.says("a"));
        assert!(world.says("a").contains(&format!("spec.containerRuntimeConfig.{field}")), "{}", world.says("a"));
    }
    for (field, size) in [
        ("logSizeMax", "0.5Mi"),
        ("logSizeMax", "0.1Mi"),
        ("logSizeMax", "9e3"),
        ("overlaySize", "1.5Gi"),
        ("overlaySize", "1.1Gi"),
        ("overlaySize", "1Ei"),
        ("overlaySize", "0"),
    ] {
        let mut world = World::new(&["worker"]);
        world.add("a", "worker", json!({field: size}));
        world.settle();
        assert_eq!(world.says("a"), "Success: Success", "{field} {size}");
    }
}
