//! The embedded API from outside: through kube-rs where its types help, over plain HTTP where the wire matters.

#![allow(clippy::unwrap_used)]

mod clients;
mod wire;
