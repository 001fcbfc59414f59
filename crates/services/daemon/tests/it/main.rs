//! The engine on hosts that are not machines.
#![allow(clippy::unwrap_used)]

mod configs;
mod directory;
mod drift;
mod once;
mod power;
