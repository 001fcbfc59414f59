//! Devices and the claims to them.

mod deviceclasses;
mod resourceclaims;
mod resourceclaimtemplates;
mod resourceslices;

use crate::Kind;

pub(super) static KINDS: &[&Kind] =
    &[&deviceclasses::KIND, &resourceclaims::KIND, &resourceclaimtemplates::KIND, &resourceslices::KIND];
