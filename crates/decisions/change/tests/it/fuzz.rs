//! No pair of configs and no policy may make the verdict on a change panic, hang or eat memory.
//!
//! Runs on stable with every `cargo test`; `FUZZ_ROUNDS=1000000 cargo test -p change fuzz` looks longer.

use std::time::{Duration, Instant};

use api::machineconfiguration::MachineConfig;
use api::operator::NodeDisruptionPolicyConfig;
use change::content::Content;
use change::diff::Diff;
use change::disruption::Disruption;
use change::plan::plan;
use change::policy::{Policies, Settings};
use change::reconcilable::{Allowances, obstacles};
use change::target::Target;
use serde_json::{Value, json};

use crate::mutate::{Random, inputs, mutate, rounds};

#[test]
fn odd_changes_get_a_verdict_or_a_refusal_quickly() {
    let configs: Vec<Value> = ["reconcilable", "config-diff"].into_iter().flat_map(inputs).flat_map(sides).collect();
    let arguments: Vec<Value> = inputs("kargs").into_iter().flat_map(sides).collect();
    let policies: Vec<Value> = inputs("disruption-actions").iter().map(|input| input["policy"].clone()).collect();
    let mut judged = 0;
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let mut odd = |choices: &[Value]| {
            let mut value = choices[random.below(choices.len())].clone();
            // Most values stay good: two configs must both be readable before anything is compared.
            if random.below(3) == 0 {
                mutate(&mut value, &mut random);
            }
            value
        };
        let [mut old, mut new] = [odd(&configs), odd(&configs)];
        for config in [&mut old, &mut new] {
            if let Some(Value::Object(spec)) = config.get_mut("spec") {
                spec.insert("kernelArguments".into(), odd(&arguments));
            }
        }
        let start = Instant::now();
        judged += u64::from(verdict(&old, &new, odd(&policies)).is_some());
        assert!(start.elapsed() < Duration::from_secs(5), "seed {seed} took {:?}", start.elapsed());
    }
    assert!(judged > rounds() / 5, "only {judged} changes were judged: the mutations are too wild to test much");
}

/// What an input gives as the old and the new.
fn sides(mut input: Value) -> impl Iterator<Item = Value> {
    [input["old"].take(), input["new"].take()].into_iter().filter(|side| !side.is_null())
}

/// Everything that is ever asked about a change; nothing where one side cannot be read.
fn verdict(old: &Value, new: &Value, policy: Value) -> Option<()> {
    let (old, new) = (read(old)?, read(new)?);
    let settings = Settings::default();
    let user = serde_json::from_value::<NodeDisruptionPolicyConfig>(policy).unwrap_or_default();
    let policies = Policies::defaults(&settings).overlaid(Policies::try_from(&user).unwrap_or_default());
    let (before, after) = Content::read_both(&old, &new).ok()?;
    let diff = Diff::between(&before, &after);
    assert_eq!(diff.is_empty(), Diff::between(&after, &before).is_empty());
    for file in after.files.values() {
        assert_eq!(file.contents.check().is_ok(), file.contents.bytes().is_ok());
    }
    let _ = obstacles(&diff, &after, &settings, &Allowances::default());
    let _ = Disruption::of(&diff, &policies);
    let (before, after) = (Target::read(&old).ok()?, Target::read(&new).ok()?);
    let _ = plan(&before, &after);
    assert!(plan(&after, &after).is_empty(), "a config needs no step to reach itself");
    Some(())
}

fn read(config: &Value) -> Option<MachineConfig> {
    let mut config = config.clone();
    config.as_object_mut()?.insert("apiVersion".into(), json!("machineconfiguration.openshift.io/v1"));
    config["kind"] = json!("MachineConfig");
    if let Some(Value::Object(spec)) = config.get_mut("spec") {
        spec.retain(|_, field| !field.is_null());
    }
    serde_json::from_value(config).ok()
}
