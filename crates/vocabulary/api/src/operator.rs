//! `operator.openshift.io/v1`: cluster-wide settings of machine configuration.

mod node_disruption;

pub use node_disruption::{
    NodeDisruptionPolicyAction, NodeDisruptionPolicyConfig, NodeDisruptionPolicyFile,
    NodeDisruptionPolicySshKey, NodeDisruptionPolicyUnit, ServiceReference,
};
