//! No input may make the crate panic, hang or exhaust memory.
//!
//! Runs on stable with every `cargo test`; `FUZZ_ROUNDS=1000000 cargo test -p ignition fuzz` runs longer.

use std::time::{Duration, Instant};

use ignition::{Version, down, merge};
use serde_json::Value;

use crate::mutate::{Random, inputs, mutate, rounds};

#[test]
fn mutated_configs_are_parsed_or_refused_quickly() {
    let mut configs = inputs("ignition-convert");
    configs.extend(inputs("ignition-down").into_iter().map(|mut input| input["config"].take()));
    let mut last = ignition::empty();
    let mut accepted = 0;
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let mut config = configs[random.below(configs.len())].clone();
        mutate(&mut config, &mut random);
        let start = Instant::now();
        if let Ok(parsed) = ignition::parse(&config) {
            accepted += 1;
            for resource in resources(&parsed) {
                let decoded = ignition::decode_limited(resource, 1 << 20);
                if let (Ok(bytes), Some(length)) = (&decoded, ignition::plain_len(resource)) {
                    assert_eq!(bytes.len(), length, "seed {seed}");
                }
            }
            for version in Version::SERVED {
                let _ = down::lower(parsed.clone(), version, Vec::new());
            }
            let again = ignition::to_value(parsed.clone());
            let once_more = ignition::parse(&again).map(ignition::to_value);
            assert_eq!(once_more.as_ref(), Ok(&again), "seed {seed}");
            let _ = ignition::validate(&merge::merge(std::mem::replace(&mut last, parsed.clone()), parsed));
        }
        assert!(start.elapsed() < Duration::from_secs(5), "seed {seed} took {:?}", start.elapsed());
    }
    assert!(accepted > rounds() / 20, "only {accepted} inputs were accepted: the mutations are too wild to test much");
}

#[test]
fn mutated_texts_are_parsed_or_refused() {
    let configs = inputs("ignition-convert");
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let mut text = configs[random.below(configs.len())].to_string().into_bytes();
        for _ in 0..=random.below(4) {
            let place = random.below(text.len());
            text[place] = u8::try_from(random.below(256)).unwrap();
        }
        if let Ok(value) = serde_json::from_slice::<Value>(&text) {
            let _ = ignition::read(&value);
        }
    }
}

fn resources(config: &ignition::Config) -> impl Iterator<Item = &ignition::Resource> {
    let files = config.storage.iter().flat_map(|storage| storage.files.iter().flatten());
    files.flat_map(|file| file.contents.iter().chain(file.append.iter().flatten()))
}
