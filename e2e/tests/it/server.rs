//! The config server's own stories, on a real API server.

#[path = "../../../crates/services/server/tests/it/tokens.rs"]
mod tokens;
#[path = "../../../crates/services/server/tests/it/town.rs"]
mod town;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_machines_are_let_in_and_no_others() {
    let _ = tokens::story(testkit::Kind::Real).await;
}
