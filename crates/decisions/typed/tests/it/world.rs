//! A cluster in memory: plans are carried out on it until they ask for nothing, and every write is counted.

use std::collections::BTreeMap;

use api::machineconfiguration::{KubeletConfig, MachineConfig, MachineConfigPool};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use typed::kubelet;
use typed::kubelet::plan::Snapshot;
use typed::plan::{Plan, Update};
use typed::templates::{Config, Profile, Templates};

use crate::judge::kubelets_accept;
use crate::templates::parameters;

/// Writes by what they were about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    pub(crate) configs: usize,
    pub(crate) deletions: usize,
    pub(crate) metadata: usize,
    pub(crate) status: usize,
}

pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
    pub(crate) writes: Writes,
    pub(crate) events: Vec<String>,
}

/// The template's configuration of every role.
pub(crate) fn bases() -> BTreeMap<String, Result<Map<String, Value>, String>> {
    let base = |role: &str| {
        let fragments = Templates::builtin(Profile::OpenShift).render(&parameters(role)).unwrap();
        let text = fragments[&Config::Kubelet].file(kubelet::CONFIGURATION).unwrap().to_owned();
        (role.to_owned(), Ok(kubelet::base(&serde_saphyr::from_str(&text).unwrap())))
    };
    ["master", "worker", "arbiter"].map(base).into()
}

impl World {
    pub(crate) fn new(pools: &[&str]) -> Self {
        let snapshot = Snapshot {
            now: Timestamp::UNIX_EPOCH,
            version: "v1".to_owned(),
            profile: Profile::OpenShift,
            pools: pools.iter().map(|name| pool(name)).collect(),
            kubelet_configs: Vec::new(),
            machine_configs: Vec::new(),
            bases: bases(),
            node: None,
            feature_gate: None,
            api_server: None,
            minors: BTreeMap::new(),
            strict: BTreeMap::new(),
            originals: BTreeMap::new(),
            inputs: BTreeMap::new(),
            adopt: std::collections::BTreeSet::new(),
        };
        Self { snapshot, writes: Writes::default(), events: Vec::new() }
    }

    /// Adds a KubeletConfig for one pool; it is younger than all that are there.
    pub(crate) fn add(&mut self, name: &str, pool: &str, spec: Value) {
        let age = self.snapshot.kubelet_configs.len();
        let mut spec = spec;
        if spec.get("machineConfigPoolSelector").is_none() {
            spec["machineConfigPoolSelector"] = json!({"matchLabels": {"pool": pool}});
        }
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
            "metadata": {
                "name": name, "uid": format!("uid-{name}"), "generation": 1,
                "creationTimestamp": format!("2026-01-01T{:02}:{:02}:00Z", age / 60, age % 60),
            },
            "spec": spec,
        });
        self.snapshot.kubelet_configs.push(serde_json::from_value(config).unwrap());
    }

    pub(crate) fn config(&mut self, name: &str) -> &mut KubeletConfig {
        self.snapshot.kubelet_configs.iter_mut().find(|it| it.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// Edits a KubeletConfig as a user does.
    pub(crate) fn edit(&mut self, name: &str, fields: Value) {
        let config = self.config(name);
        config.spec.kubelet_config = Some(fields);
        config.metadata.generation = config.metadata.generation.map(|generation| generation + 1);
    }

    pub(crate) fn machine_config(&self, name: &str) -> Option<&MachineConfig> {
        self.snapshot.machine_configs.iter().find(|it| it.metadata.name.as_deref() == Some(name))
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.snapshot.machine_configs.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
        names.sort_unstable();
        names
    }

    /// All MachineConfigs in the order of their names.
    pub(crate) fn sorted(&self) -> Vec<MachineConfig> {
        let mut configs = self.snapshot.machine_configs.clone();
        configs.sort_by_key(|it| it.metadata.name.clone());
        configs
    }

    /// A file of a MachineConfig, decoded.
    pub(crate) fn file(&self, name: &str, path: &str) -> Option<String> {
        let config = self.machine_config(name)?.spec.config.clone()?;
        let files = config["storage"]["files"].as_array().cloned().unwrap_or_default();
        let source = files.iter().find(|file| file["path"] == path)?["contents"]["source"].as_str()?.to_owned();
        String::from_utf8(ignition::data_url::decode(&source).unwrap()).ok()
    }

    /// A field of the kubelet's configuration in a MachineConfig.
    pub(crate) fn field(&self, name: &str, field: &str) -> Value {
        let text = self.file(name, kubelet::CONFIGURATION).unwrap();
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        object[field].clone()
    }

    /// The last condition of a KubeletConfig.
    pub(crate) fn says(&mut self, name: &str) -> String {
        let conditions = self.config(name).status.clone().unwrap_or_default().conditions;
        conditions.last().map(|it| format!("{}: {}", it.type_, it.message)).unwrap_or_default()
    }

    pub(crate) fn plan(&self) -> Plan {
        kubelet::plan::plan(&self.snapshot)
    }

    /// One reconcile, carried out; whether there was anything to do.
    pub(crate) fn step(&mut self) -> bool {
        let plan = self.plan();
        let acts = !plan.is_empty();
        self.carry_out(plan);
        acts
    }

    /// Reconciles until there is nothing to do.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        for _ in 0..20 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.plan());
    }

    fn carry_out(&mut self, plan: Plan) {
        for config in plan.apply {
            readable(&config);
            self.writes.configs += 1;
            self.snapshot.machine_configs.retain(|live| live.metadata.name != config.metadata.name);
            self.snapshot.machine_configs.push(config);
        }
        for name in plan.delete {
            self.writes.deletions += 1;
            self.snapshot.machine_configs.retain(|live| live.metadata.name.as_deref() != Some(&name));
        }
        self.snapshot.originals.extend(plan.originals.into_iter().map(|(name, kept)| (name, kept.original)));
        self.snapshot.inputs.extend(plan.inputs);
        self.events.extend(plan.events.into_iter().map(|event| format!("{}: {}", event.reason, event.message)));
        for update in plan.updates {
            self.update(update);
        }
        let is_gone = |config: &KubeletConfig| {
            config.metadata.deletion_timestamp.is_some() && config.metadata.finalizers.iter().flatten().count() == 0
        };
        self.snapshot.kubelet_configs.retain(|config| !is_gone(config));
        kubelets_accept(&self.snapshot.pools, &self.snapshot.machine_configs);
    }

    fn update(&mut self, update: Update) {
        let cluster = match update.object.kind {
            "Node" => {
                let node = self.snapshot.node.as_mut().unwrap();
                if let Some(status) = &update.status {
                    self.writes.status += 1;
                    node.status = serde_json::from_value(status.clone()).unwrap();
                }
                Some(&mut node.metadata)
            }
            "FeatureGate" => Some(&mut self.snapshot.feature_gate.as_mut().unwrap().metadata),
            "APIServer" => Some(&mut self.snapshot.api_server.as_mut().unwrap().metadata),
            _ => None,
        };
        if let Some(metadata) = cluster {
            metadata.annotations.get_or_insert_default().extend(update.annotations);
            return;
        }
        if !update.annotations.is_empty() || update.finalizers.is_some() {
            self.writes.metadata += 1;
        }
        if update.status.is_some() {
            self.writes.status += 1;
        }
        let config = self.config(&update.object.name);
        config.metadata.annotations.get_or_insert_default().extend(update.annotations);
        if let Some(finalizers) = update.finalizers {
            config.metadata.finalizers = Some(finalizers);
        }
        if let Some(status) = update.status {
            config.status = serde_json::from_value(status).unwrap();
        }
    }
}

/// A FeatureGate `cluster` that turns single gates on or off.
pub(crate) fn feature_gate(gates: &[(&str, bool)]) -> api::config::FeatureGate {
    let named = |wanted: bool| gates.iter().filter(|(_, on)| *on == wanted).map(|(name, _)| *name).collect::<Vec<_>>();
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": {"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": named(true), "disabled": named(false)}},
    });
    serde_json::from_value(object).unwrap()
}

/// Every MachineConfig that a planner writes has to be one that rendering accepts.
#[track_caller]
pub(crate) fn readable(config: &MachineConfig) {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    if let Err(error) = ignition::read(config.spec.config.as_ref().unwrap()) {
        panic!("{name}: {error}");
    }
}

/// A pool that selects its own role, and that of workers too if it is a custom one.
pub(crate) fn pool(name: &str) -> MachineConfigPool {
    let roles = match name {
        "master" | "worker" | "arbiter" => json!([name]),
        custom => json!(["worker", custom]),
    };
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"pool": name}},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": roles},
            ]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
        },
    });
    serde_json::from_value(pool).unwrap()
}
