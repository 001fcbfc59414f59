//! The promises of the port, on an imitation whose requests Google's description checks.

use std::time::Duration;

use machine::provider::Surroundings;
use machine::provider::conformance::Suite;
use serde_json::json;

use crate::world::World;

#[test]
fn gcp_keeps_the_promises_of_the_port() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let Some(world) = runtime.block_on(World::start("promises")) else { return };
    let suite = Suite {
        make: &|| Box::new(world.restarted()),
        spec: world.spec(),
        broken: Some(world.spec_with("onHostMaintenance", json!("Perhaps"))),
        secrets: world.secrets(),
        surroundings: Surroundings { cluster: "promises-cluster".to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(5)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    assert!(world.fake.faults().is_empty(), "{:?}", world.fake.faults());
    assert!(world.fake.left().is_empty(), "{:?}", world.fake.left());
}
