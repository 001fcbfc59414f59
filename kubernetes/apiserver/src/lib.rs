//! A Kubernetes API server inside your process, for tests of controllers and for programs that bring their own cluster.
//!
//! kubectl, kube-rs and client-go use it unchanged: discovery, OpenAPI, custom resources with schemas and CEL, watches,
//! every kind of patch including server-side apply, RBAC, admission webhooks and policies, garbage collection. It needs no
//! download and no other process, and keeps its objects in memory or in a folder. Its answers are compared with those of a
//! real kube-apiserver; `DIFFERENCES.md` in the folder above lists what differs.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use apiserver::Server;
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::{Api, Client, Config, api::ListParams, config::Kubeconfig};
//!
//! let server = Server::builder().start().await?;
//! let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig())?;
//! # let _ = rustls::crypto::ring::default_provider().install_default();
//! let client = Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?)?;
//!
//! let namespaces = Api::<Namespace>::all(client).list(&ListParams::default()).await?;
//! assert!(namespaces.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("kube-system")));
//! # Ok(()) }
//! ```
//!
//! The server listens on a free port of the loopback address, with TLS. [`Running::kubeconfig`] is the administrator's;
//! [`Running::kubeconfig_for`] makes one for any other user, so that a test can run a controller with the rights it will
//! have. Dropping [`Running`] stops the server. There are no nodes: a test plays the kubelet, and [`Builder::pod_logs`] and
//! [`Builder::pod_exec`] let it answer `kubectl logs` and `kubectl exec`.
//!
//! This crate stores objects, speaks HTTP and decides who may do what. The rules of objects are in `schema` (all kinds) and
//! `builtin` (built-in kinds), which do no I/O.

#![warn(missing_docs)]

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
