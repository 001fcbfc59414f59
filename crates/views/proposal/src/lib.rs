//! What a change would do, before it is applied: shown by `plan`, `diff`, `rollback` and the dashboard.
//!
//! The planners of the controllers and of the daemon decide here too; only the world is one that is not there yet. Nothing is
//! read or written: whoever asks has gathered the objects before.

pub mod cluster;
pub mod comparison;
pub mod config;
pub mod generated;
pub mod inputs;
pub mod machines;
pub mod manifest;
pub mod plan;
pub mod pools;
pub mod request;
pub mod rollback;
pub mod saved;
pub mod secrets;
mod waves;

pub use cluster::Cluster;
pub use comparison::Comparison;
pub use manifest::{Manifest, Origin};
pub use plan::{Draft, Plan, Proposal};
pub use request::Change;
pub use secrets::Secrets;
