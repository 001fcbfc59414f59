//! Stories and suites on real parts: real API servers, real systemd nodes, a real browser.

#![allow(clippy::unwrap_used)]

mod applying;
mod builtins;
mod control_plane;
mod controllers;
mod dice;
mod elections;
mod expressions;
mod firstboot;
mod go_clients;
mod ignition_validate;
mod kinds;
mod kubectl;
mod nodes;
mod operator;
mod oracle;
mod processes;
mod quantities;
mod quotas;
#[macro_use]
mod referee;
mod rules;
mod schema;
mod server;
mod stories;
mod waiting;
mod walk;
mod watching;
