//! What the Kubernetes API decides about an object, as pure functions: schemas, pruning, defaults, validation, CEL rules,
//! selectors, patches, server-side apply, OpenAPI documents and the tables of custom resources.
//!
//! The words are the real server's, because users and tools read them. Nothing here stores, sends, waits or looks at a clock.

// Test helpers read better with owned values.
#![cfg_attr(test, allow(clippy::needless_pass_by_value, clippy::unwrap_used))]

mod compile;
mod decode;
mod defaults;
mod error;
mod node;
mod path;
mod prune;
mod rules;
mod validate;
mod zero;

pub mod crd;
pub mod managed;
pub mod metadata;
pub mod openapi;
pub mod patch;
pub mod policy;
pub mod protobuf;
pub mod selector;
pub mod status;
pub mod strict;
pub mod table;
pub mod webhook;

pub use cel::{budget::with_patience, names, quantity};
pub use error::{ErrorKind, FieldError, aggregate, go_float, go_json, go_plain, go_quote};
pub use node::Schema;

/// A quantity (`0.5`) in the form in which it is stored and shown (`500m`).
///
/// # Errors
/// The text is no quantity; the error is the real server's.
pub fn quantity(text: &str) -> Result<String, String> {
    quantity::canonical(text).map_err(str::to_owned)
}
