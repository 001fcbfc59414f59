//! `scale-from-zero`: the capacity annotations of an empty vSphere set.

use api::machine::MachineSet;
use machine::capacity::{Next, Snapshot, Waiting, from_fields, has_autoscaler_annotations, plan};
use serde_json::{Value, json};

use super::judge::{Expected, Judge, Rule};
use super::machines::object;
use super::same;

pub(crate) struct ScaleFromZero;

impl Judge for ScaleFromZero {
    fn file(&self) -> &'static str {
        "scale-from-zero"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let set: MachineSet = object(&input["machineSet"])?;
        let spec = &input["machineSet"]["spec"]["template"]["spec"]["providerSpec"]["value"];
        let capacity = from_fields(Some(spec), "numCPUs", "memoryMiB");
        let plan = plan(&Snapshot { set: &set, capacity });
        let Next::OnChange(waiting) = plan.next;
        if let Waiting::Invalid(problem) = waiting {
            return Err(problem.to_string());
        }
        let mut annotations = set.metadata.annotations.clone().unwrap_or_default();
        annotations.extend(plan.annotations);
        Ok(json!({"annotations": annotations, "hasAutoscalerAnnotations": has_autoscaler_annotations(&set)}))
    }

    fn rules(&self) -> &'static [Rule] {
        &[
            Rule { name: "an-empty-spec-announces-nothing", covers: says_nothing, answer: nothing },
            Rule { name: "negative-numbers-are-refused", covers: |input| negative(input).is_some(), answer: refused },
        ]
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::difference(expected, ours)
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        let field = error.split("VSphereMachineProviderSpec.").nth(1).and_then(|rest| rest.split(' ').next());
        vec![field.unwrap_or("providerSpec").to_owned()]
    }
}

fn says_nothing(input: &Value) -> bool {
    let spec = &input["machineSet"]["spec"]["template"]["spec"]["providerSpec"]["value"];
    let is_zero = |value: &Value| value.is_null() || value.as_i64() == Some(0);
    (spec.is_null() || spec.is_object()) && is_zero(&spec["numCPUs"]) && is_zero(&spec["memoryMiB"])
}

/// Returns the first field with a negative number.
fn negative(input: &Value) -> Option<&'static str> {
    let spec = &input["machineSet"]["spec"]["template"]["spec"]["providerSpec"]["value"];
    ["numCPUs", "memoryMiB"].into_iter().find(|field| spec[*field].as_i64().is_some_and(|number| number < 0))
}

fn refused(input: &Value, expected: Expected) -> Expected {
    match (expected, negative(input)) {
        (Expected::Output(_), Some(field)) => Expected::Refusal(vec![field.to_owned()]),
        (expected, _) => expected,
    }
}

fn nothing(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    output["annotations"] = input["machineSet"]["metadata"]["annotations"].clone();
    Expected::Output(output)
}
