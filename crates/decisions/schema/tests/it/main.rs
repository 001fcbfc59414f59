//! The crate against what a real server answered.

#![allow(clippy::unwrap_used)]

mod model;
mod recorded;
