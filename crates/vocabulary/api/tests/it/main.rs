//! The kinds from outside: their definitions, what survives reading and writing, and older spellings.

#![allow(clippy::unwrap_used)]

mod definitions;
mod every_kind;
mod manifests;
mod older_spellings;
mod round_trip;
