//! An imitation of Compute Engine, which checks every request against Google's own description of it.

#![allow(clippy::unwrap_used)]

mod conformance;
mod description;
mod fake;
mod launch;
mod world;
