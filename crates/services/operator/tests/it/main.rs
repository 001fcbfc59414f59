//! The operator on the embedded API, with reads that fail, and the Machine API's operator on both servers.
#![allow(clippy::unwrap_used)]

mod accounts;
mod alerts;
mod machine_api;
mod platform;
mod rights;
mod stage;
mod unread;
mod upgrade;
mod webhook;
