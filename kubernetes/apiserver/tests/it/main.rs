//! The embedded API from outside: through kube-rs where its types help, over plain HTTP where the wire matters.

#![allow(clippy::unwrap_used)]

mod access;
mod bad_input;
mod child;
mod clients;
mod crash;
mod definitions;
mod disk;
mod housekeeping;
mod lists;
mod quotas;
mod stalled;
mod verbs;
mod watches;
mod wire;
