//! Admission: webhooks, policies and their bindings.

mod mutatingadmissionpolicies;
mod mutatingadmissionpolicybindings;
mod mutatingwebhookconfigurations;
mod policies;
mod validatingadmissionpolicies;
mod validatingadmissionpolicybindings;
mod validatingwebhookconfigurations;
mod webhooks;

use crate::Kind;

pub const POLICIES: &str = "admissionregistration.k8s.io/validatingadmissionpolicies";
pub const BINDINGS: &str = "admissionregistration.k8s.io/validatingadmissionpolicybindings";
pub const MUTATING_POLICIES: &str = "admissionregistration.k8s.io/mutatingadmissionpolicies";
pub const MUTATING_BINDINGS: &str = "admissionregistration.k8s.io/mutatingadmissionpolicybindings";

pub(super) static KINDS: &[&Kind] = &[
    &mutatingadmissionpolicies::KIND,
    &mutatingadmissionpolicybindings::KIND,
    &mutatingwebhookconfigurations::KIND,
    &validatingadmissionpolicies::KIND,
    &validatingadmissionpolicybindings::KIND,
    &validatingwebhookconfigurations::KIND,
];
