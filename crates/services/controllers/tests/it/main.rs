//! The controllers on the embedded API, with reads that fail.

mod stage;
mod unread;
