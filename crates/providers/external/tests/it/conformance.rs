//! The promises of the port, kept by the provider of the guide.

use std::time::Duration;

use external::{External, Settings};
use machine::provider::conformance::Suite;
use machine::provider::{Provider, Surroundings};
use serde_json::json;

use crate::world::{Guide, secrets};

#[test]
fn the_provider_of_the_guide_keeps_the_promises_of_the_port() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let guide = Guide::start();
    let make = || {
        let provider = External::new(Settings::new(&guide.socket));
        runtime.block_on(provider.describe()).unwrap();
        Box::new(provider) as Box<dyn Provider>
    };
    let suite = Suite {
        make: &make,
        spec: json!({"shelf": "left", "size": "large"}),
        broken: Some(json!({"shelf": "left", "size": "huge"})),
        secrets: secrets(),
        surroundings: Surroundings { cluster: "promises".to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(5)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().unwrap();
    assert_eq!(guide.left(), Vec::<String>::new(), "something was left behind");
}

/// Written anew with `UPDATE_EXPECT=1 cargo test -p external schema`.
#[test]
fn the_schema_in_the_docs_is_that_of_the_messages() {
    let schema = serde_json::to_value(external::wire::schema()).unwrap();
    let calls: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(calls, ["capacity", "create", "delete", "describe", "instances", "marked", "power", "remove", "update"]);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    expect_test::expect_file!["../../../../../docs/provider-v1.schema.json"].assert_eq(&text);
}
