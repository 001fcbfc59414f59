//! The planners of the machine half, each alone and all together on an in-memory world.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod admission;
mod cloud;
mod conformance;
mod control_plane_set;
mod convergence;
mod deployment;
mod draining;
mod health;
mod lifecycle;
mod link;
mod make;
mod orphans;
mod set;
mod world;
