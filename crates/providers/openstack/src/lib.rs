//! Machines that are servers of OpenStack.
//!
//! `spec` is pure. `client` is the wire, on which `services` are the calls of nova, neutron, glance and cinder. `instance` is
//! the port that the machine controllers use; it translates and decides nothing.

// A test that cannot go on says so with a panic.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod instance;
mod mark;
mod services;
mod settings;
pub mod spec;

pub use instance::OpenStack;
pub use settings::Settings;
