//! A Kubernetes API server inside the binary: the base of `machinist up`, of quick tests, of `plan` and of simulation.
//!
//! kubectl, kube-rs and client-go use it unchanged. Production is always a real cluster; nothing outside this crate may
//! know which of the two it talks to. Rules of objects (schemas, patches, server-side apply, selectors) live in `schema`;
//! this crate keeps objects, speaks HTTP and lets each caller do what it may.
//!
//! ```no_run
//! # async fn example() -> Result<(), apiserver::Error> {
//! let server = apiserver::Server::builder().in_memory().start().await?;
//! println!("{}", server.kubeconfig());
//! server.shutdown().await;
//! # Ok(()) }
//! ```

mod admission;
mod auth;
mod discovery;
#[cfg(test)]
mod fuzz;
mod housekeeping;
mod http;
mod kubeconfig;
mod metadata;
mod object;
mod openapi;
mod ownership;
mod registry;
mod route;
mod server;
mod status;
mod store;
mod table;
mod verbs;
mod webhook;

pub use auth::certificates::Identity;
pub use server::{Builder, Credentials, Error, Running, Server};
pub use verbs::subresources::{
    exec::{Ended, Output, PodExec, Run, Streams},
    log::PodLog,
};
