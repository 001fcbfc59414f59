//! Machines that are libvirt domains.
//!
//! `spec` is pure, and so are `domain`, `network` and `cidata`, which turn a spec into what libvirt reads. `client` runs
//! `virsh`, the only way in which this crate reaches libvirt: the library itself is LGPL and cannot be linked statically.
//! `instance` is the port that the machine controllers use; it translates and decides nothing.

// A test that cannot go on says so with a panic.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cidata;
pub mod client;
mod domain;
mod instance;
mod mark;
mod network;
mod settings;
pub mod spec;
mod xml;

pub use instance::Libvirt;
pub use settings::{Acceleration, Settings};
