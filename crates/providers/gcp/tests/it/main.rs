//! An imitation of Compute Engine, which checks every request against Google's own description of it.

#![allow(clippy::unwrap_used)]

mod conformance;
mod description;
mod fake;
mod guide;
mod launch;
mod lookup;
mod trouble;
mod world;
