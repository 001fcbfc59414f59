//! `node-pools`: which pool a node belongs to.

use rollout::{Membership, Pools};
use serde_json::{Value, json};

use super::fleet::{list, name, node, object};
use super::judge::{Expected, Judge, Rule};
use super::same;

pub(crate) struct NodePools;

impl Judge for NodePools {
    fn file(&self) -> &'static str {
        "node-pools"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let pools = list(&input["pools"]).map(|pool| object(pool, &json!({}))).collect::<Result<Vec<_>, _>>()?;
        let pools = Pools::from_objects(&pools);
        let node = node(&input["node"])?;
        let labels = node.metadata.labels.unwrap_or_default();
        let broken: Vec<_> = pools.broken().map(|(pool, error)| format!("{pool}: {error}")).collect();
        match pools.of_node(name(&input["node"]), &labels) {
            Membership::Unmanaged => Ok(json!({"machineConfigNodePool": "not-yet-set", "broken": broken})),
            Membership::Member { primary, also, ignored } => Ok(json!({
                "pools": std::iter::once(&primary).chain(&also).collect::<Vec<_>>(),
                "primary": primary,
                "defaultedToMaster": ignored.is_some(),
                "machineConfigNodePool": primary,
                "broken": broken,
            })),
            Membership::Contested(contested) => Err(contested.to_string()),
        }
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(expected, ours)
    }
}

const RULES: &[Rule] = &[Rule { name: "a-broken-pool-fails-alone", covers: |_| true, answer: without_broken }];

/// Our result names the broken pool and is otherwise the same as without that pool.
fn without_broken(input: &Value, expected: Expected) -> Expected {
    let Expected::Refusal(phrases) = &expected else { return expected };
    if !phrases.iter().any(|phrase| phrase.starts_with("invalid label selector")) {
        return expected;
    }
    let (broken, sound): (Vec<_>, Vec<_>) = list(&input["pools"]).cloned().partition(|pool| problem(pool).is_some());
    let rest = json!({"node": input["node"], "pools": sound});
    match NodePools.answer(&rest) {
        Ok(mut output) => {
            let mut told: Vec<_> =
                broken.iter().filter_map(|pool| Some(format!("{}: {}", name(pool), problem(pool)?))).collect();
            told.sort();
            output["broken"] = json!(told);
            Expected::Output(output)
        }
        Err(_) => Expected::Refusal(vec!["custom roles".to_owned()]),
    }
}

/// Returns upstream's message for an invalid selector of a pool.
fn problem(pool: &Value) -> Option<String> {
    list(&pool["spec"]["nodeSelector"]["matchExpressions"]).find_map(|expression| {
        let (operator, key) = (expression["operator"].as_str().unwrap_or_default(), expression["key"].as_str()?);
        let values = &expression["values"];
        let none = values.as_array().is_none_or(Vec::is_empty);
        if !key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter)) {
            return Some(format!("key: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"));
        }
        match operator {
            "In" | "NotIn" if none => {
                Some("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned())
            }
            "Exists" | "DoesNotExist" if !none => {
                Some(format!("values: Invalid value: {values}: values set must be empty for exists and does not exist"))
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
            other => Some(format!("{other:?} is not a valid label selector operator")),
        }
    })
}
