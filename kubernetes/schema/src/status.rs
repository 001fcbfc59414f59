//! Status documents whose words depend on field errors.

use serde_json::{Value, json};

use crate::error::{FieldError, aggregate};

/// The answer to an invalid object: 422 with one cause per finding.
#[must_use]
pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Value {
    let causes: Vec<Value> = errors
        .iter()
        .map(|error| json!({ "reason": error.reason(), "message": error.body(), "field": error.field }))
        .collect();
    let qualified = match group.is_empty() {
        true => kind.to_string(),
        false => format!("{kind}.{group}"),
    };
    let message = match errors.is_empty() {
        true => format!("{qualified} \"{name}\" is invalid"),
        false => format!("{qualified} \"{name}\" is invalid: {}", aggregate(errors)),
    };
    let mut details = json!({ "name": name, "group": group, "kind": kind, "causes": causes });
    drop_empty(&mut details);
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Invalid", "details": details, "code": 422,
    })
}

/// Go leaves empty texts and lists out.
pub(crate) fn drop_empty(details: &mut Value) {
    if let Some(map) = details.as_object_mut() {
        map.retain(|_, value| !(value == "" || value.as_array().is_some_and(Vec::is_empty)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_object_is_answered_with_causes() {
        let errors = [FieldError::required("spec.a", "")];
        assert_eq!(
            invalid("g.example", "Thing", "one", &errors),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Thing.g.example \"one\" is invalid: spec.a: Required value",
                "reason": "Invalid", "code": 422,
                "details": {"name": "one", "group": "g.example", "kind": "Thing",
                    "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"}]},
            })
        );
    }
}
