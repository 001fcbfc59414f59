//! The rules of typed configuration, on whole objects.

#![allow(clippy::unwrap_used)]

mod effects;
mod force;
mod inert;
mod judge;
mod kubelet;
mod kubelet_faults;
mod limits;
mod objects;
mod registries;
mod registries_faults;
mod runtime;
mod runtimes_judge;
mod templates;
mod templates_faults;
mod world;
