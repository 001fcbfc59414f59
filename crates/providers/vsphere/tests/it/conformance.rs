//! The promises of the port, on vcsim.

use std::time::Duration;

use machine::provider::Surroundings;
use machine::provider::conformance::Suite;
use serde_json::json;

use crate::world::{World, secrets};

#[test]
fn vsphere_keeps_the_promises_of_the_port() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let Some(world) = runtime.block_on(World::start("promises")) else { return };
    let suite = Suite {
        make: &|| Box::new(world.restarted()),
        spec: world.spec(),
        broken: Some(world.spec_with("diskGiB", json!(1))),
        secrets: secrets(),
        surroundings: Surroundings { cluster: "promises-cluster".to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(20)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    assert!(runtime.block_on(world.marked()).is_empty(), "something is left");
}
