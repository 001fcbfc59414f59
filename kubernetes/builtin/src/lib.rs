//! What the Kubernetes API knows about its built-in kinds beyond their schemas: defaults, checks, warnings, how writes and
//! deletions differ, which fields can be selected on, and what tables show.
//!
//! [`of`] looks a kind up. Everything about a kind is one [`Kind`] in one file below `kinds`; rules that several kinds share
//! lie beside it, by subject. Nothing here stores, sends, waits or looks at a clock: the time of a write is handed in.
//!
//! ```
//! use serde_json::json;
//!
//! let deployments = builtin::of("apps/deployments");
//! let mut deployment = json!({"spec": {"template": {}}});
//! deployments.default(&mut deployment, &|| "2026-01-01T00:00:00Z".to_owned());
//! assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
//! ```

// Test helpers read better with owned values.
#![cfg_attr(test, allow(clippy::needless_pass_by_value, clippy::unwrap_used))]

pub mod amounts;
pub mod conditions;
pub mod fields;
pub mod flow;
pub mod services;

mod defaults;
mod kind;
mod kinds;
mod strategy;
mod table;
mod validate;
mod warnings;

pub use kind::{Kind, Now, Update, View, Write};
pub use kinds::{
    API_SERVICES, BINDINGS, DEFINITION_FINALIZER, DEFINITIONS, MUTATING_BINDINGS, MUTATING_POLICIES, POLICIES,
    TEMPLATE_GENERATION, collection, custom, grace, has_spec_finalizers, of,
};
pub use strategy::{Generation, Strategy};
pub use table::Column;

use serde_json::Value;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Makes `field` of `new` what it is in `old`.
pub fn move_field(old: &Value, new: &mut Value, field: &str) {
    let Some(object) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => object.insert(field.into(), value.clone()),
        None => object.remove(field),
    };
}
