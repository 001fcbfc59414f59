//! `cluster.k8s.io/v1alpha1`: the oldest version of the machine kinds, before they had their own group.
//!
//! Kept for manifests of that time. New manifests use [`crate::machine`].

#[expect(clippy::module_inception, reason = "the group and one of its kinds have the same name")]
mod cluster;
mod machine;
mod machine_deployment;
mod machine_set;

pub use cluster::*;
pub use machine::*;
pub use machine_deployment::*;
pub use machine_set::*;

/// The API group.
pub const GROUP: &str = "cluster.k8s.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1alpha1";
