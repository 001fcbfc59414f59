//! Machines on Google Compute Engine.
//!
//! `spec` is pure. `client` speaks the REST interface, of which this crate knows the two dozen methods that machines need.
//! `instance` is the port that the machine controllers use; it translates and decides nothing.

// A test that cannot go on says so with a panic.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod instance;
mod settings;
pub mod spec;

pub use instance::Gcp;
pub use settings::Settings;
