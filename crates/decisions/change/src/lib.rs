//! What a change of config means for a host: what differs, whether a node can get there, what it disrupts, which steps.

pub mod host;
pub mod kargs;
pub mod plan;
pub mod step;
pub mod target;
