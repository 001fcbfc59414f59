//! The promises of the port, on OpenStack.

use std::time::Duration;

use machine::provider::Surroundings;
use machine::provider::conformance::Suite;
use openstack::{OpenStack, Settings};
use serde_json::{Value, json};

use crate::world::{CLUSTER, World, spec};

fn check(run_id: &str, spec: Value, broken: Value) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(World::start());
    let suite = Suite {
        make: &|| Box::new(OpenStack::new(Settings::default())),
        spec,
        broken: Some(broken),
        secrets: world.secrets(),
        surroundings: Surroundings { cluster: CLUSTER.to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(1)),
        run_id: run_id.to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    world.assert_empty("after the suite");
}

#[test]
fn openstack_keeps_the_promises_of_the_port() {
    check("plain", spec(json!({})), spec(json!({"flavor": ""})));
}

#[test]
fn openstack_keeps_the_promises_of_the_port_with_trunks() {
    check("trunks", spec(json!({"trunk": true})), spec(json!({"trunk": true, "tags": ["a/b"]})));
}
