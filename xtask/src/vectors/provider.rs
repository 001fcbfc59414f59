//! `provider-*`: defaults and verdicts of the webhook for the providerSpecs of a platform.
//!
//! Errors and warnings are compared as sets of field paths and error types; the sentences are ours.

use std::collections::{BTreeMap, BTreeSet};

use machine::provider::{Architecture, SpecRules, Surroundings};
use machine::spec::labels;
use serde_json::{Value, json};

use super::judge::{Expected, Judge, Rule};
use super::same;

/// The label with a Machine's cluster.
const CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";

pub(crate) struct Provider {
    pub(crate) file: &'static str,
    pub(crate) spec: &'static dyn SpecRules,
}

impl Judge for Provider {
    fn file(&self) -> &'static str {
        self.file
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let mut labels = strings(&input["machine"]["metadata"]["labels"]);
        let surroundings = surroundings(input, &labels);
        let mut value = input["machine"]["spec"]["providerSpec"]["value"].clone();
        let mut answer = json!({});
        if input["defaulting"] == json!(true) {
            value = self.spec.default(&value, &surroundings).map_err(|problem| problem.to_string())?;
            labels::default_cluster(&mut labels, &surroundings.cluster);
            answer = json!({"defaulted": value, "clusterLabel": labels.get(CLUSTER)});
        }
        let verdict = self.spec.validate(&value, &surroundings);
        let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
        answer["allowed"] = json!(problems.is_empty());
        answer["errors"] = json!(problems);
        answer["warnings"] = json!(verdict.warnings);
        Ok(answer)
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let keyed = |output: &Value| {
            let mut output = output.clone();
            output["errors"] = keys(&output["errors"], fault);
            output["warnings"] = keys(&output["warnings"], subject);
            output
        };
        same::object_difference(&keyed(expected), &keyed(ours))
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        vec![fault(error.strip_prefix("defaulting: ").unwrap_or(error))]
    }
}

fn surroundings(input: &Value, labels: &BTreeMap<String, String>) -> Surroundings {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut platform_status = json!({"type": input["platform"]});
    if let Some(region) = input["awsRegion"].as_str() {
        platform_status["aws"] = json!({"region": region});
    }
    if let Some(cloud) = input["azureCloud"].as_str() {
        platform_status["azure"] = json!({"cloudName": cloud});
    }
    let gates = [("vSphereHostVMGroupZonal", "VSphereHostVMGroupZonal")];
    let secrets = input["secrets"].as_array().into_iter().flatten();
    Surroundings {
        cluster: text(&input["clusterID"]),
        machine: text(&input["machine"]["metadata"]["name"]),
        namespace: text(&input["machine"]["metadata"]["namespace"]),
        control_plane: labels::is_control_plane(labels),
        template: false,
        architecture: if input["arch"] == json!("arm64") { Architecture::Arm64 } else { Architecture::Amd64 },
        platform_status,
        public_dns: input["publicDNSZone"] == json!(true),
        features: gates
            .iter()
            .filter(|(key, _)| input[key] == json!(true))
            .map(|(_, gate)| (*gate).to_owned())
            .collect(),
        secrets: Some(secrets.map(text).collect()),
    }
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn keys(lines: &Value, key: fn(&str) -> String) -> Value {
    let lines = lines.as_array().into_iter().flatten().filter_map(Value::as_str);
    json!(lines.map(key).collect::<BTreeSet<_>>())
}

/// Returns field path and error type: `providerSpec.ami: Required value`.
fn fault(error: &str) -> String {
    error.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")
}

/// Returns the subject of a warning: a field, an unknown field by its own name, or the identity of the spec.
fn subject(warning: &str) -> String {
    if warning.contains("incorrect GroupVersionKind") {
        return "GroupVersionKind".to_owned();
    }
    if let Some((_, rest)) = warning.split_once("Unknown field (") {
        return format!("unknown {}", rest.split(')').next().unwrap_or_default());
    }
    if let Some((path, _)) = warning.split_once(": unknown field") {
        return format!("unknown {}", path.rsplit('.').next().unwrap_or_default());
    }
    match warning {
        "spot VMs may not be supported when using GovCloud region" => return "providerSpec.spotVMOptions".to_owned(),
        _ if warning.starts_with("linkedClone clone mode") => return "providerSpec.cloneMode".to_owned(),
        _ => {}
    }
    let start = warning.find("providerSpec").unwrap_or_default();
    warning[start..].split([':', ',', ' ']).next().unwrap_or_default().to_owned()
}

const RULES: &[Rule] = &[
    Rule { name: "paths-lead-to-the-field", covers: |_| true, answer: right_paths },
    Rule {
        name: "unknown-fields-survive-defaulting",
        covers: |input| input["defaulting"] == json!(true),
        answer: keep_unknown,
    },
    Rule {
        name: "an-empty-secret-name-is-none",
        covers: |input| input["defaulting"] == json!(true),
        answer: name_secrets,
    },
];

/// Upstream's field paths and error types that do not fit the field, and ours.
const PATHS: &[(&str, &str, &str)] = &[
    ("AWS", "spec.placement.", "providerSpec.placement."),
    ("AWS", "providerSpec.tenancy", "providerSpec.placement.tenancy"),
    ("AWS", "providerSpec.CPUOptions.ConfidentialCompute", "providerSpec.cpuOptions.confidentialCompute"),
    ("AWS", "providerSpec.CPUOptions", "providerSpec.cpuOptions"),
    ("Azure", "providerSpec.image.Offer", "providerSpec.image.offer"),
    ("Azure", "providerSpec.image.Publisher", "providerSpec.image.publisher"),
    ("Azure", "providerSpec.image.SKU", "providerSpec.image.sku"),
    ("Azure", "providerSpec.image.Version", "providerSpec.image.version"),
    ("Azure", "providerSpec.image.resourceID: Required value", "providerSpec.image.resourceID: Invalid value"),
    ("GCP", "providerSpec.gpus.Type", "providerSpec.gpus[0].type"),
    ("VSphere", "providerSpec.disks", "providerSpec.dataDisks"),
    ("VSphere", "providerSpec.tagIDs: Required value", "providerSpec.tagIDs: Invalid value"),
];

fn right_paths(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let platform = input["platform"].as_str().unwrap_or_default();
    for error in output["errors"].as_array_mut().into_iter().flatten() {
        let mut text = error.as_str().unwrap_or_default().to_owned();
        for (_, wrong, right) in PATHS.iter().filter(|(of, _, _)| *of == platform) {
            if let Some(rest) = text.strip_prefix(wrong) {
                text = format!("{right}{rest}");
            }
        }
        // We report the mode of a disk at the disk.
        if platform == "VSphere" && text.contains("]: Unsupported value") {
            text = text.replace("]: Unsupported value", "].provisioningMode: Unsupported value");
        }
        *error = json!(text);
    }
    Expected::Output(output)
}

/// Fields that are in the input and not in upstream's defaulted spec are unknown to upstream.
fn keep_unknown(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let given = same::without_zero(&input["machine"]["spec"]["providerSpec"]["value"]);
    let mut defaulted = output["defaulted"].take();
    let mut unknown = Vec::new();
    put_back(&given, &mut defaulted, &mut unknown);
    output["defaulted"] = defaulted;
    if let Some(warnings) = output["warnings"].as_array_mut() {
        warnings.extend(unknown.iter().map(|name| json!(format!("Unknown field ({name})"))));
    }
    Expected::Output(output)
}

fn put_back(given: &Value, defaulted: &mut Value, unknown: &mut Vec<String>) {
    match (given, defaulted) {
        (Value::Object(given), Value::Object(defaulted)) => {
            for (key, given) in given {
                match defaulted.get_mut(key) {
                    Some(defaulted) => put_back(given, defaulted, unknown),
                    None => {
                        defaulted.insert(key.clone(), given.clone());
                        unknown.push(key.clone());
                    }
                }
            }
        }
        (Value::Array(given), Value::Array(defaulted)) => {
            for (given, defaulted) in given.iter().zip(defaulted) {
                put_back(given, defaulted, unknown);
            }
        }
        _ => {}
    }
}

/// On some platforms upstream does not default an empty name of a Secret and reports it afterwards.
fn name_secrets(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let platform = input["platform"].as_str().unwrap_or_default().to_lowercase();
    let credentials = format!("{platform}-cloud-credentials");
    let named = |spec: &Value, field: &str| spec[field]["name"].as_str().is_some_and(|name| !name.is_empty());
    for (field, name) in [("userDataSecret", "worker-user-data"), ("credentialsSecret", credentials.as_str())] {
        if !output["defaulted"].is_object() || named(&output["defaulted"], field) {
            continue;
        }
        output["defaulted"][field]["name"] = json!(name);
        without(&mut output["errors"], &format!("providerSpec.{field}.name:"));
        without(&mut output["warnings"], &format!("providerSpec.{field}:"));
        let exists = input["secrets"].as_array().is_some_and(|secrets| secrets.contains(&json!(name)));
        if field == "credentialsSecret"
            && !exists
            && let Some(warnings) = output["warnings"].as_array_mut()
        {
            warnings.push(json!("providerSpec.credentialsSecret: not found"));
        }
    }
    output["allowed"] = json!(output["errors"].as_array().is_none_or(Vec::is_empty));
    Expected::Output(output)
}

fn without(lines: &mut Value, start: &str) {
    if let Some(lines) = lines.as_array_mut() {
        lines.retain(|line| !line.as_str().is_some_and(|line| line.starts_with(start)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_compared_by_their_subject() {
        let subjects = [
            ("can't use providerSpec.ami.arn, only providerSpec.ami.id can be used", "providerSpec.ami.arn"),
            ("providerSpec.ami.arn: is not used; name the image in ami.id", "providerSpec.ami.arn"),
            (r#"providerSpec.value: Unsupported value: "x": Unknown field (x) will be ignored"#, "unknown x"),
            ("providerSpec.a[0].x: unknown field, which is ignored", "unknown x"),
            ("incorrect GroupVersionKind for AWSMachineProviderConfig object: /, Kind=", "GroupVersionKind"),
        ];
        for (warning, expected) in subjects {
            assert_eq!(subject(warning), expected);
        }
    }

    #[test]
    fn fields_that_upstream_dropped_are_restored() {
        let given = json!({"a": {"b": 1, "x": 2}, "y": "z"});
        let mut defaulted = json!({"a": {"b": 1}, "c": 3});
        let mut unknown = Vec::new();
        put_back(&given, &mut defaulted, &mut unknown);
        assert_eq!(defaulted, json!({"a": {"b": 1, "x": 2}, "c": 3, "y": "z"}));
        assert_eq!(unknown, ["x", "y"]);
    }
}
