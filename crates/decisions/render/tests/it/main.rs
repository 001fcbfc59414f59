//! Behaviour of rendering through its public face.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests read the committed vectors and the clock")]

mod fuzz;
#[path = "../../../../vocabulary/ignition/tests/it/mutate.rs"]
mod mutate;
mod name;
mod provenance;
mod refusals;
mod remote;
mod rendering;
mod world;
