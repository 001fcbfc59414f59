//! The adapter of the Kubernetes API, which is reached with a kubeconfig or from inside a cluster.
//!
//! It connects, watches, writes under a field manager, publishes events, elects leaders and provides the work queue of
//! controllers. It contains no rules about pools, nodes or machines, and does not know whether the server is a real
//! kube-apiserver or the embedded one.

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
