//! The simulated cloud as the machine controllers meet it.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod conformance;
mod faults;
mod restart;
mod world;
