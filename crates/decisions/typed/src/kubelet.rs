//! Decides what a pool's kubelet is configured with: the cluster's own configuration, then its KubeletConfigs on top.
//!
//! A KubeletConfig is checked by itself ([`Settings::parse`]), for each pool ([`Settings::check_pool`]) and together with
//! the others of the pool ([`merge`], [`limits`]). Nothing here knows names of MachineConfigs or writes status.

mod error;
pub mod fields;
pub mod gates;
pub mod limits;
mod merge;
pub mod plan;
mod read;
mod settings;
pub mod tls;

use std::collections::BTreeMap;

use api::config::FeatureGate;
use serde_json::{Map, Value};

pub use error::Error;
use merge::merge_over;
pub use merge::{Configured, Provenance, Sizing, merge};
pub use read::base;
pub use settings::{Settings, is_control_plane};

use crate::fragment::File;
use crate::yaml;

/// The kubelet's configuration.
pub const CONFIGURATION: &str = "/etc/kubernetes/kubelet.conf";
/// Drop-in of the kubelet's unit that sets how much it logs.
pub const LOGGING: &str = "/etc/systemd/system/kubelet.service.d/20-logging.conf";
/// What the script that sizes reservations reads.
pub const SIZING: &str = "/etc/node-sizing-enabled.env";

/// How often nodes report, by the profile of the Node config: a slower one suits workers that are far away. An unknown
/// profile, and none, change nothing.
pub fn apply_latency(configuration: &mut Map<String, Value>, profile: &str) {
    let frequency = match profile {
        "Default" => "10s",
        "MediumUpdateAverageReaction" => "20s",
        "LowUpdateSlowReaction" => "1m0s",
        _ => return,
    };
    configuration.insert("nodeStatusUpdateFrequency".into(), frequency.into());
}

/// Why a FeatureGate turns nothing on or off, though it names a set: only the operator of OpenShift knows what is in a set, and
/// writes it into the status.
pub fn unresolved_set(feature_gate: &FeatureGate) -> Option<String> {
    let set = feature_gate.spec.feature_set.as_deref().filter(|set| !matches!(*set, "" | "CustomNoUpgrade"))?;
    let has_status = feature_gate.status.as_ref().is_some_and(|status| !status.feature_gates.is_empty());
    (!has_status).then(|| {
        format!(
            "spec.featureSet {set} turns no gate on or off, because nothing here says which gates are in it; create the object anew with spec.featureSet CustomNoUpgrade, and name gates in spec.customNoUpgrade.enabled"
        )
    })
}

/// The gates that a FeatureGate turns on or off: those of its newest version, or those that the user names.
pub fn gates(feature_gate: &FeatureGate) -> BTreeMap<String, bool> {
    let newest = feature_gate.status.as_ref().and_then(|status| status.feature_gates.last());
    if let Some(details) = newest {
        let on = details.enabled.iter().map(|gate| (gate.name.clone(), true));
        return on.chain(details.disabled.iter().map(|gate| (gate.name.clone(), false))).collect();
    }
    let Some(named) = &feature_gate.spec.custom_no_upgrade else { return BTreeMap::new() };
    let on = named.enabled.iter().map(|gate| (gate.clone(), true));
    on.chain(named.disabled.iter().map(|gate| (gate.clone(), false))).collect()
}

impl Configured {
    /// The drop-in for a kubelet whose own file is not ours. What that kubelet has no other place for goes into it too.
    pub fn dropin(&self, path: String) -> File {
        let mut configuration = self.configuration.clone();
        if let Some(level) = self.log_level {
            members(&mut configuration, "logging").insert("verbosity".to_owned(), level.into());
        }
        if let Some(sizing) = &self.sizing {
            let reserved = members(&mut configuration, "systemReserved");
            let amounts =
                [("memory", &sizing.memory), ("cpu", &sizing.cpu), ("ephemeral-storage", &sizing.ephemeral_storage)];
            for (resource, amount) in amounts {
                if let Some(amount) = amount {
                    reserved.insert(resource.to_owned(), amount.clone().into());
                }
            }
            if reserved.is_empty() {
                configuration.remove("systemReserved");
            }
        }
        File::new(path, yaml::write(&configuration))
    }

    /// The files of the generated fragment.
    pub fn files(&self) -> Vec<File> {
        let sizing = self.sizing.as_ref().map(|sizing| File::new(SIZING, sizing.environment()));
        let logging = self
            .log_level
            .map(|level| File::new(LOGGING, format!("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL={level}\"\n")));
        let configuration = File::new(CONFIGURATION, yaml::write(&self.configuration));
        sizing.into_iter().chain(logging).chain([configuration]).collect()
    }
}

/// The members of a field that is an object; anything else there is replaced by an empty one.
fn members<'c>(configuration: &'c mut Map<String, Value>, field: &str) -> &'c mut Map<String, Value> {
    let value = configuration.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made an object")
}

impl Sizing {
    fn environment(&self) -> String {
        let or = |amount: &Option<String>, default: &str| amount.clone().unwrap_or_else(|| default.to_owned());
        format!(
            "NODE_SIZING_ENABLED={}\nSYSTEM_RESERVED_MEMORY={}\nSYSTEM_RESERVED_CPU={}\nSYSTEM_RESERVED_ES={}\n",
            self.auto,
            or(&self.memory, "1Gi"),
            or(&self.cpu, "500m"),
            or(&self.ephemeral_storage, "1Gi"),
        )
    }
}
