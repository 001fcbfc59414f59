//! The providerSpec of the simulated cloud: its fields, its defaults and its rules. Nothing here touches the account.
//!
//! A spec says how a machine behaves as well as what it is: how long it takes to come, and what goes wrong with it. The
//! kubemark spec is another way to write the same.

mod kubemark;
mod types;
mod validation;

use std::collections::BTreeMap;
use std::time::Duration;

use machine::provider::{Capacity, Problem, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub(crate) use kubemark::translated;
pub use kubemark::{KubemarkRules, KubemarkSpec};
pub use types::*;

const IDENTITY: Identity =
    Identity { kind: "MemoryMachineProviderSpec", groups: &["machinist.dev"], versions: &["v1alpha1"] };

/// Types of instances: name, CPUs, mebibytes of memory.
const TYPES: [(&str, u64, u64); 3] = [("small", 2, 4096), ("medium", 4, 16_384), ("large", 16, 65_536)];

const DEFAULT_TYPE: &str = "medium";
const DEFAULT_REGION: &str = "simulated";
const DEFAULT_ZONE: &str = "zone-a";

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, fill)
    }

    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict {
        validated(spec, |spec, verdict| validation::check(spec, surroundings, verdict))
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<MemorySpec>(spec) else { return Vec::new() };
        secret::needs(None, spec.user_data_secret.as_ref())
    }

    /// There is one account, which every call reaches.
    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<MemorySpec>(spec) else { return Value::Null };
        json!({"region": spec.region, "zone": spec.zone})
    }

    fn capacity(&self, spec: &Value) -> Option<Capacity> {
        let read::Read { spec, .. } = read::read::<MemorySpec>(spec).ok()?;
        let wanted = if spec.instance_type.is_empty() { DEFAULT_TYPE } else { &spec.instance_type };
        let (_, cpus, memory_mib) = TYPES.into_iter().find(|(name, ..)| *name == wanted)?;
        let zone = if spec.zone.is_empty() { DEFAULT_ZONE } else { &spec.zone };
        let labels = BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), zone.to_owned())]);
        Some(Capacity { cpus, memory_mib, labels, ..Capacity::default() })
    }
}

fn fill(spec: &mut MemorySpec) {
    for (field, default) in
        [(&mut spec.instance_type, DEFAULT_TYPE), (&mut spec.region, DEFAULT_REGION), (&mut spec.zone, DEFAULT_ZONE)]
    {
        if field.is_empty() {
            default.clone_into(field);
        }
    }
    secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
}

/// What a spec means for an instance: parsed once, after validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behaviour {
    pub instance_type: String,
    pub region: String,
    pub zone: String,
    pub create_delay: Duration,
    pub boot_delay: Duration,
    pub delete_delay: Duration,
    pub refusal: Option<Refusal>,
    pub loses_answer: bool,
    pub never_boots: bool,
    pub vanishes_after: Option<Duration>,
}

/// How a creation is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub kind: machine::provider::ErrorKind,
    /// How many calls for one token are refused; 0 refuses all.
    pub times: u32,
}

impl Behaviour {
    /// Reads a spec that may lack its defaults. An error names the first thing that is wrong.
    pub fn of(spec: &Value, surroundings: &Surroundings) -> Result<Self, Problem> {
        let spec = Rules.default(spec, surroundings)?;
        if let Some(problem) = Rules.validate(&spec, surroundings).problems.into_iter().next() {
            return Err(problem);
        }
        let read::Read { spec, .. } = read::read::<MemorySpec>(&spec)?;
        let faults = spec.faults.unwrap_or_default();
        let refusal = validation::error_kind(&faults.create).map(|kind| Refusal { kind, times: faults.create_times });
        Ok(Self {
            create_delay: validation::delay(&spec.create_delay),
            boot_delay: validation::delay(&spec.boot_delay),
            delete_delay: validation::delay(&spec.delete_delay),
            refusal,
            loses_answer: faults.lose_answer,
            never_boots: faults.never_boots,
            vanishes_after: (!faults.vanish_after.is_empty()).then(|| validation::delay(&faults.vanish_after)),
            instance_type: spec.instance_type,
            region: spec.region,
            zone: spec.zone,
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(spec: Value, expected: Expect) {
        let Verdict { problems, warnings } = Rules.validate(&spec, &Surroundings::default());
        let lines: Vec<_> = problems.iter().map(ToString::to_string).chain(warnings).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    fn spec(more: Value) -> Value {
        let mut spec = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "MemoryMachineProviderSpec"});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        Rules.default(&spec, &Surroundings::default()).expect("it can be read")
    }

    #[test]
    fn an_empty_spec_becomes_a_medium_machine_in_the_first_zone() {
        let spec = spec(json!({}));
        check(spec.clone(), expect![""]);
        let kept = json!([spec["instanceType"], spec["region"], spec["zone"], spec["userDataSecret"]["name"]]);
        assert_eq!(kept, json!(["medium", "simulated", "zone-a", "worker-user-data"]));
        assert_eq!(Rules.capacity(&spec).map(|capacity| (capacity.cpus, capacity.memory_mib)), Some((4, 16_384)));
    }

    #[test]
    fn unknown_fields_are_named_and_wrong_values_refused() {
        check(
            spec(json!({"bootDelai": "3s"})),
            expect!["providerSpec.bootDelai: unknown field, which is ignored; did you mean bootDelay?"],
        );
        check(
            spec(json!({"instanceType": "huge", "bootDelay": "soon", "createDelay": "-1s"})),
            expect![[r#"
                providerSpec.instanceType: Unsupported value: "huge": supported values: "small", "medium", "large"
                providerSpec.createDelay: Invalid value: "-1s": must not be negative
                providerSpec.bootDelay: Invalid value: "soon": "soon" is not a duration such as 5m or 1h30m"#]],
        );
        check(
            spec(json!({"faults": {"create": "Quotas", "vanishAfter": "x"}})),
            expect![[r#"
            providerSpec.faults.create: Unsupported value: "Quotas": supported values: "NotFound", "InvalidSpec", "NoCapacity", "Quota", "Throttled", "Credentials", "Unreachable", "Other"
            providerSpec.faults.vanishAfter: Invalid value: "x": "x" is not a duration such as 5m or 1h30m"#]],
        );
    }

    #[test]
    fn a_spec_says_what_goes_wrong() {
        let spec = spec(json!({
            "createDelay": "2s", "bootDelay": "500ms",
            "faults": {"create": "NoCapacity", "createTimes": 2, "loseAnswer": true, "neverBoots": true, "vanishAfter": "1m"},
        }));
        let behaviour = Behaviour::of(&spec, &Surroundings::default()).expect("it is valid");
        expect![[r#"
            Behaviour {
                instance_type: "medium",
                region: "simulated",
                zone: "zone-a",
                create_delay: 2s,
                boot_delay: 500ms,
                delete_delay: 0ns,
                refusal: Some(
                    Refusal {
                        kind: NoCapacity,
                        times: 2,
                    },
                ),
                loses_answer: true,
                never_boots: true,
                vanishes_after: Some(
                    60s,
                ),
            }
        "#]]
        .assert_debug_eq(&behaviour);
    }
}
