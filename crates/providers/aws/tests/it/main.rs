//! AWS over HTTP on loopback: moto plays AWS, and an edge before it plays what moto leaves out.

// A test that cannot go on says so with a panic.
#![allow(clippy::unwrap_used)]

mod balancers;
mod chain;
mod conformance;
mod edge;
mod hosts;
mod launch;
mod lookup;
mod signature;
mod traps;
mod trouble;
mod world;
