//! The promises of the port, under both names.

use std::sync::Arc;
use std::time::Duration;

use machine::provider::conformance::Suite;
use machine::provider::{Provider, Surroundings};
use memory::{Cloud, Memory};
use serde_json::{Value, json};

use crate::world::{Machines, secrets};

#[track_caller]
fn keeps_its_promises(make: fn(Cloud) -> Memory, spec: Value, broken: Value) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::default();
    let cloud = Cloud::open(&folder.path().join("cloud"), Arc::new(machines.clone())).unwrap();
    let suite = Suite {
        make: &|| Box::new(make(cloud.clone())) as Box<dyn Provider>,
        spec,
        broken: Some(broken),
        secrets: secrets(),
        surroundings: Surroundings { cluster: "promises".to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(5)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    assert_eq!((cloud.count(), machines.running()), (0, Vec::new()), "something was left behind");
}

#[test]
fn memory_keeps_the_promises_of_the_port() {
    keeps_its_promises(Memory::new, json!({"zone": "zone-b"}), json!({"instanceType": "huge"}));
}

#[test]
fn slow_instances_keep_the_promises_too() {
    let spec = json!({"createDelay": "20ms", "bootDelay": "10ms", "deleteDelay": "20ms"});
    keeps_its_promises(Memory::new, spec, json!({"createDelay": "soon"}));
}

#[test]
fn kubemark_keeps_the_promises_of_the_port() {
    keeps_its_promises(Memory::kubemark, json!({"image": "hollow", "deletionTimeout": "10ms"}), json!({"image": ""}));
}
