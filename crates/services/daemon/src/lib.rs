//! The node daemon: brings one host to the config its Node asks for, survives anything, and says what it is doing.
//!
//! `engine` changes the host and keeps a journal, and knows no cluster; `run` is the loop that listens to the Node and reports
//! to it. Which steps lead from one config to another is decided in `change`; what a host can do is in `adapters/host`.

pub mod access;
pub mod accounts;
mod adoption;
pub mod apply;
mod certificates;
pub mod cluster_policy;
pub mod conditions;
pub mod credential;
mod delivered;
pub mod difference;
pub mod engine;
mod faults;
pub mod journal;
pub mod keys;
pub mod metrics;
pub mod node;
pub mod once;
pub mod originals;
mod pinned;
pub mod prepare;
pub mod repair;
pub mod report;
pub mod run;
pub mod sshd;
pub mod store;
mod survey;
mod together;
pub mod trial;
pub mod verify;

pub use ::node::decide;

/// How long a lost API is left alone at most: a fleet of thousands must not keep one that comes back from coming back.
const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);
