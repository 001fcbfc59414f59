//! What provides volumes.

mod csidrivers;
mod csinodes;
mod csistoragecapacities;
mod storageclasses;
mod volumeattachments;
mod volumeattributesclasses;

use crate::Kind;

pub(super) static KINDS: &[&Kind] = &[
    &csidrivers::KIND,
    &csinodes::KIND,
    &csistoragecapacities::KIND,
    &storageclasses::KIND,
    &volumeattachments::KIND,
    &volumeattributesclasses::KIND,
];
