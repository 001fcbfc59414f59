//! What the two kinds of admission policies share, and their bindings.

use serde_json::{Value, json};

use crate::{
    table::{Row, size},
    text,
};

/// The cells of a policy, whose `rules` are counted.
pub(super) fn cells(row: &Row<'_>, rules: &str) -> Value {
    let kind = &row.spec["paramKind"];
    let shown = match kind.is_object() {
        true => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
        false => "<unset>".to_string(),
    };
    json!([row.name, size(&row.spec[rules]), shown, row.age])
}

pub(super) fn cells_of_binding(row: &Row<'_>) -> Value {
    let reference = &row.spec["paramRef"];
    let shown = match (text(&reference["namespace"]), text(&reference["name"])) {
        (_, "") => "<unset>".to_string(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    json!([row.name, text(&row.spec["policyName"]), shown, row.age])
}
