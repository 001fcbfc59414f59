//! The config server's own tests, on a real API server.

#[path = "../../../crates/services/server/tests/it/tokens.rs"]
mod tokens;
#[path = "../../../crates/services/server/tests/it/town.rs"]
mod town;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_valid_tokens_are_admitted() {
    let _ = tokens::story(testkit::Kind::Real).await;
}
