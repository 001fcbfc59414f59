//! The manifest of the guide makes machines.

use libvirt::spec::Rules;
use machine::provider::{Provider, SpecRules, State, Surroundings, Verdict};
use serde_json::{Value, json};

use crate::world::World;

fn manifest() -> Value {
    let page = include_str!("../../../../../docs/guide/libvirt.md");
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test]
async fn the_manifest_of_the_guide_makes_a_machine_and_raises_no_eyebrow() {
    let Some(world) = World::start("guide").await else { return };
    let mut spec = manifest()["spec"]["template"]["spec"]["providerSpec"]["value"].clone();
    assert_eq!(Rules.validate(&spec, &Surroundings::default()), Verdict::default());
    // The host of this test has other names than the page's.
    spec["uri"] = json!(world.uri);
    spec["volume"]["poolName"] = json!("guide");
    spec["volume"]["baseVolumeID"] = json!("base");
    spec["networkInterfaceName"] = json!("guide");
    spec["networkInterfaceAddress"] = json!("10.7.0.0/24");
    let request = world.machine("m", &spec);
    assert_eq!(world.create(&request).await.unwrap().state, State::Running);
    world.provider.delete(&request).await.unwrap();
    world.assert_empty("after deletion");
}
