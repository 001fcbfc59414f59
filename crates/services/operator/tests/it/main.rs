//! The operator on the embedded API, with reads that fail.
#![allow(clippy::unwrap_used)]

mod platform;
mod stage;
mod unread;
