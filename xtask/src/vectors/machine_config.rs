//! Parses the MachineConfigs of a vector. Go writes nulls and empty values where users write nothing.

use api::machineconfiguration::MachineConfig;
use change::content::Content;
use serde_json::Value;

use super::ignition_convert::on_other_filesystem;
use super::judge::Expected;

/// Parses the `old` and `new` of an input; the error is the refusal of the first one that is invalid.
pub(super) fn contents(input: &Value) -> Result<(Content, Content), String> {
    let (old, new) = (read(&input["old"])?, read(&input["new"])?);
    Content::read_both(&old, &new).map_err(|error| format!("{error}: {}", error.source))
}

/// Parses one MachineConfig. The Ignition config is kept as it is; elsewhere nulls mean missing.
fn read(value: &Value) -> Result<MachineConfig, String> {
    let mut value = value.clone();
    value["apiVersion"] = "machineconfiguration.openshift.io/v1".into();
    value["kind"] = "MachineConfig".into();
    if let Some(Value::Object(spec)) = value.get_mut("spec") {
        spec.retain(|_, field| !field.is_null());
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Whether either side has a spec-2 entry on a filesystem other than root.
pub(super) fn either_on_other_filesystem(input: &Value) -> bool {
    ["old", "new"].iter().any(|side| on_other_filesystem(&input[side]["spec"]["config"]))
}

/// Such a config is refused when it is parsed, before anything is compared. If upstream cannot parse one of the two
/// either, both refusals are accepted.
pub(super) fn refuse_filesystem(_: &Value, expected: Expected) -> Expected {
    let phrase = "is not root".to_owned();
    match expected {
        Expected::Refusal(mut phrases) => {
            phrases.push(phrase);
            Expected::Refusal(phrases)
        }
        _ => Expected::Refusal(vec![phrase]),
    }
}
