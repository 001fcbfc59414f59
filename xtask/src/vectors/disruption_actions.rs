//! `disruption-actions`: the policies in force and what a change needs under them.

use std::collections::BTreeSet;

use api::operator::{NodeDisruptionPolicyAction, NodeDisruptionPolicyConfig};
use change::diff::{Change, Diff};
use change::disruption::Disruption;
use change::policy::{Policies, Settings};
use serde_json::{Value, json};

use super::judge::Judge;
use super::same;

pub(crate) struct DisruptionActions;

impl Judge for DisruptionActions {
    fn file(&self) -> &'static str {
        "disruption-actions"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let user = without_nulls(&input["policy"]);
        let user: NodeDisruptionPolicyConfig = serde_json::from_value(user).map_err(|error| error.to_string())?;
        let user = Policies::try_from(&user).map_err(|error| error.to_string())?;
        let policies = Policies::defaults(&Settings::default()).overlaid(user);
        let disruption = Disruption::of(&diff(input), &policies);
        let mut actions: Vec<NodeDisruptionPolicyAction> = disruption.actions.iter().map(Into::into).collect();
        // In our result an empty list of actions means that nothing has to be done; upstream has an action for it.
        if actions.is_empty() && !disruption.reasons.is_empty() {
            actions.push(NodeDisruptionPolicyAction { type_: "None".to_owned(), ..Default::default() });
        }
        Ok(json!({"effectivePolicy": NodeDisruptionPolicyConfig::from(&policies), "actions": actions}))
    }

    /// Duplicates and the order of actions do not matter; the policy is compared exactly.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let once = |answer: &Value| {
            let actions = answer["actions"].as_array().cloned().unwrap_or_default();
            let actions: BTreeSet<String> = actions.iter().map(|action| without_nulls(action).to_string()).collect();
            json!({"effectivePolicy": answer["effectivePolicy"], "actions": actions})
        };
        same::difference(&once(expected), &once(ours))
    }
}

/// Returns a difference in exactly the files and units that the input names.
fn diff(input: &Value) -> Diff {
    let names = |field: &str| -> Vec<String> {
        let list = input[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let users = input["sshKeysChanged"].as_bool().unwrap_or_default().then(|| "core".to_owned());
    Diff {
        files: names("changedFiles").into_iter().map(change).collect(),
        units: names("changedUnits").into_iter().map(change).collect(),
        users: users.into_iter().map(change).collect(),
        ..Diff::default()
    }
}

fn change<T>(name: String) -> Change<T> {
    Change { name, before: None, after: None }
}

/// Go writes `null` where users write nothing; an `sshkey` without actions is not a policy.
fn without_nulls(value: &Value) -> Value {
    same::without_empty(value)
}
