//! What the providerSpecs of all platforms have in common: how they are read, and how faults are worded.
//!
//! A platform's crate has the typed spec and its own rules. [`defaulted`] and [`validated`] run them the same way for every
//! platform: unknown fields survive defaulting and are named in warnings, and no rule sees a value that does not fit its type.

pub mod field;
pub mod identity;
pub mod labels;
pub mod read;
pub mod secret;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::provider::{Problem, Verdict};

pub use field::Path;
pub use identity::Identity;
pub use read::{Read, Unknown};
pub use secret::{LocalReference, SecretReference};

/// A value with the defaults that `fill` writes into the typed spec, and everything else as the user wrote it.
pub fn defaulted<T>(value: &Value, fill: impl FnOnce(&mut T)) -> Result<Value, Problem>
where
    T: DeserializeOwned + Serialize + Clone,
{
    let Read { spec: before, value, unknown: _ } = read::read::<T>(value)?;
    let mut after = before.clone();
    fill(&mut after);
    read::overlay(&value, &before, &after)
        .map_err(|error| Problem::invalid(&Path::spec().child("value"), &value, format!("cannot be written: {error}")))
}

/// Everything that `check` finds in a value, after the unknown fields.
pub fn validated<T: DeserializeOwned>(value: &Value, check: impl FnOnce(&T, &mut Verdict)) -> Verdict {
    let mut verdict = Verdict::default();
    match read::read::<T>(value) {
        Err(problem) => verdict.problems.push(problem),
        Ok(Read { spec, value: _, unknown }) => {
            for unknown in unknown {
                warn_of(&unknown, &mut verdict);
            }
            check(&spec, &mut verdict);
        }
    }
    verdict
}

fn warn_of(unknown: &Unknown, verdict: &mut Verdict) {
    let detail = match unknown.similar {
        Some(similar) => format!("unknown field, which is ignored; did you mean {similar}?"),
        None => "unknown field, which is ignored".to_owned(),
    };
    verdict.warn(&unknown.path, detail);
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Default, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        instance_type: String,
        region: String,
    }

    #[test]
    fn unknown_fields_survive_defaulting_and_are_warned_of_afterwards() {
        let value = json!({"regoin": "eu", "instanceType": "m5"});
        let defaulted = defaulted::<Spec>(&value, |spec| spec.region = "us".into()).expect("the value is good");
        assert_eq!(defaulted, json!({"regoin": "eu", "instanceType": "m5", "region": "us"}));
        let verdict = validated::<Spec>(&defaulted, |_, _| {});
        assert_eq!(verdict.warnings, ["providerSpec.regoin: unknown field, which is ignored; did you mean region?"]);
        assert!(verdict.problems.is_empty());
    }

    #[test]
    fn rules_do_not_see_a_value_that_does_not_fit() {
        let verdict = validated::<Spec>(&json!({"region": []}), |_, _| panic!("the rules were asked"));
        assert_eq!(verdict.problems.len(), 1);
    }
}
