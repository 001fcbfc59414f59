//! Behaviour of the crate through its public face.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests read the committed vectors and the clock")]

mod down;
mod fuzz;
mod merge;
mod mutate;
mod properties;
mod spec2;
mod validate;
