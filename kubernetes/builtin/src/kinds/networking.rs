//! How traffic reaches pods.

mod ingressclasses;
mod ingresses;
mod ipaddresses;
mod networkpolicies;
mod servicecidrs;

use crate::Kind;

pub(super) static KINDS: &[&Kind] =
    &[&ingressclasses::KIND, &ingresses::KIND, &ipaddresses::KIND, &networkpolicies::KIND, &servicecidrs::KIND];
