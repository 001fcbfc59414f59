//! The crate against what a real server answered.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod laws;
mod model;
mod recorded;
