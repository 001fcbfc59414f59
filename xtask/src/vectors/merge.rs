//! `merge`: a pool's fragments, in any order, to the spec of its rendered config.
//!
//! We merge a file's contents as a unit and upstream does not: see the rules. They compute the result from the input by
//! finding the last fragment for each field, not by calling the code that is judged.

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use serde_json::{Value, json};

use super::ignition_convert;
use super::judge::{Expected, Judge, Rule};
use super::same;

pub(crate) struct Merge;

impl Judge for Merge {
    fn file(&self) -> &'static str {
        "merge"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
        let fragments: Vec<MachineConfig> = input["machineConfigs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(read)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let settings = render::Settings {
            os_image: text("baseOSContainerImage"),
            extensions_image: text("baseOSExtensionsContainerImage"),
            keep_remote: true,
            ..render::Settings::default()
        };
        let rendered = render::render(&pool_of_all(), &fragments, &settings, &render::Fetched::default());
        let spec = rendered.map_err(|error| error.to_string())?.machine_config.spec;
        serde_json::to_value(spec).map_err(|error| error.to_string())
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    /// The spec is compared as a Kubernetes object, but the Ignition config in it exactly.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let split = |spec: &Value| {
            let mut spec = spec.clone();
            let config = spec["config"].take();
            (spec, config)
        };
        let ((expected, expected_config), (ours, ours_config)) = (split(expected), split(ours));
        same::object_difference(&expected, &ours).or_else(|| same::difference(&expected_config, &ours_config))
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        ignition_convert::phrases(error)
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "spec-2-other-filesystem",
        covers: any_on_other_filesystem,
        answer: ignition_convert::refuse_filesystem,
    },
    Rule { name: "link-target-is-required", covers: any_link_without_target, answer: ignition_convert::require_target },
    Rule { name: "special-mode-bits-are-refused", covers: has_special_mode, answer: refuse_mode },
    Rule { name: "contents-travel-whole", covers: shares_a_path, answer: whole_contents },
    Rule { name: "owner-by-id-or-by-name", covers: shares_a_path, answer: one_owner },
    Rule { name: "no-overwrite-without-contents", covers: has_file_without_contents, answer: no_overwrite },
];

fn read(fragment: &Value) -> serde_json::Result<MachineConfig> {
    let mut fragment = fragment.clone();
    fragment["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
    fragment["kind"] = json!("MachineConfig");
    same_lists(&mut fragment["spec"]);
    serde_json::from_value(fragment)
}

/// Go writes `null` for a nil slice.
fn same_lists(spec: &mut Value) {
    for field in ["extensions", "kernelArguments"] {
        if spec[field].is_null() {
            spec[field] = json!([]);
        }
    }
}

fn pool_of_all() -> MachineConfigPool {
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "worker"},
        "spec": {"machineConfigSelector": {"matchExpressions": [
            {"key": "no-fragment-has-this-label", "operator": "DoesNotExist"},
        ]}},
    });
    serde_json::from_value(pool).expect("the pool is well formed")
}

fn any_on_other_filesystem(input: &Value) -> bool {
    fragments(input).iter().any(|fragment| ignition_convert::on_other_filesystem(&fragment["spec"]["config"]))
}

fn any_link_without_target(input: &Value) -> bool {
    fragments(input).iter().any(|fragment| ignition_convert::has_link_without_target(&fragment["spec"]["config"]))
}

/// Returns the fragments in merge order: those of worker first, then the others, each by name.
fn fragments(input: &Value) -> Vec<&Value> {
    let mut fragments: Vec<&Value> = input["machineConfigs"].as_array().into_iter().flatten().collect();
    fragments.sort_by_key(|fragment| {
        let role = fragment["metadata"]["labels"]["machineconfiguration.openshift.io/role"].as_str();
        (role != Some("worker"), fragment["metadata"]["name"].as_str())
    });
    fragments
}

fn files(input: &Value) -> impl Iterator<Item = &Value> {
    let fragments = input["machineConfigs"].as_array().into_iter().flatten();
    fragments.flat_map(|fragment| fragment["spec"]["config"]["storage"]["files"].as_array().into_iter().flatten())
}

/// Upstream's merge allows such a mode and its next check refuses it; ours is one step.
fn has_special_mode(input: &Value) -> bool {
    files(input).any(|file| file["mode"].as_i64().is_some_and(|mode| mode > 0o777))
}

fn refuse_mode(_: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Output(_) => Expected::Refusal(vec!["cannot exceed 0777".to_owned()]),
        other => other,
    }
}

fn shares_a_path(input: &Value) -> bool {
    let mut seen = std::collections::HashSet::new();
    files(input).any(|file| !seen.insert(file["path"].as_str().unwrap_or_default()))
}

fn has_file_without_contents(input: &Value) -> bool {
    files(input).any(|file| file["contents"]["source"].is_null())
}

/// Upstream merges source, compression and hash of a file separately, so a hash outlives its contents, and a fragment
/// that only sets the mode removes the compression. We keep them together.
fn whole_contents(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let Some(files) = output["config"]["storage"]["files"].as_array_mut() else { return Expected::Output(output) };
    for file in files {
        let Some(contents) = last_contents(input, file["path"].as_str().unwrap_or_default()) else { continue };
        let spoken = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        for (pointer, parent) in [("/compression", None), ("/verification/hash", Some("verification"))] {
            let wanted = contents.pointer(pointer).filter(|value| spoken(value)).cloned().unwrap_or(Value::Null);
            let found = file["contents"].pointer(pointer).cloned().unwrap_or(Value::Null);
            if wanted != found {
                let target = match parent {
                    Some(parent) => &mut file["contents"][parent],
                    None => &mut file["contents"],
                };
                target[pointer.rsplit('/').next().unwrap_or_default()] = wanted;
            }
        }
    }
    Expected::Output(output)
}

/// Returns the last `contents` with a source for this path; within a spec-2 fragment the last entry counts.
fn last_contents<'a>(input: &'a Value, path: &str) -> Option<&'a Value> {
    let mut last = None;
    for fragment in fragments(input) {
        let config = &fragment["spec"]["config"];
        let spec2 = config["ignition"]["version"].as_str().is_some_and(|version| version.starts_with("2."));
        for file in config["storage"]["files"].as_array().into_iter().flatten() {
            let whole = spec2 && file["append"] != json!(true) || file["contents"]["source"].is_string();
            if file["path"] == path && whole && !(spec2 && file["append"] == json!(true)) {
                last = Some(&file["contents"]);
            }
        }
        let replaced = ["directories", "links"].iter().any(|list| {
            let nodes = config["storage"][list].as_array();
            nodes.is_some_and(|nodes| nodes.iter().any(|node| node["path"] == path))
        });
        last = last.filter(|_| !replaced);
    }
    last
}

/// Upstream combines an owner's id from one fragment with the name from another, which no node accepts; we keep the
/// last form.
fn one_owner(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    for list in ["files", "directories", "links"] {
        for node in output["config"]["storage"][list].as_array_mut().into_iter().flatten() {
            let path = node["path"].as_str().unwrap_or_default().to_owned();
            for owner in ["user", "group"] {
                let both = |node: &Value| {
                    node.get(owner).is_some_and(|owner| owner["id"].is_number() && owner["name"].is_string())
                };
                if both(node) {
                    node[owner] = last_owner(input, list, &path, owner);
                }
            }
        }
    }
    Expected::Output(output)
}

fn last_owner(input: &Value, list: &str, path: &str, owner: &str) -> Value {
    let given =
        |node: &&Value| node["path"] == path && (!node[owner]["id"].is_null() || !node[owner]["name"].is_null());
    let mut nodes = fragments(input)
        .into_iter()
        .flat_map(|fragment| fragment["spec"]["config"]["storage"][list].as_array().into_iter().flatten());
    nodes.rfind(given).map_or(Value::Null, |node| node[owner].clone())
}

/// Upstream also sets `overwrite` on a file without contents, which makes the rendered config invalid.
fn no_overwrite(_: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    for file in output["config"]["storage"]["files"].as_array_mut().into_iter().flatten() {
        if file["contents"]["source"].is_null() && file["overwrite"] == json!(true) {
            file["overwrite"] = Value::Null;
        }
    }
    Expected::Output(output)
}
