//! The machine controllers on the embedded API and on a real kube-apiserver, with a cloud that keeps account.
#![allow(clippy::unwrap_used)]

mod claims;
mod cloud;
mod control_plane;
mod crashes;
mod deploying;
mod draining;
mod health;
mod joining;
mod linking;
mod logging;
mod measuring;
mod orphans;
mod provider_trouble;
mod rest;
mod rights;
mod scaling;
mod stage;
mod unread;
mod wire;

/// Runs each story on a real kube-apiserver, where there is one, and on the embedded API.
macro_rules! on_both {
    ($($story:ident),* $(,)?) => {
        mod real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(testkit::Kind::Real).await;
            })*
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(testkit::Kind::Embedded).await;
            })*
        }
    };
}
pub(crate) use on_both;
