//! Tests of the kinds through the public API: their CRDs, round trips of objects, and older spellings.

// Objects are literals at their place of use, so they are passed by value.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod definitions;
mod every_kind;
mod manifests;
mod older_spellings;
mod round_trip;
