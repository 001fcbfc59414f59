//! Containers as the machine controllers meet them.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod conformance;
mod host;
mod world;
