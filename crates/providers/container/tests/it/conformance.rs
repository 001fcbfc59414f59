//! The promises of the port.

use std::sync::Arc;
use std::time::Duration;

use container::{Container, Host};
use machine::provider::conformance::Suite;
use machine::provider::{Provider, Surroundings};
use serde_json::json;

use crate::world::{Machines, secrets};

#[test]
fn containers_keep_the_promises_of_the_port() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::default();
    let host = Host::open(folder.path(), Arc::new(machines.clone())).unwrap();
    let suite = Suite {
        make: &|| Box::new(Container::new(host.clone())) as Box<dyn Provider>,
        spec: json!({"zone": "zone-b"}),
        broken: Some(json!({"zone": "Zone B"})),
        secrets: secrets(),
        surroundings: Surroundings { cluster: "promises".to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(5)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    assert_eq!((host.count(), machines.running()), (0, Vec::new()), "something was left behind");
}
