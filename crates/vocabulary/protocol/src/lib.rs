//! Reads and writes the annotations of a Node in one place.
//!
//! The annotations are the protocol between the rollout controller, the drain controller and the daemon on the node.
//! Each of these may be upstream's or ours, in any combination. Daemons and people write annotations, so reading them
//! cannot fail: a value that cannot be parsed counts as missing. Nothing here talks to a cluster or decides what to do.

pub mod annotations;
pub mod drain;
pub mod extensions;
pub mod names;
pub mod notes;
pub mod state;

pub use drain::DrainRequest;
pub use names::{ConfigName, NodeName, PoolName};
pub use notes::{Cordon, NodeNotes};
pub use state::DaemonState;
