//! Printer columns, selectable fields and subresources of a version.

use serde_json::Value;

use crate::error::FieldError;

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MAX_SELECTABLE: usize = 8;

pub(super) fn check(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("{place}.additionalPrinterColumns[{at}].{name}");
        let text = |key: &str| column[key].as_str().unwrap_or("");
        if text("name").is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        let types = format!("must be one of {}", TYPES.join(","));
        if text("type").is_empty() {
            errors.push(FieldError::required(field("type"), types));
        } else if !TYPES.contains(&text("type")) {
            errors.push(FieldError::invalid(field("type"), text("type"), types));
        }
        if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(field("format"), text("format"), detail));
        }
        // The internal type spells the field so, and the server's messages with it.
        match text("jsonPath") {
            "" => errors.push(FieldError::required(field("JSONPath"), "")),
            path => check_path(path, &field("JSONPath"), errors),
        }
    }
}

fn check_path(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if !path.starts_with('.') {
        errors.push(FieldError::invalid(field, path, "must be a simple json path starting with ."));
    }
}

pub(super) fn check_subresources(subresources: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    let mut check = |key: &str, required: bool, roots: &[&str], detail: &str| {
        let path = scale[key].as_str().unwrap_or("");
        let field = format!("{place}.scale.{key}");
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(field, ""));
            }
        } else if !path.starts_with('.') {
            check_path(path, &field, errors);
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            errors.push(FieldError::invalid(field, path, detail));
        }
    };
    check("specReplicasPath", true, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", true, &[".status."], "should be a json path under .status");
    let detail = "should be a json path under either .spec or .status";
    check("labelSelectorPath", false, &[".spec.", ".status."], detail);
}

pub(super) fn check_selectable(version: &Value, schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let list = version["selectableFields"].as_array().map_or(&[][..], Vec::as_slice);
    let mut seen: Vec<&str> = Vec::new();
    for (at, selectable) in list.iter().enumerate() {
        let field = format!("{place}.selectableFields[{at}].jsonPath");
        let path = selectable["jsonPath"].as_str().unwrap_or("");
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mut node = &schema["openAPIV3Schema"];
        for name in path.trim_start_matches('.').split('.') {
            node = &node["properties"][name];
        }
        if node.is_null() {
            let detail = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(field, path, detail));
        } else if path.starts_with(".metadata") {
            errors.push(FieldError::invalid(field, path, "must not point to fields in metadata"));
        } else if !matches!(node["type"].as_str(), Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(field, path, detail));
        } else if seen.contains(&path) {
            errors.push(FieldError::duplicate(field, path));
        } else {
            seen.push(path);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        let field = format!("{place}.selectableFields");
        errors.push(FieldError::too_many(field, seen.len(), MAX_SELECTABLE as u64));
    }
}
