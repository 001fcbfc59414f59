//! libvirt's own daemon: its test driver plays the hypervisor and the network, and storage is real.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod conformance;
mod edge;
mod guide;
mod interrupted;
mod launch;
mod lookup;
mod trouble;
mod world;
