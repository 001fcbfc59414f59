//! What a change of config means for a host: what differs, whether a node can get there, what it disrupts, which steps.

pub mod backend;
pub mod content;
pub mod credentials;
pub mod diff;
pub mod disruption;
pub mod host;
pub mod kargs;
pub mod pinned;
pub mod plan;
pub mod policy;
pub mod reconcilable;
pub mod registries;
pub mod risk;
pub mod step;
pub mod survey;
pub mod target;
