//! The adapter against an API that does what a test tells it to.

#![allow(clippy::unwrap_used)]

mod scripted;
mod watching;
