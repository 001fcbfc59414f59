//! A provider in a process of its own, reached by HTTP and JSON over a Unix socket.
//!
//! [`External`] is the `Provider`. [`wire`] holds the messages of version 1, from which the schema in the docs is generated. The
//! process describes its providerSpec once, as data; defaults and validation then need no call. Whatever it answers, and
//! whether it answers at all, becomes an error of a kind, and nothing else.

mod client;
mod convert;
mod instance;
mod rules;
pub mod wire;

pub use client::Settings;
pub use instance::External;
