//! Tests the adapter against a scripted API.

#![allow(clippy::unwrap_used)]

mod scripted;
mod watching;
