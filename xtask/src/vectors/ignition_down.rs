//! `ignition-down`: a config in the version an older client asks for, and the kernel arguments that move.

use serde_json::{Value, json};

use super::ignition_convert::{on_other_filesystem, phrases, refuse_filesystem};
use super::judge::{Check, Expected, Judge, Rule};

pub(crate) struct IgnitionDown;

impl Judge for IgnitionDown {
    fn file(&self) -> &'static str {
        "ignition-down"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let config = ignition::parse(&input["config"]).map_err(|error| error.to_string())?;
        let version = ignition::Version::parse(input["version"].as_str().unwrap_or_default());
        let arguments = input["kernelArguments"].as_array().into_iter().flatten();
        let arguments = arguments.filter_map(Value::as_str).map(str::to_owned).collect();
        let lowered = version.and_then(|version| ignition::down::lower(config, version, arguments));
        let lowered = lowered.map_err(|error| error.to_string())?;
        let arguments = if lowered.kernel_arguments.is_empty() { Value::Null } else { json!(lowered.kernel_arguments) };
        Ok(json!({"config": lowered.config, "kernelArguments": arguments}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        if error.contains("is not supported the requested conversion is not supported") {
            return vec!["is not supported".to_owned()];
        }
        phrases(error)
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "spec-2-other-filesystem",
        covers: |input| on_other_filesystem(&input["config"]),
        answer: refuse_filesystem,
    },
    Rule { name: "cex-is-refused-below-3.5", covers: loses_cex, answer: |_, expected| refuse(expected, "cex") },
    Rule { name: "advertisement-is-kept-in-3.4", covers: keeps_advertisement, answer: keep_advertisement },
    Rule {
        name: "advertisement-is-refused-below-3.4",
        covers: |input| target(input) < "3.4.0" && !advertisements(input).is_empty(),
        answer: |_, expected| refuse(expected, "advertisement"),
    },
    Rule {
        name: "file-without-contents-is-refused-in-2.2",
        covers: |input| target(input) == "2.2.0" && files(input).any(is_without_contents),
        answer: |_, expected| refuse(expected, "without contents"),
    },
    Rule {
        name: "partition-changes-are-refused-in-2.2",
        covers: |input| target(input) == "2.2.0" && partitions(input).any(loses_partition),
        answer: |_, expected| refuse(expected, "in Storage.Disks.Partitions"),
    },
    Rule {
        name: "mount-point-is-a-whole-path",
        covers: |input| target(input) == "2.2.0" && shares_prefix(input),
        answer: place,
    },
];

/// A result becomes a refusal; a refusal may now also be for this reason.
fn refuse(expected: Expected, phrase: &str) -> Expected {
    match expected {
        Expected::Output(_) => Expected::Refusal(vec![phrase.to_owned()]),
        Expected::Refusal(mut phrases) => {
            phrases.push(phrase.to_owned());
            Expected::Refusal(phrases)
        }
        Expected::Checked(_) => Expected::Refusal(vec![phrase.to_owned()]),
    }
}

fn target(input: &Value) -> &str {
    input["version"].as_str().unwrap_or_default()
}

fn list<'a>(input: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    input["config"]["storage"][name].as_array().into_iter().flatten()
}

fn files(input: &Value) -> impl Iterator<Item = &Value> {
    list(input, "files")
}

fn partitions(input: &Value) -> impl Iterator<Item = &Value> {
    list(input, "disks").flat_map(|disk| disk["partitions"].as_array().into_iter().flatten())
}

/// The version that the config is written in; fields that this version lacks are ignored.
fn source(input: &Value) -> &str {
    input["config"]["ignition"]["version"].as_str().unwrap_or_default()
}

fn loses_cex(input: &Value) -> bool {
    source(input) == "3.5.0"
        && target(input) < "3.5.0"
        && list(input, "luks").any(|luks| luks["cex"]["enabled"] == json!(true))
}

/// Returns positions and texts of the advertisements in a config.
fn advertisements(input: &Value) -> Vec<(usize, usize, Value)> {
    let mut found = Vec::new();
    if source(input) < "3.4.0" {
        return found;
    }
    for (index, luks) in list(input, "luks").enumerate() {
        for (server, tang) in luks["clevis"]["tang"].as_array().into_iter().flatten().enumerate() {
            if tang["advertisement"].as_str().is_some_and(|text| !text.is_empty()) {
                found.push((index, server, tang["advertisement"].clone()));
            }
        }
    }
    found
}

fn keeps_advertisement(input: &Value) -> bool {
    target(input) == "3.4.0" && !advertisements(input).is_empty()
}

fn keep_advertisement(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    for (index, server, text) in advertisements(input) {
        output["config"]["storage"]["luks"][index]["clevis"]["tang"][server]["advertisement"] = text;
    }
    Expected::Output(output)
}

fn is_without_contents(file: &Value) -> bool {
    file["contents"]["source"].is_null() && file["append"].as_array().is_none_or(Vec::is_empty)
}

fn loses_partition(partition: &Value) -> bool {
    partition["shouldExist"] == json!(false) || partition["wipePartitionEntry"] == json!(true)
}

/// Whether some path has a mount point as prefix without lying below it: upstream splits such a path.
fn shares_prefix(input: &Value) -> bool {
    let mounts: Vec<&str> = list(input, "filesystems").filter_map(|each| each["path"].as_str()).collect();
    nodes(input)
        .any(|(_, path)| mounts.iter().any(|mount| path.strip_prefix(mount).is_some_and(|rest| !rest.starts_with('/'))))
}

fn nodes(input: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    ["directories", "files", "links"]
        .into_iter()
        .flat_map(|kind| list(input, kind).filter_map(move |node| Some((kind, node["path"].as_str()?))))
}

/// Upstream's result for such an input is a relative path, which it then refuses itself.
fn place(_: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Refusal(phrases) if phrases.iter().any(|phrase| phrase.contains("path not absolute")) => {
            Expected::Checked(Check(misplaced))
        }
        other => other,
    }
}

/// The mount point and the path inside it must combine to the original path.
fn misplaced(input: &Value, ours: &Value) -> Option<String> {
    ["directories", "files", "links"].into_iter().find_map(|kind| {
        let given: Vec<String> =
            list(input, kind).filter_map(|node| node["path"].as_str().map(str::to_owned)).collect();
        list(ours, kind).find_map(|node| {
            let [mount, inside] = ["filesystem", "path"].map(|field| node[field].as_str().unwrap_or_default());
            let mount = if mount == "root" { "" } else { mount.trim_end_matches('/') };
            let whole = format!("{mount}{inside}");
            let known = given.iter().any(|path| *path == whole || format!("{path}/") == whole);
            (!known).then(|| format!("{kind} {whole:?} was not asked for"))
        })
    })
}
