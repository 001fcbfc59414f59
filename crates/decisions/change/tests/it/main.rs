//! The whole way from two configs to a verdict, as callers use it.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests read the committed vectors and the clock")]

mod differences;
mod disruption;
mod fuzz;
#[path = "../../../../vocabulary/ignition/tests/it/mutate.rs"]
mod mutate;
mod properties;
mod reconcilable;

use api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use change::content::Content;
use change::diff::Diff;
use serde_json::{Value, json};

/// A config of the newest spec with these Ignition sections.
fn config(sections: Value) -> MachineConfig {
    let mut ignition = json!({"ignition": {"version": "3.5.0"}});
    for (name, section) in sections.as_object().unwrap() {
        ignition[name] = section.clone();
    }
    MachineConfig::new("rendered-worker-1", MachineConfigSpec { config: Some(ignition), ..Default::default() })
}

fn files(files: Value) -> MachineConfig {
    config(json!({"storage": {"files": files}}))
}

fn units(units: Value) -> MachineConfig {
    config(json!({"systemd": {"units": units}}))
}

fn users(users: Value) -> MachineConfig {
    config(json!({"passwd": {"users": users}}))
}

fn content(config: &MachineConfig) -> Content {
    Content::read(config).unwrap()
}

fn between(old: &MachineConfig, new: &MachineConfig) -> Diff {
    Diff::between(&content(old), &content(new))
}
