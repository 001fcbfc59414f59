//! What keeps pods running.

mod controllerrevisions;
mod daemonsets;
mod deployments;
mod replicasets;
mod statefulsets;

use crate::Kind;

pub use daemonsets::TEMPLATE_GENERATION;

pub(super) static KINDS: &[&Kind] =
    &[&controllerrevisions::KIND, &daemonsets::KIND, &deployments::KIND, &replicasets::KIND, &statefulsets::KIND];
