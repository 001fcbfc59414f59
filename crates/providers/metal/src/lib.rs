//! Machines that are BareMetalHosts of Metal3.
//!
//! `spec` is pure, and so is `host`, which reads hosts and says what to write on them. `instance` is the port that the machine
//! controllers use: it claims a free host for a Machine, and gives it back. Metal3's own operator does the rest: it writes
//! the image, switches the power and cleans the disks.

// A test that cannot go on says so with a panic.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod host;
mod instance;
pub mod spec;

pub use instance::Metal;
