//! Machines on VMware vSphere.
//!
//! `spec` is pure. `client` speaks vCenter's SOAP interface, of which this crate knows the two dozen methods that machines
//! need. `instance` is the port that the machine controllers use; it translates and decides nothing. `claims` asks the
//! cluster for addresses from pools.

// A test that cannot go on says so with a panic.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod claims;
mod client;
mod instance;
mod mark;
mod settings;
pub mod spec;
mod xml;

pub use instance::Vsphere;
pub use settings::{FailureDomain, Settings};
