//! One outside system: the Kubernetes API, reached with a kubeconfig or from inside a cluster.
//!
//! Connecting, watching, writing with a named manager, events, leader election and the queue that controllers work from.
//! No rule about pools, nodes or machines is here, and nothing here knows whether the server is a real kube-apiserver or ours.

pub mod connect;
pub mod error;
pub mod events;
pub mod leader;
pub mod patience;
pub mod pods;
pub mod queue;
pub mod read;
pub mod readiness;
pub mod rights;
pub mod tokens;
pub mod watch;
pub mod write;

pub use connect::{connect, ensure_namespace};
pub use error::{Problem, problem};
pub use events::Events;
pub use patience::Patience;
pub use queue::{Outcome, Queue};
pub use watch::{Change, Store, Watch};
