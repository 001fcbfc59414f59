//! `config.openshift.io/v1`: facts about the cluster.
//!
//! On OpenShift these kinds belong to the cluster; elsewhere we define the ones that we read. `DNS` is here only
//! because a ControllerConfig contains it.

mod api_server;
mod cluster_operator;
mod dns;
mod feature_gate;
mod image;
mod image_policy;
mod infrastructure;
mod mirrors;
mod node;
mod platforms;
mod proxy;
mod references;
mod scheduler;

pub use api_server::*;
pub use cluster_operator::*;
pub use dns::*;
pub use feature_gate::*;
pub use image::*;
pub use image_policy::*;
pub use infrastructure::*;
pub use mirrors::*;
pub use node::*;
pub use platforms::*;
pub use proxy::*;
pub use references::*;
pub use scheduler::*;

/// The API group.
pub const GROUP: &str = "config.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1";
