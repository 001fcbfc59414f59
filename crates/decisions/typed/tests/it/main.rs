//! The rules of typed configuration, on whole objects.

#![allow(clippy::unwrap_used)]

mod kubelet;
mod kubelet_faults;
mod limits;
mod registries;
mod registries_faults;
mod runtime;
mod templates;
mod templates_faults;
mod world;
