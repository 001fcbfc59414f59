//! `config.openshift.io/v1`: facts about the cluster.
//!
//! Only `ClusterOperator` is a kind of ours to define; `Infrastructure`, `DNS` and `Proxy` are here because a
//! ControllerConfig carries them.

mod cluster_operator;
mod dns;
mod infrastructure;
mod platforms;
mod proxy;

pub use cluster_operator::*;
pub use dns::*;
pub use infrastructure::*;
pub use platforms::*;
pub use proxy::*;

/// The API group.
pub const GROUP: &str = "config.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1";
