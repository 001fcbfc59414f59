//! `operator.openshift.io/v1`: cluster-wide settings of machine configuration.

mod boot_images;
mod machine_configuration;
mod node_disruption;

pub use boot_images::*;
pub use machine_configuration::*;
pub use node_disruption::{
    NodeDisruptionPolicyAction, NodeDisruptionPolicyConfig, NodeDisruptionPolicyFile, NodeDisruptionPolicySshKey,
    NodeDisruptionPolicyUnit, ServiceReference,
};

/// The API group.
pub const GROUP: &str = "operator.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1";
