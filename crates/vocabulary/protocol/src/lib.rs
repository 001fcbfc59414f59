//! What the annotations of a Node say, read and written in one place.
//!
//! The annotations are the protocol between the rollout controller, the drain controller and the daemon on the node, whoever
//! wrote each of them: upstream's and ours can be mixed. Annotations are written by daemons and by people, so reading them
//! cannot fail: what cannot be read counts as unsaid. Nothing here talks to a cluster or decides what follows.

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
