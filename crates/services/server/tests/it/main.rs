//! The config server over the wire, from a folder of manifests: no cluster is needed.

#![allow(clippy::unwrap_used)]

mod bootstrap;
mod refusals;
mod world;
