//! The config controllers on a real API server and on the embedded one: rendering, rollouts, drains, bad input.

mod alerts;
mod bad_input;
mod control_plane;
mod draining;
mod generating;
mod leading;
mod marking;
mod places;
mod remote;
mod rendering;
mod rights;
mod rolling_out;
mod stage;
mod trouble;

/// Generates two tests from a story: one on a real kube-apiserver, one on the embedded API.
macro_rules! on_both {
    ($($story:ident),* $(,)?) => {$(
        mod $story {
            #[tokio::test]
            async fn on_a_real_server() {
                super::$story(testkit::Kind::Real).await;
            }

            #[tokio::test]
            async fn on_the_embedded_server() {
                super::$story(testkit::Kind::Embedded).await;
            }
        }
    )*};
}
pub(crate) use on_both;
