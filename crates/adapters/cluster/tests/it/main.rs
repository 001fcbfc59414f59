//! The adapter against an API that does what a test tells it to.

mod scripted;
mod watching;
