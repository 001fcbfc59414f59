//! OpenStack over HTTP on loopback: a strict imitation of keystone, nova, neutron, glance and cinder.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod children;
mod conformance;
mod fake;
mod guide;
mod launch;
mod lookup;
mod trouble;
mod world;
