//! The embedded API compared with a real kube-apiserver, and with the Go packages that a kube-apiserver is made of.

#![allow(clippy::unwrap_used)]

mod applying;
#[macro_use]
mod behaviours;
mod builtins;
mod control_plane;
mod dice;
mod expressions;
mod go_clients;
mod kubectl;
mod oracle;
mod patterns;
mod quantities;
mod quotas;
mod rules;
mod schema;
mod waiting;
