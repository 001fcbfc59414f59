//! `machine-admission`: which Machines and MachineSets are admitted.

use machine::admission::{review_machine, review_set};
use serde_json::{Value, json};

use super::judge::{Expected, Judge, Rule};
use super::machines::object;
use super::same;

pub(crate) struct MachineAdmission;

impl Judge for MachineAdmission {
    fn file(&self) -> &'static str {
        "machine-admission"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let (old, new) = (&input["old"], &input["new"]);
        let review = if input["kind"] == json!("MachineSet") {
            let old = (!old.is_null()).then(|| object(old)).transpose()?;
            review_set(old.as_ref(), &object(new)?)
        } else {
            let old = (!old.is_null()).then(|| object(old)).transpose()?;
            review_machine(old.as_ref(), &object(new)?, None)
        };
        Ok(json!({"allowed": review.is_allowed(), "errors": same::as_set(&json!(review.errors))}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let mut expected = expected.clone();
        expected["errors"] = same::as_set(&expected["errors"]);
        same::difference(&expected, ours)
    }
}

const RULES: &[Rule] = &[
    // Upstream admits these, and its controller later refuses them or hangs.
    Rule {
        name: "what-the-controller-would-refuse-is-refused",
        covers: |input| input["kind"] == json!("MachineSet"),
        answer: refused,
    },
];

fn refused(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let spec = &input["new"]["spec"];
    let empty = ["matchLabels", "matchExpressions"].iter().all(|key| match &spec["selector"][*key] {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    });
    let mut errors: Vec<_> = super::fleet::list(&output["errors"]).cloned().collect();
    if empty {
        errors.retain(|error| !error.as_str().unwrap_or_default().contains("does not match template"));
        errors.push(json!("spec.selector: Invalid value: {}: empty selector is not valid for MachineSet."));
    }
    if let Some(replicas) = spec["replicas"].as_i64().filter(|replicas| *replicas < 0) {
        errors.push(json!(format!("spec.replicas: Invalid value: {replicas}: must not be negative")));
    }
    output["allowed"] = json!(errors.is_empty());
    output["errors"] = json!(errors);
    Expected::Output(output)
}
