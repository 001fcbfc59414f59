//! Tests of the crate through its public API.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "tests fail by panicking, and cases read best as values"
)]
#![allow(clippy::disallowed_methods, reason = "tests read the committed vectors and the clock")]

mod down;
mod fuzz;
mod merge;
mod mutate;
mod properties;
mod spec2;
mod validate;
