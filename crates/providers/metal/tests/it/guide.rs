//! The manifest of the guide makes machines.

use machine::provider::{SpecRules, Surroundings, Verdict};
use metal::spec::Rules;
use serde_json::{Value, json};

use crate::world::World;

fn manifest() -> Value {
    let page = include_str!("../../../../../docs/guide/bare-metal.md");
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test]
async fn the_manifest_of_the_guide_makes_a_machine_and_raises_no_eyebrow() {
    let world = World::start(1).await;
    let spec = manifest()["spec"]["template"]["spec"]["providerSpec"]["value"].clone();
    assert_eq!(Rules.validate(&spec, &Surroundings::default()), Verdict::default());
    world.patch("host-0", json!({"metadata": {"labels": {"rack": "1"}}})).await;
    let request = world.machine("m", &spec);
    world.run(&request).await;
    world.delete(&request).await;
    assert!(world.taken().await.is_empty());
}
