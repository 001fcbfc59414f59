//! Behaviour of rendering through its public face.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "tests fail by panicking, and cases read best as values"
)]
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
