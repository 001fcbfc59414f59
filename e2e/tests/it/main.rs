//! Stories and suites on real parts: real API servers, real systemd nodes, a real browser.

#![allow(clippy::unwrap_used)]

mod control_plane;
mod controllers;
mod dashboard;
mod elections;
mod firstboot;
mod ignition_validate;
mod kinds;
mod nodes;
mod operator;
mod processes;
mod real;
mod server;
mod stories;
mod walk;
mod watching;
