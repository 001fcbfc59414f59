//! Puts KubeletConfigs over the cluster's own configuration, field by field, the later one on top.

use serde_json::{Map, Value};

use super::fields::{self, Field, Kind};
use super::settings::text;
use super::tls::Tls;
use super::{Error, Settings, limits};

const SYSTEM_RESERVED: [&str; 2] = ["system-reserved", "system-reserved-compressible"];
/// Reservations that the node's own script turns into flags, so that they leave the configuration file.
const SIZED: [&str; 3] = ["memory", "cpu", "ephemeral-storage"];

/// The result of a merge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configured {
    /// The kubelet's configuration.
    pub configuration: Map<String, Value>,
    pub log_level: Option<i32>,
    /// How the resources reserved for the system are found; `None` leaves that to the template.
    pub sizing: Option<Sizing>,
    /// For every field that a KubeletConfig set: whose word stands, and whose it overrode.
    pub provenance: Vec<Provenance>,
}

/// What is reserved for the system on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    /// Whether it is computed from the node's size.
    pub auto: bool,
    pub memory: Option<String>,
    pub cpu: Option<String>,
    pub ephemeral_storage: Option<String>,
}

/// Who set a field of the kubelet's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The field's path, for example `evictionHard[memory.available]` or `spec.logLevel`.
    pub field: String,
    /// The KubeletConfig whose word stands.
    pub from: String,
    /// Those it overrode, oldest word first.
    pub overrode: Vec<String>,
}

/// Puts `settings` over `base` in the given order.
pub fn merge(base: &Map<String, Value>, settings: &[&Settings]) -> Result<Configured, Error> {
    merge_over(&Configured { configuration: base.clone(), ..Configured::default() }, settings)
}

/// [`merge`] over what another pool ended up with. Who set what there is noted there.
pub(super) fn merge_over(base: &Configured, settings: &[&Settings]) -> Result<Configured, Error> {
    let mut result = Configured { provenance: Vec::new(), ..base.clone() };
    for one in settings {
        // Settings that were accepted before may be read back from an annotation, which anybody may have written.
        limits::check_reservations(&one.fields)?;
        result.add(one);
    }
    reserve_processors(&mut result.configuration);
    let reserved = text(&result.configuration, "systemReservedCgroup");
    let system = text(&result.configuration, "systemCgroups");
    if !reserved.is_empty() && !system.is_empty() && reserved != system {
        return Err(Error::MergedCgroups { reserved: reserved.to_owned(), system: system.to_owned() });
    }
    Ok(result)
}

impl Configured {
    fn add(&mut self, settings: &Settings) {
        let mut set = settings.fields.clone();
        if let Some(profile) = &settings.tls {
            Tls::from_profile(Some(profile)).apply(&mut self.configuration);
            self.credit("spec.tlsSecurityProfile", &settings.name);
        }
        if let Some(level) = settings.log_level {
            self.log_level = Some(level);
            self.credit("spec.logLevel", &settings.name);
        }
        if let Some(auto) = settings.auto_sizing {
            let sizing = self.sizing.get_or_insert_default();
            // Amounts that an earlier one set stand, unless they are to be computed.
            *sizing = if auto { Sizing { auto, ..Sizing::default() } } else { Sizing { auto, ..sizing.clone() } };
            self.credit("spec.autoSizingReserved", &settings.name);
        }
        self.take_sizes(&mut set, &settings.name);
        for path in leaves(&set, fields::CONFIGURATION) {
            self.credit(&path, &settings.name);
        }
        let enforced = set.get("enforceNodeAllocatable").and_then(Value::as_array);
        let enforces_system = |list: &Vec<Value>| {
            list.iter().filter_map(Value::as_str).any(|enforced| SYSTEM_RESERVED.contains(&enforced))
        };
        let lets_system_go = text(&set, "systemReservedCgroup").is_empty()
            && enforced.is_some_and(|enforced| !enforces_system(enforced));
        overlay(&mut self.configuration, set);
        // The kubelet refuses a cgroup for reservations that it does not enforce.
        if lets_system_go {
            self.configuration.remove("systemReservedCgroup");
        }
    }

    /// Takes explicit reservations out of the configuration: the node's script hands them to the kubelet.
    fn take_sizes(&mut self, fields: &mut Map<String, Value>, name: &str) {
        let Some(reserved) = fields.get_mut("systemReserved").and_then(Value::as_object_mut) else { return };
        for resource in SIZED {
            let Some(Value::String(amount)) = reserved.remove(resource) else { continue };
            let sizing = self.sizing.get_or_insert_default();
            sizing.auto = false;
            let amount = Some(amount).filter(|amount| !amount.is_empty());
            match resource {
                "memory" => sizing.memory = amount,
                "cpu" => sizing.cpu = amount,
                _ => sizing.ephemeral_storage = amount,
            }
            self.credit(&format!("systemReserved[{resource}]"), name);
        }
        let reserved = fields.get("systemReserved").and_then(Value::as_object);
        if reserved.is_some_and(Map::is_empty) {
            fields.remove("systemReserved");
        }
    }

    fn credit(&mut self, field: &str, name: &str) {
        match self.provenance.iter_mut().find(|known| known.field == field) {
            Some(known) => {
                let before = std::mem::replace(&mut known.from, name.to_owned());
                known.overrode.push(before);
            }
            None => self.provenance.push(Provenance {
                field: field.to_owned(),
                from: name.to_owned(),
                overrode: Vec::new(),
            }),
        }
    }
}

/// Objects and maps are joined by key; anything else is replaced as a whole.
fn overlay(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => overlay(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Processors that are set apart for the system cannot be enforced by a cgroup as well; pods always are.
fn reserve_processors(configuration: &mut Map<String, Value>) {
    if text(configuration, "reservedSystemCPUs").is_empty() {
        return;
    }
    configuration.remove("systemReservedCgroup");
    let enforced = configuration.get("enforceNodeAllocatable").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut kept: Vec<Value> =
        enforced.into_iter().filter(|it| it.as_str().is_none_or(|it| !SYSTEM_RESERVED.contains(&it))).collect();
    if !kept.iter().any(|it| it == "pods") {
        kept.insert(0, "pods".into());
    }
    configuration.insert("enforceNodeAllocatable".into(), kept.into());
}

/// The paths of all values that are no objects. Keys of maps may have dots in them, so they stand in brackets.
fn leaves(members: &Map<String, Value>, fields: &'static [Field]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in members {
        match (value, fields::find(fields, name).map(|field| field.kind)) {
            (Value::Object(members), Some(Kind::Object(inner))) => {
                found.extend(leaves(members, inner).into_iter().map(|inner| format!("{name}.{inner}")));
            }
            (Value::Object(members), _) => found.extend(members.keys().map(|key| format!("{name}[{key}]"))),
            _ => found.push(name.clone()),
        }
    }
    found
}
