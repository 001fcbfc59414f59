//! What a change of config means for a host: what differs, whether a node can get there, what it disrupts, which steps.

pub mod content;
pub mod credentials;
pub mod diff;
pub mod disruption;
pub mod host;
pub mod kargs;
pub mod plan;
pub mod policy;
pub mod reconcilable;
pub mod registries;
pub mod step;
pub mod target;
