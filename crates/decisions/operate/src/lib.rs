//! Decides what a cluster needs to run Machinist: which objects, how the operator's state reads, when certificates and
//! tokens are renewed, which certificate requests are approved, and what an uninstallation takes away.
//!
//! Every function is from values to values. Who creates, signs, approves or deletes is the service `operator`.

mod alerts;
pub mod board;
pub mod certificates;
mod controller_config;
pub mod dashboard;
mod definitions;
mod facts;
mod guards;
mod installation;
pub mod machine_api;
mod monitors;
pub mod node_access;
mod objects;
mod pools;
pub mod programs;
pub mod requests;
pub mod status;
pub mod tokens;
pub mod trouble;
pub mod uninstall;
pub mod user_data;
pub mod workloads;

pub use definitions::difference;
pub use facts::{Facts, NodeFacts, Platform, Sources};
pub use installation::{Images, ImagesError, Installation};
pub use objects::{Desired, Id, Keep, Step, found, installed};
