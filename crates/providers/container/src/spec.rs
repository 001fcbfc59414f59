//! The providerSpec of a container: its fields, its defaults and its rules.
//!
//! A container shares processors, memory and network with the host, so there is little to choose.

use machine::provider::{Capacity, Problem, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, LocalReference, Path, defaulted, read, secret, validated};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const IDENTITY: Identity =
    Identity { kind: "ContainerMachineProviderSpec", groups: &["machinist.dev"], versions: &["v1alpha1"] };

const DEFAULT_ZONE: &str = "zone-a";

/// What every container is called in the column of instance types, and its region.
pub const INSTANCE_TYPE: &str = "container";
pub const REGION: &str = "host";

/// `ContainerMachineProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSpec {
    pub api_version: String,
    pub kind: String,
    /// A label of the node, so that rollouts have an order to keep.
    pub zone: String,
    pub user_data_secret: Option<LocalReference>,
}

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec: &mut ContainerSpec| {
            if spec.zone.is_empty() {
                DEFAULT_ZONE.clone_into(&mut spec.zone);
            }
            secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
        })
    }

    fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
        validated(spec, check)
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<ContainerSpec>(spec) else { return Vec::new() };
        secret::needs(None, spec.user_data_secret.as_ref())
    }

    /// There is one host, which every call reaches.
    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<ContainerSpec>(spec) else { return Value::Null };
        json!({"zone": spec.zone})
    }

    /// The spec does not say: the host decides.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

fn check(spec: &ContainerSpec, verdict: &mut Verdict) {
    IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    let path = Path::spec().child("zone");
    let is_good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if spec.zone.is_empty() {
        verdict.required(&path, "name one, such as zone-a");
    } else if spec.zone.len() > 63
        || !spec.zone.chars().all(is_good)
        || spec.zone.starts_with('-')
        || spec.zone.ends_with('-')
    {
        verdict.invalid(&path, &spec.zone, "must be a label: at most 63 lower-case letters, digits and dashes");
    }
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
}

/// The zone of a spec that may lack its defaults. An error names the first thing that is wrong.
pub(crate) fn zone(spec: &Value, surroundings: &Surroundings) -> Result<String, Problem> {
    let spec = Rules.default(spec, surroundings)?;
    if let Some(problem) = Rules.validate(&spec, surroundings).problems.into_iter().next() {
        return Err(problem);
    }
    read::read::<ContainerSpec>(&spec).map(|read| read.spec.zone)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(more: Value, expected: Expect) {
        let mut spec = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "ContainerMachineProviderSpec"});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let spec = Rules.default(&spec, &Surroundings::default()).expect("it can be read");
        let Verdict { problems, warnings } = Rules.validate(&spec, &Surroundings::default());
        let lines: Vec<_> = problems.iter().map(ToString::to_string).chain(warnings).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn an_empty_spec_is_a_container_in_the_first_zone_and_unknown_fields_are_named() {
        check(json!({}), expect![""]);
        check(
            json!({"zones": "b"}),
            expect!["providerSpec.zones: unknown field, which is ignored; did you mean zone?"],
        );
        check(
            json!({"zone": "Zone A", "kind": "AWSMachineProviderConfig"}),
            expect![[r#"
                providerSpec.zone: Invalid value: "Zone A": must be a label: at most 63 lower-case letters, digits and dashes
                providerSpec.value: incorrect GroupVersionKind "machinist.dev/v1alpha1" "AWSMachineProviderConfig": expected apiVersion machinist.dev/v1alpha1 and kind ContainerMachineProviderSpec; the spec is read as if it said so"#]],
        );
    }
}
