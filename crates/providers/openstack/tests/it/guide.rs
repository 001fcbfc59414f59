//! The manifest of the guide makes machines.

use machine::provider::{SpecRules, Surroundings, Verdict};
use openstack::spec::Rules;
use serde_json::Value;

use crate::world::World;

fn manifest() -> Value {
    let page = include_str!("../../../../../docs/guide/openstack.md");
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test]
async fn the_manifest_of_the_guide_makes_a_machine_and_raises_no_eyebrow() {
    let world = World::start().await;
    let spec = manifest()["spec"]["template"]["spec"]["providerSpec"]["value"].clone();
    assert_eq!(Rules.validate(&spec, &Surroundings::default()), Verdict::default());
    let request = world.machine("m", &spec);
    world.run(&request).await;
    world.delete(&request).await;
    world.assert_empty("after deletion");
}
