//! How a node is emptied.

#![allow(clippy::unwrap_used)]

mod eviction;
mod handshake;
mod world;
