//! The dashboard over the network, on the embedded API, with visitors who have tokens of their own.

#![allow(clippy::unwrap_used)]

mod visitors;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitors_see_what_the_api_lets_them_list_and_no_more() {
    visitors::story(testkit::Kind::Embedded).await;
}
