//! One KubeletConfig, checked by itself: what it sets is of the right type, and is the user's to set.

use api::labels;
use api::machineconfiguration::{KubeletConfig, MachineConfigPool, TlsSecurityProfile};
use api::names::{POOL_ARBITER, POOL_MASTER};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Error;
use super::{limits, read, tls};

/// What one KubeletConfig asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The KubeletConfig's name.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_sizing: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSecurityProfile>,
    /// Fields of the kubelet's configuration. What is written here stands, also `false`, `0` and empty values.
    pub fields: Map<String, Value>,
}

impl Settings {
    /// Reads and checks a KubeletConfig, whichever pools it is for.
    pub fn parse(config: &KubeletConfig) -> Result<Self, Error> {
        let spec = &config.spec;
        if let Some(level) = spec.log_level.filter(|level| !(0..=10).contains(level)) {
            return Err(Error::LogLevel(level));
        }
        let raw = spec.kubelet_config.as_ref().unwrap_or(&Value::Null);
        let mut fields = read::configuration(raw)?;
        keep_defaults(raw, &mut fields);
        refuse_managed(&fields)?;
        refuse_unknown_ciphers(spec.tls_security_profile.as_ref())?;
        limits::check_reservations(&fields)?;
        let reserves = fields.get("systemReserved").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
        if reserves && spec.auto_sizing_reserved == Some(true) {
            return Err(Error::SizedTwice);
        }
        let (reserved, system) = (text(&fields, "systemReservedCgroup"), text(&fields, "systemCgroups"));
        if !reserved.is_empty() && !system.is_empty() && reserved != system {
            return Err(Error::Cgroups { reserved: reserved.to_owned(), system: system.to_owned() });
        }
        // The cluster's own words stand here; an empty value is accepted and means nothing.
        for managed in ["apiVersion", "kind"].into_iter().chain(MANAGED.map(|(path, _)| path)) {
            fields.remove(managed.split('.').next().unwrap_or(managed));
        }
        Ok(Self {
            name: config.metadata.name.clone().unwrap_or_default(),
            log_level: spec.log_level,
            auto_sizing: spec.auto_sizing_reserved,
            tls: spec.tls_security_profile.clone(),
            fields,
        })
    }

    /// Static pods run the control plane, so its pools keep their path; other pools may only turn static pods off.
    pub fn check_pool(&self, pool: &MachineConfigPool) -> Result<(), Error> {
        let Some(path) = self.fields.get("staticPodPath") else { return Ok(()) };
        let name = pool.metadata.name.clone().unwrap_or_default();
        if is_control_plane(pool) {
            return Err(Error::StaticPodsOfControlPlane { pool: name });
        }
        match path.as_str() {
            Some("") | None => Ok(()),
            Some(path) => Err(Error::StaticPods { pool: name, found: path.to_owned() }),
        }
    }
}

/// Whether a pool holds control-plane nodes, by its name or by the nodes it selects.
pub fn is_control_plane(pool: &MachineConfigPool) -> bool {
    if matches!(pool.metadata.name.as_deref(), Some(POOL_MASTER | POOL_ARBITER)) {
        return true;
    }
    let is_role = |key: &str| key == labels::NODE_ROLE_MASTER || key == labels::NODE_ROLE_CONTROL_PLANE;
    let Some(selector) = &pool.spec.node_selector else { return false };
    let by_label = selector.match_labels.iter().flatten().any(|(key, _)| is_role(key));
    let mut expressions = selector.match_expressions.iter().flatten();
    by_label || expressions.any(|it| is_role(&it.key) && matches!(it.operator.as_str(), "Exists" | "In"))
}

/// Fields that belong to the cluster: with a wrong value a node may not come back after its reboot.
const MANAGED: [(&str, &str); 6] = [
    ("cgroupDriver", "cgroupDriver"),
    ("clusterDNS", "clusterDNS"),
    ("clusterDomain", "clusterDomain"),
    ("featureGates", "featureGates"),
    ("failSwapOn", "failSwapOn"),
    ("memorySwap.swapBehavior", "swapBehavior"),
];

/// Ciphers that a kubelet has no name for are left out; with none left it would take its defaults, which allow more.
fn refuse_unknown_ciphers(profile: Option<&TlsSecurityProfile>) -> Result<(), Error> {
    match profile.filter(|profile| tls::has_no_cipher(profile)) {
        Some(profile) => Err(Error::Ciphers(tls::unknown_ciphers(profile).join(", "))),
        None => Ok(()),
    }
}

/// A reservation without an amount takes the default and is a reservation nevertheless.
fn keep_defaults(raw: &Value, fields: &mut Map<String, Value>) {
    let written = raw.get("systemReserved").and_then(Value::as_object).into_iter().flatten();
    let Some(Value::Object(reserved)) = fields.get_mut("systemReserved") else { return };
    for (resource, _) in written.filter(|(_, amount)| amount.is_null()) {
        reserved.insert(resource.clone(), String::new().into());
    }
}

fn refuse_managed(fields: &Map<String, Value>) -> Result<(), Error> {
    for (path, field) in MANAGED {
        let mut steps = path.split('.');
        let first = steps.next().and_then(|step| fields.get(step));
        let Some(found) = steps.fold(first, |value, step| value.and_then(|value| value.get(step))) else { continue };
        let is_empty = match found {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Null => true,
            // A switch is set whichever way it points.
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !is_empty {
            return Err(Error::Managed { field, path, found: plain(found) });
        }
    }
    Ok(())
}

/// A value without JSON's quotes, as upstream's message shows it: `[10.0.0.10 8.8.8.8]`, `map[Foo:true]`.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members: Vec<_> = members.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

pub(super) fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}
