//! Label and field selectors: parsed with the server's error texts, matched without allocating.

mod fields;
mod labels;
mod object;

pub use fields::{FieldRequirement, FieldSelector, fields};
pub use labels::{LabelSelector, Operator, Requirement, labels};
pub use object::from_object;
