//! Hosts of Metal3 on the embedded API, with a stand-in for Metal3's operator.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod claims;
mod conformance;
mod guide;
mod world;
