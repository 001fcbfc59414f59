//! Test support for every crate: a control plane with our kinds, builders for objects, and waiting for states.
//!
//! Nothing here is part of the product or decides how it behaves. Control planes, waiting and the checks for
//! prerequisites come from [`referee`]; this crate adds what is specific to Machinist.

// Test support panics with a message, because no caller could handle its errors.
#![allow(clippy::unwrap_used)]

pub mod binaries;
pub mod changes;
pub mod control_plane;
pub mod faults;
mod install;
pub mod libvirt;
pub mod metrics;
pub mod moto;
pub mod needs;
pub mod objects;
pub mod real_cluster;
pub mod vcsim;

pub use changes::Changes;
pub use control_plane::{ControlPlane, control_plane, durable_control_plane};
pub use faults::Faults;
pub use libvirt::LibvirtDaemon;
pub use moto::Moto;
pub use packages::Image;
pub use real_cluster::RealCluster;
pub use referee::{
    Kind, cache, certificates, certify, go_program, go_tool, process, wait, wait_for, wait_for_all, wait_for_within,
    wait_until,
};
pub use vcsim::Vcsim;
