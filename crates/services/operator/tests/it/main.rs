//! The operator on the embedded API, with reads that fail.

mod platform;
mod stage;
mod unread;
