//! `config-diff`: which files and units differ between two configs.

use change::content::{Content, Unit};
use change::diff::{Diff, Kind};
use serde_json::{Value, json};

use super::judge::{Expected, Judge, Rule};
use super::{machine_config, same};

pub(crate) struct ConfigDiff;

impl Judge for ConfigDiff {
    fn file(&self) -> &'static str {
        "config-diff"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let (old, new) = machine_config::contents(input)?;
        let diff = Diff::between(&old, &new);
        let files: Vec<_> = diff.files.iter().map(|change| &change.name).collect();
        let units = |kind: Kind| -> Vec<Value> {
            let changes = diff.units.iter().filter(|change| change.kind() == kind);
            let sides =
                changes.filter_map(|change| Some((&change.name, change.after.as_ref().or(change.before.as_ref())?)));
            sides.map(|(name, unit)| write(name, unit)).collect()
        };
        let (added, removed, updated) = (units(Kind::Added), units(Kind::Removed), units(Kind::Updated));
        Ok(json!({"files": files, "units": {"Added": added, "Removed": removed, "Updated": updated}}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    /// Both results are sets: files by path, units by name. Units are normalized before they are compared.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let sets = |answer: &Value| {
            let units = |field: &str| {
                let units = answer["units"][field].as_array().cloned().unwrap_or_default();
                same::as_set(&Value::Array(units.iter().map(rewritten).collect()))
            };
            json!({
                "files": same::as_set(&json!(answer["files"].as_array().cloned().unwrap_or_default())),
                "added": units("Added"), "removed": units("Removed"), "updated": units("Updated"),
            })
        };
        same::difference(&sets(expected), &sets(ours))
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "spec-2-other-filesystem",
        covers: machine_config::either_on_other_filesystem,
        answer: machine_config::refuse_filesystem,
    },
    Rule { name: "same-effect", covers: has_same_effect, answer: without_same_effect },
];

/// Whether an entry on both sides differs only in form: the same bytes in another encoding, or an explicit default.
fn has_same_effect(input: &Value) -> bool {
    let Ok((old, new)) = machine_config::contents(input) else { return false };
    old.files.iter().any(|(path, file)| new.files.get(path) == Some(file))
        || old.units.iter().any(|(name, unit)| new.units.get(name) == Some(unit))
}

/// A difference in form is not a difference.
fn without_same_effect(input: &Value, expected: Expected) -> Expected {
    let (Expected::Output(mut output), Ok((old, new))) = (expected.clone(), machine_config::contents(input)) else {
        return expected;
    };
    if let Some(Value::Array(files)) = output.get_mut("files") {
        files.retain(|path| path.as_str().is_none_or(|path| old.files.get(path) != new.files.get(path)));
    }
    if let Some(Value::Array(units)) = output.pointer_mut("/units/Updated") {
        units.retain(|unit| unit["name"].as_str().is_none_or(|name| old.units.get(name) != new.units.get(name)));
    }
    Expected::Output(output)
}

/// Parses and writes a unit with our own code, so that two forms of one unit are equal.
fn rewritten(unit: &Value) -> Value {
    let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": [unit]}});
    match ignition::parse(&config).map(|config| Content::of_ignition(config).units) {
        Ok(units) => units.iter().map(|(name, unit)| write(name, unit)).collect(),
        Err(_) => unit.clone(),
    }
}

fn write(name: &str, unit: &Unit) -> Value {
    let dropins: Vec<_> = unit.dropins.iter().map(|(name, text)| json!({"name": name, "contents": text})).collect();
    json!({"name": name, "contents": unit.contents, "enabled": unit.enabled, "mask": unit.mask, "dropins": dropins})
}
