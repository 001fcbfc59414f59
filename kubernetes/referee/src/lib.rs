//! Holds the embedded Kubernetes API to the real one: starts either behind one type, and compares them in `tests/it`.
//!
//! The library half starts control planes, builds the Go programs that the suites compare with, and waits for states. It is
//! for tests only: nothing here is part of the product, and nothing here decides how the embedded API behaves.
//!
//! # What must be on the machine
//! etcd and `setpriv` come from Debian packages, which `cargo xtask test` installs. Go itself is whatever `go` is on the
//! `PATH`: the distribution's is older than what Kubernetes builds with.
//! A test asks for its parts with [`needs`]; where one is missing the test is recorded, and under `CI=true` it fails.

// Test support panics with a message where a test would: there is nobody else to handle it.
#![allow(clippy::unwrap_used)]

pub mod cache;
pub mod certificates;
pub mod control_plane;
pub mod kubectl;
pub mod needs;
pub mod process;
pub mod wait;

pub use cache::{go_program, go_tool};
pub use certificates::certify;
pub use control_plane::{ControlPlane, Kind, control_plane, durable_control_plane};
pub use wait::{wait_for, wait_for_all, wait_for_within, wait_until};
