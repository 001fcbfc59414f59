//! Behaviour of the crate through its public face.

#![allow(clippy::unwrap_used)]

mod down;
mod fuzz;
mod merge;
mod mutate;
mod properties;
mod spec2;
mod validate;
