//! What runs pods to their end.

mod cronjobs;
mod jobs;

use crate::Kind;

pub(super) static KINDS: &[&Kind] = &[&cronjobs::KIND, &jobs::KIND];
