//! Decides what a new machine is served: the Ignition version, the config of its pool, and what is added to that
//! config.
//!
//! This crate reads neither network nor disk; the service passes in the objects, the token and the certificates.

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
