//! What a Machine needs before anything is done for it.

use api::labels::MACHINE_CLUSTER;
use api::machine::Machine;
use serde_json::Value;

/// Everything that is missing, in upstream's words: people search for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{machine}: machine validation failed: {}", listed(problems))]
pub struct Invalid {
    pub machine: String,
    pub problems: Vec<String>,
}

/// Whether a Machine can be acted on. Deletion does not ask.
pub(super) fn validate(machine: &Machine) -> Result<(), Invalid> {
    let mut problems = Vec::new();
    let labels = machine.metadata.labels.clone().unwrap_or_default();
    if labels.get(MACHINE_CLUSTER).is_none_or(String::is_empty) {
        let text = serde_json::to_string(&labels).unwrap_or_default();
        problems.push(format!("spec.labels: Invalid value: {text}: missing {MACHINE_CLUSTER} label."));
    }
    if provider_spec(machine).is_none() {
        problems.push("spec.spec.providerspec: Invalid value: {}: value field must be set".to_owned());
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Invalid { machine: machine.metadata.name.clone().unwrap_or_default(), problems })
}

/// The provider's part of a Machine, under its present or its older name.
pub fn provider_spec(machine: &Machine) -> Option<&Value> {
    machine.spec.provider_value()
}

fn listed(problems: &[String]) -> String {
    match problems {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
