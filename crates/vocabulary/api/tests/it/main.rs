//! The kinds from outside: their definitions, what survives reading and writing, and older spellings.

// Objects are written where they are used, so they are handed over by value.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod definitions;
mod every_kind;
mod manifests;
mod older_spellings;
mod round_trip;
