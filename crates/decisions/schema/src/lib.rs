//! What the Kubernetes API decides about an object, as pure functions: schemas, pruning, defaults, validation, CEL rules,
//! selectors, patches, server-side apply, OpenAPI documents and printed tables.
//!
//! The words are the real server's, because users and tools read them. Nothing here stores, sends, waits or looks at a clock.

mod cel;
mod compile;
mod decode;
mod defaults;
mod error;
mod names;
mod node;
mod path;
mod prune;
mod validate;
mod zero;

pub mod managed;
pub mod metadata;
pub mod patch;
pub mod selector;
pub mod status;
pub mod strict;

pub use error::{ErrorKind, FieldError, aggregate};
pub use node::Schema;
