//! A provider behind a socket, as the machine controllers meet it.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod conformance;
mod trouble;
mod world;
