//! How a node is emptied.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod eviction;
mod handshake;
mod world;
