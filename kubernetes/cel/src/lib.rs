//! The expression language of Kubernetes: CEL with the types, functions, costs and error texts of the real server.
//!
//! Expressions stand in rules of definitions, admission policies, match conditions and device selectors. The kube-cel crate
//! parses them; types, costs and evaluation are decided here ([`judge`], [`admission`], [`devices`] before any object
//! exists, [`Expression::run`] afterwards). An expression that costs more than its [`budget`] ends with an error.
//!
//! The notations that the language shares with schemas are here too: [`quantity`], [`names`] and how Go writes texts ([`go`]).
//! Nothing here knows schemas of objects, stores, waits or looks at a clock.
//!
//! ```
//! use cel::{Expression, Named, value::Value};
//!
//! let expression = Expression::parse("size(self) > 2 && self.startsWith('a')")?;
//! let outcome = expression.run(&Named(&[("self", "abc".into())]));
//! assert!(matches!(outcome, Ok(Value::Bool(true))));
//! # Ok::<(), String>(())
//! ```

// Test helpers read better with owned values.
#![cfg_attr(test, allow(clippy::needless_pass_by_value, clippy::unwrap_used))]

pub mod admission;
pub mod budget;
pub mod cost;
pub mod devices;
pub mod go;
pub mod names;
pub mod objects;
pub mod quantity;
pub mod value;

mod check;
mod convert;
mod declared;
mod depth;
mod fold;
mod judge;
mod library;
mod literals;
mod macros;
mod respell;
mod run;
mod sizes;
mod source;
mod types;

pub use admission::Wrong;
pub use convert::{escape, formatted, is_reserved, untyped};
pub use declared::Declared;
pub use judge::{Judged, Purpose, judge};
pub use run::{Around, Named};
pub use source::Expression;
