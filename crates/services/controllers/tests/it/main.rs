//! The controllers on the embedded API, with reads that fail.
#![allow(clippy::unwrap_used)]

mod access;
mod inert;
mod pause;
mod stage;
mod unread;
