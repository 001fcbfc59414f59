//! For the tests of every crate: a real control plane, builders for objects, and waiting for states.
//!
//! Nothing here is part of the product, and nothing here decides how the product behaves.
//!
//! # What must be on the machine
//! `cargo xtask test` installs the Debian packages that the real parts come from. Go itself is whatever `go` is on the
//! `PATH`: the distribution's is older than what Kubernetes builds with.
//! A test asks for its parts with [`needs`]; where one is missing the test is recorded, and under `CI=true` it fails.

// Test support panics with a message where a test would: there is nobody else to handle it.
#![allow(clippy::unwrap_used)]

pub mod binaries;
pub mod cache;
pub mod certificates;
pub mod changes;
pub mod control_plane;
pub mod moto;
pub mod needs;
pub mod objects;
pub mod process;
pub mod wait;

pub use cache::{go_program, go_tool};
pub use certificates::certify;
pub use changes::Changes;
pub use control_plane::{ControlPlane, Kind, control_plane, durable_control_plane};
pub use moto::Moto;
pub use wait::{wait_for, wait_for_all, wait_until};
