//! The kinds that Machinist uses, as Rust types, and well-known names.
//!
//! The types are the source of truth: [`crds`] generates every CustomResourceDefinition from them. Nothing here talks
//! to a cluster, reads a clock or decides anything about machines.

// kube's schema derive repeats each struct inside a function, where `pub` is unreachable.
#![allow(unreachable_pub)]
// Columns repeat their keys, because kube's derive requires it.
#![allow(clippy::duplicated_attributes)]

pub mod annotations;
pub mod cluster;
pub mod config;
mod definitions;
pub mod healthchecking;
pub mod known;
pub mod labels;
pub mod machine;
pub mod machineconfiguration;
pub mod machinist;
pub mod managed;
pub mod names;
pub mod operator;
pub mod pause;
mod rules;
mod schema;
pub mod selector;
pub mod survey;
mod translate;

pub use definitions::{crd, crds, manifest};
pub use schema::Empty;
pub use translate::{Translate, Warning, translate};
