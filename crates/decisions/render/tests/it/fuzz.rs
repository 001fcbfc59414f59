//! No set of fragments may make rendering panic, hang or eat memory.
//!
//! Runs on stable with every `cargo test`; `FUZZ_ROUNDS=1000000 cargo test -p render fuzz` looks longer.

use std::time::{Duration, Instant};

use api::machineconfiguration::MachineConfig;
use serde_json::{Value, json};

use crate::mutate::{Random, inputs, mutate, rounds};
use crate::world::{pool, render};

#[test]
fn odd_fragments_are_rendered_or_refused_quickly() {
    let inputs = inputs("merge");
    let everything = pool("any", json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}));
    let mut rendered = 0;
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let mut input = inputs[random.below(inputs.len())].clone();
        mutate(&mut input["machineConfigs"], &mut random);
        let fragments = input["machineConfigs"].as_array().into_iter().flatten();
        let fragments: Vec<MachineConfig> = fragments.filter_map(read).collect();
        let start = Instant::now();
        if let Ok(result) = render(&everything, &fragments) {
            rendered += 1;
            let config = ignition::parse(result.machine_config.spec.config.as_ref().unwrap());
            assert!(config.is_ok(), "seed {seed}: the result is no valid config: {config:?}");
        }
        assert!(start.elapsed() < Duration::from_secs(5), "seed {seed} took {:?}", start.elapsed());
    }
    assert!(rendered > rounds() / 20, "only {rendered} inputs were rendered: the mutations are too wild to test much");
}

fn read(fragment: &Value) -> Option<MachineConfig> {
    let mut fragment = fragment.clone();
    fragment.as_object_mut()?.insert("apiVersion".into(), json!("machineconfiguration.openshift.io/v1"));
    fragment["kind"] = json!("MachineConfig");
    if fragment["spec"].is_object() && fragment["spec"]["extensions"].is_null() {
        fragment["spec"]["extensions"] = json!([]);
    }
    serde_json::from_value(fragment).ok()
}
