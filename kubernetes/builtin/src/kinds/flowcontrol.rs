//! Which requests go first.

mod flowschemas;
mod prioritylevelconfigurations;

use crate::Kind;

pub(super) static KINDS: &[&Kind] = &[&flowschemas::KIND, &prioritylevelconfigurations::KIND];
