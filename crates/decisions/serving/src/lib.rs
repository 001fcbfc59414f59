//! Decides what a new machine is served: which Ignition version, which config of the pool, and what is added to it.
//!
//! It reads no network and no disk; the service hands in the objects, the token and the certificates.

pub mod accept;
pub mod choose;
mod compose;
pub mod daemon;
mod kubeconfig;
pub mod pointer;
pub mod report;
pub mod route;
pub mod token;

pub use compose::{Error, Parts, SERVER_CA, compose};
pub use kubeconfig::kubeconfig;
