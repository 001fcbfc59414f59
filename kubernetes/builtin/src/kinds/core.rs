//! The core group.

mod componentstatuses;
mod configmaps;
mod endpoints;
mod events;
mod limitranges;
mod namespaces;
mod nodes;
mod persistentvolumeclaims;
mod persistentvolumes;
mod pods;
mod podtemplates;
mod replicationcontrollers;
mod resourcequotas;
mod secrets;
mod serviceaccounts;
mod services;

use crate::Kind;

pub use namespaces::has_spec_finalizers;
pub use pods::grace;

pub(super) static KINDS: &[&Kind] = &[
    &componentstatuses::KIND,
    &configmaps::KIND,
    &endpoints::KIND,
    &events::KIND,
    &limitranges::KIND,
    &namespaces::KIND,
    &nodes::KIND,
    &persistentvolumeclaims::KIND,
    &persistentvolumes::KIND,
    &pods::KIND,
    &podtemplates::KIND,
    &replicationcontrollers::KIND,
    &resourcequotas::KIND,
    &secrets::KIND,
    &serviceaccounts::KIND,
    &services::KIND,
];
