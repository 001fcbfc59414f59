//! How a pool's target reaches its nodes.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod control_plane;
mod crowd;
mod fleet;
mod hosts;
mod ledger;
mod line;
mod marks;
mod misuse;
mod places;
mod properties;
mod requests;
mod sizes;
mod status;
mod targets;
mod world;
