//! The config server over the wire: from a folder of manifests, and from a cluster on the embedded API.

#![allow(clippy::unwrap_used)]

mod bootstrap;
mod refusals;
mod tokens;
mod town;
mod world;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_machines_are_let_in_and_no_others() {
    tokens::story(testkit::Kind::Embedded).await;
}
