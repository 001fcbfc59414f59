//! The promises of the port, on hosts of Metal3.

use std::time::Duration;

use machine::provider::Surroundings;
use machine::provider::conformance::Suite;
use metal::Metal;
use serde_json::json;

use crate::world::{CLUSTER, World, spec};

#[test]
fn bare_metal_keeps_the_promises_of_the_port() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(World::start(12));
    let suite = Suite {
        make: &|| Box::new(Metal::new(world.client.clone())),
        spec: spec(json!({})),
        broken: Some(spec(json!({"image": {}}))),
        secrets: machine::provider::Secrets::default(),
        surroundings: Surroundings { cluster: CLUSTER.to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(10)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    assert_eq!(runtime.block_on(world.taken()), Vec::<String>::new());
}
