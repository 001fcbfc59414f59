//! The manifest of the guide makes machines.

use gcp::spec::Rules;
use machine::provider::{SpecRules, State, Surroundings, Verdict};
use serde_json::Value;

use crate::world::World;

fn manifest() -> Value {
    let page = include_str!("../../../../../docs/guide/gcp.md");
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test]
async fn the_manifest_of_the_guide_makes_a_machine_and_raises_no_eyebrow() {
    let Some(world) = World::start("guide").await else { return };
    let spec = manifest()["spec"]["template"]["spec"]["providerSpec"]["value"].clone();
    assert_eq!(Rules.validate(&spec, &Surroundings::default()), Verdict::default());
    let request = world.machine("m", &spec);
    world.create(&request).await.unwrap();
    world.look(&request).await;
    let seen = world.look(&request).await.remove(0);
    assert_eq!(seen.state, State::Running);
    assert_eq!(seen.provider_id.as_deref(), Some("gce://my-project/us-east1-b/guide-m"));
    world.delete(&request).await;
    assert!(world.fake.faults().is_empty() && world.fake.left().is_empty(), "{:?}", world.fake.faults());
}
