//! The manifest of the guide makes machines.

use std::sync::Arc;

use machine::provider::{Request, SecretData, Secrets, SpecRules, State, Surroundings, Verdict};
use serde_json::Value;
use testkit::vcsim::{PASSWORD, USER};
use vsphere::spec::Rules;

use crate::world::{World, secrets};

fn manifest(number: usize) -> Value {
    let page = include_str!("../../../../../docs/guide/vsphere.md");
    let yaml = page.split("```yaml\n").nth(number).unwrap().split("```").next().unwrap();
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test]
async fn the_manifests_of_the_guide_make_a_machine_and_raise_no_eyebrow() {
    let Some(world) = World::start("guide").await else { return };
    let spec = manifest(1)["spec"]["template"]["spec"]["providerSpec"]["value"].clone();
    assert_eq!(Rules.validate(&spec, &Surroundings::default()), Verdict::default());
    let entries = manifest(2)["stringData"].clone();
    let entries = entries.as_object().unwrap().iter().map(|(key, value)| {
        // The vCenter of this test has another user.
        let value = match key.rsplit('.').next().unwrap() {
            "username" => USER,
            "password" => PASSWORD,
            _ => value.as_str().unwrap(),
        };
        (key.clone(), value.as_bytes().to_vec())
    });
    let credentials = Some(SecretData(entries.collect()));
    let secrets = Secrets { credentials, ..secrets() };
    let request = Request { secrets: Arc::new(secrets), ..world.machine("m", &spec) };
    assert_eq!(world.create(&request).await.unwrap().state, State::Running);
    world.delete(&request).await;
    assert!(world.marked().await.is_empty());
}
