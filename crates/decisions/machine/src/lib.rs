//! Decides the life of machines: Machines, MachineSets, MachineDeployments, health checks and links to nodes.
//!
//! Each kind has a planner that is a pure function of a snapshot. The `Provider` port says what a cloud must be able to do.

pub mod admission;
pub mod capacity;
pub mod condition;
pub mod control_plane_set;
pub mod deployment;
pub mod draining;
pub mod duration;
pub mod health;
pub mod joining;
pub mod lifecycle;
pub mod link;
pub mod operator_config;
pub mod orphans;
pub mod provider;
pub mod set;
pub mod spec;
pub mod template;
