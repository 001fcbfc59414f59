//! Rules of the operator, on made-up clusters.

#![allow(clippy::unwrap_used)]

mod alerts;
mod objects;
mod requests;
mod status;
