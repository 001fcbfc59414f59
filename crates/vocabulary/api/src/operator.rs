//! `operator.openshift.io/v1`: cluster-wide settings of machine configuration, and the older mirrors of `v1alpha1`.

mod boot_images;
mod image_content_source_policy;
mod machine_configuration;
mod node_disruption;

pub use boot_images::*;
pub use image_content_source_policy::*;
pub use machine_configuration::*;
pub use node_disruption::{
    NodeDisruptionPolicyAction, NodeDisruptionPolicyConfig, NodeDisruptionPolicyFile, NodeDisruptionPolicySshKey,
    NodeDisruptionPolicyUnit, ServiceReference,
};

/// The API group.
pub const GROUP: &str = "operator.openshift.io";
/// The version of the kinds in the group that are not alpha.
pub const VERSION: &str = "v1";
