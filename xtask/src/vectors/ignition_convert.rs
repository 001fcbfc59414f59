//! `ignition-convert`: one Ignition config of any version, lifted to the newest.

use serde_json::Value;

use super::judge::{Expected, Judge, Rule};

pub(crate) struct IgnitionConvert;

impl Judge for IgnitionConvert {
    fn file(&self) -> &'static str {
        "ignition-convert"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        ignition::parse(input).map(ignition::to_value).map_err(|error| error.to_string())
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        phrases(error)
    }
}

const RULES: &[Rule] = &[
    Rule { name: "spec-2-other-filesystem", covers: on_other_filesystem, answer: refuse_filesystem },
    Rule { name: "link-target-is-required", covers: has_link_without_target, answer: require_target },
    Rule { name: "advertisement-survives-lifting", covers: has_advertisement, answer: keep_advertisement },
];

/// Returns the parts of an Ignition error of which ours must contain one: the finding itself, for any finding of a
/// report.
pub(crate) fn phrases(error: &str) -> Vec<String> {
    if let Some((_, supported)) = error.split_once("parsing Ignition config failed: ") {
        return supported.split('.').next().map(str::to_owned).into_iter().collect();
    }
    if let Some((_, field)) = error.split_once("into Go struct field ") {
        let path = field.split(" of type").next().unwrap_or_default();
        return path.rsplit('.').next().map(str::to_owned).into_iter().collect();
    }
    let report = error.split_once("Report: ").map_or(error, |(_, report)| report);
    report
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("warning"))
        .map(|line| match line.strip_prefix("error at ").and_then(|rest| rest.split_once(": ")) {
            Some((_, finding)) => finding.to_owned(),
            None => tail(line).to_owned(),
        })
        .collect()
}

/// Returns the message without the prefixes of its source.
fn tail(line: &str) -> &str {
    const PREFIXES: &[&str] = &[
        "failed to convert Ignition config spec v2 to v3: ",
        "unable to convert Ignition spec v2 config to v3: ",
        "failed to migrate kernel args ",
        "Invalid input config: ",
        "error: ",
    ];
    PREFIXES.iter().fold(line, |line, prefix| line.strip_prefix(prefix).unwrap_or(line))
}

/// A spec-2 file, directory or link on a filesystem other than root. Its mount point is unknown, so we refuse it;
/// upstream writes it to the root filesystem.
pub(crate) fn on_other_filesystem(config: &Value) -> bool {
    let version = config["ignition"]["version"].as_str().unwrap_or_default();
    let elsewhere = |node: &Value| !matches!(node["filesystem"].as_str(), Some("root" | "") | None);
    ["2.0.0", "2.1.0", "2.2.0"].contains(&version)
        && ["files", "directories", "links"]
            .iter()
            .any(|list| config["storage"][list].as_array().is_some_and(|nodes| nodes.iter().any(elsewhere)))
}

/// Only a result becomes a refusal: inputs that upstream refuses are already refused for another reason.
pub(crate) fn refuse_filesystem(_: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Output(_) => Expected::Refusal(vec!["is not root".to_owned()]),
        refusal => refusal,
    }
}

/// A link without a target: older specs allow it, and upstream lifts it to a config that no newer spec accepts.
pub(crate) fn has_link_without_target(config: &Value) -> bool {
    let links = config["storage"]["links"].as_array().into_iter().flatten();
    links.into_iter().any(|link| link["target"].as_str().is_none_or(str::is_empty))
}

pub(crate) fn require_target(_: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Output(_) => Expected::Refusal(vec!["link target is required".to_owned()]),
        other => other,
    }
}

/// Specs 3.4 and 3.5 have the advertisement of a tang server, but upstream loses it when lifting.
fn has_advertisement(config: &Value) -> bool {
    let version = config["ignition"]["version"].as_str().unwrap_or_default();
    ["3.4.0", "3.5.0"].contains(&version) && volumes(config).any(|volume| volume.to_string().contains("advertisement"))
}

fn keep_advertisement(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    for (index, volume) in volumes(input).enumerate() {
        for (server, tang) in volume["clevis"]["tang"].as_array().into_iter().flatten().enumerate() {
            if let Some(advertisement) = tang.get("advertisement") {
                output["storage"]["luks"][index]["clevis"]["tang"][server]["advertisement"] = advertisement.clone();
            }
        }
    }
    Expected::Output(output)
}

fn volumes(config: &Value) -> impl Iterator<Item = &Value> {
    config["storage"]["luks"].as_array().into_iter().flatten()
}
