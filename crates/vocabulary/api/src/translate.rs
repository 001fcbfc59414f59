//! Older spellings of fields, and their translation to current ones.
//!
//! The schemas accept both, so an object may be stored with the older spelling. Readers of such an object translate it
//! first; commands that take objects from users show the warnings. Nothing here writes to a cluster.

use std::fmt;

use serde_json::{Map, Value};

use crate::{cluster, machine, machineconfiguration};

/// A field with an older spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Path of the field in the input.
    pub field: String,
    /// Path of the field with its current spelling.
    pub instead: String,
    /// Whether both spellings were given. Then the older one is ignored.
    pub ignored: bool,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, instead, ignored } = self;
        if *ignored {
            write!(formatter, "{field} is ignored because {instead}, its spelling of today, is given too")
        } else {
            write!(formatter, "{field} is an older spelling; use {instead}")
        }
    }
}

/// A kind with older spellings of some fields.
pub trait Translate {
    /// Moves fields with older spellings to their current place.
    fn translate(&mut self) -> Vec<Warning>;
}

impl Translate for machineconfiguration::MachineConfigPool {
    fn translate(&mut self) -> Vec<Warning> {
        let Self { spec, .. } = self;
        settle("spec", MACHINE_SELECTOR, &mut spec.machine_selector, &mut spec.node_selector)
    }
}

impl Translate for machine::Machine {
    fn translate(&mut self) -> Vec<Warning> {
        let Self { spec, .. } = self;
        settle_provider("spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

impl Translate for machine::MachineSet {
    fn translate(&mut self) -> Vec<Warning> {
        let Some(spec) = self.spec.template.as_mut().and_then(|template| template.spec.as_mut()) else {
            return Vec::new();
        };
        settle_provider("spec.template.spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

impl Translate for machine::MachineDeployment {
    fn translate(&mut self) -> Vec<Warning> {
        let Some(spec) = self.spec.template.spec.as_mut() else {
            return Vec::new();
        };
        settle_provider("spec.template.spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

impl Translate for cluster::Machine {
    fn translate(&mut self) -> Vec<Warning> {
        let Self { spec, .. } = self;
        settle_provider("spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

impl Translate for cluster::MachineSet {
    fn translate(&mut self) -> Vec<Warning> {
        let Some(spec) = self.spec.template.as_mut().and_then(|template| template.spec.as_mut()) else {
            return Vec::new();
        };
        settle_provider("spec.template.spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

impl Translate for cluster::MachineDeployment {
    fn translate(&mut self) -> Vec<Warning> {
        let Some(spec) = self.spec.template.spec.as_mut() else {
            return Vec::new();
        };
        settle_provider("spec.template.spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

impl Translate for cluster::Cluster {
    fn translate(&mut self) -> Vec<Warning> {
        let Self { spec, .. } = self;
        settle_provider("spec", &mut spec.provider_config, &mut spec.provider_spec)
    }
}

/// Translates an object of any kind, such as one read from a file. Kinds without older spellings are not changed.
pub fn translate(object: &mut Value) -> Vec<Warning> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some((group, _)) = api_version.split_once('/') else {
        return Vec::new();
    };
    let (path, spelling) = match (group, kind.as_str()) {
        (machineconfiguration::GROUP, "MachineConfigPool") => ("spec", MACHINE_SELECTOR),
        (machine::GROUP | cluster::GROUP, "Machine") | (cluster::GROUP, "Cluster") => ("spec", PROVIDER_CONFIG),
        (machine::GROUP | cluster::GROUP, "MachineSet" | "MachineDeployment") => {
            ("spec.template.spec", PROVIDER_CONFIG)
        }
        _ => return Vec::new(),
    };
    let pointer = format!("/{}", path.replace('.', "/"));
    let Some(fields) = object.pointer_mut(&pointer).and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    move_key(fields, path, spelling)
}

/// The older key, the current key, and the rest of the path below both.
type Spelling = (&'static str, &'static str, &'static str);

const MACHINE_SELECTOR: Spelling = ("machineSelector", "nodeSelector", "");
const PROVIDER_CONFIG: Spelling = ("providerConfig", "providerSpec", ".value");

fn warning(path: &str, (old, new, below): Spelling, ignored: bool) -> Warning {
    Warning { field: format!("{path}.{old}{below}"), instead: format!("{path}.{new}{below}"), ignored }
}

fn settle<T>(path: &str, spelling: Spelling, old: &mut Option<T>, new: &mut Option<T>) -> Vec<Warning> {
    let Some(value) = old.take() else {
        return Vec::new();
    };
    let ignored = new.is_some();
    new.get_or_insert(value);
    vec![warning(path, spelling, ignored)]
}

/// A provider's part that is empty says nothing, so the older spelling stands for it.
fn settle_provider<T: Default + PartialEq>(path: &str, old: &mut Option<T>, new: &mut Option<T>) -> Vec<Warning> {
    if old.is_some() {
        new.take_if(|new| *new == T::default());
    }
    settle(path, PROVIDER_CONFIG, old, new)
}

fn move_key(fields: &mut Map<String, Value>, path: &str, spelling: Spelling) -> Vec<Warning> {
    let (old, new, _) = spelling;
    let Some(value) = fields.remove(old).filter(|value| !value.is_null()) else {
        return Vec::new();
    };
    // A provider's part without a value says nothing. Selectors do when they are empty: they select everything.
    let says = |value: &Value| match value.as_object() {
        Some(fields) if spelling == PROVIDER_CONFIG => fields.values().any(|value| !value.is_null()),
        _ => !value.is_null(),
    };
    let ignored = fields.get(new).is_some_and(says);
    if !ignored {
        fields.insert(new.to_owned(), value);
    }
    vec![warning(path, spelling, ignored)]
}
