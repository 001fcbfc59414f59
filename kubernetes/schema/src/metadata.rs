//! Rules for `metadata`: names, labels, annotations, owners, finalizers, and what an update may not change.

use serde_json::{Map, Value};

use crate::{
    error::{ErrorKind, FieldError, go_quote},
    names,
};

/// The total size of annotations the server accepts.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// The random suffix of a generated name, which counts against the limits of the grammar.
const GENERATED_SUFFIX: usize = 5;

/// The grammar of a kind's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Most kinds.
    Subdomain,
    /// Namespaces and services, whose names become DNS labels.
    Label,
    /// RBAC kinds: anything that fits into a path.
    Path,
}

/// The name grammar of a built-in resource; custom resources are subdomains.
#[must_use]
pub fn name_rule(group: &str, plural: &str) -> NameRule {
    match (group, plural) {
        ("", "namespaces" | "services") => NameRule::Label,
        ("rbac.authorization.k8s.io" | "apiregistration.k8s.io" | "certificates.k8s.io", _) => NameRule::Path,
        _ => NameRule::Subdomain,
    }
}

impl NameRule {
    /// What is wrong with a name; a prefix (`generateName`) may end in a dash.
    #[must_use]
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked;
        let name = if prefix && name.len() > 1 && name.ends_with('-') && self != NameRule::Path {
            masked = format!("{}a", &name[..name.len() - 1]);
            &masked
        } else {
            name
        };
        match self {
            NameRule::Subdomain => names::is_subdomain(name),
            NameRule::Label => names::is_label(name),
            NameRule::Path => names::is_path_segment(name, prefix),
        }
    }

    /// The prefix cut so that the generated name keeps within the server's limit.
    #[must_use]
    pub fn generated_prefix(prefix: &str) -> &str {
        let limit = 63 - GENERATED_SUFFIX;
        match prefix.len() > limit {
            true => &prefix[..prefix.floor_char_boundary(limit)],
            false => prefix,
        }
    }
}

/// What is wrong with the metadata of a new object, after its name was generated.
#[must_use]
pub fn validate_create(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let mut errors = Vec::new();
    let text = |key: &str| metadata[key].as_str().unwrap_or("");
    let generate = text("generateName");
    if !generate.is_empty() {
        for message in rule.check(generate, true) {
            errors.push(FieldError::invalid("metadata.generateName", generate, message));
        }
    }
    let name = text("name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    }
    if !name.is_empty() {
        for message in rule.check(name, false) {
            errors.push(FieldError::invalid("metadata.name", name, message));
        }
    }
    let namespace = text("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required("metadata.namespace", "")),
        (true, false) => {
            for message in names::is_label(namespace) {
                errors.push(FieldError::invalid("metadata.namespace", namespace, message));
            }
        }
        (false, false) => errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type")),
        (false, true) => {}
    }
    if let Some(generation) = metadata["generation"].as_i64().filter(|g| *g < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", generation, detail));
    }
    validate_common(metadata, &mut errors);
    validate_finalizers(metadata, &mut errors);
    validate_managed_fields(metadata, &mut errors);
    errors
}

/// What is wrong with the metadata of an update.
#[must_use]
pub fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let (metadata, before) = (&object["metadata"], &old["metadata"]);
    let mut errors = Vec::new();
    if !before["deletionTimestamp"].is_null() {
        let known = strings(&before["finalizers"]);
        let mut added: Vec<&str> =
            strings(&metadata["finalizers"]).into_iter().filter(|f| !known.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|f| go_quote(f)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    if metadata["resourceVersion"].as_str().unwrap_or("").is_empty() {
        errors.push(FieldError::invalid("metadata.resourceVersion", "", "must be specified for an update"));
    }
    let generation = metadata["generation"].as_i64().unwrap_or(0);
    if generation < before["generation"].as_i64().unwrap_or(0) {
        errors.push(FieldError::invalid("metadata.generation", generation, "must not be decremented"));
    }
    for key in ["name", "namespace", "uid"] {
        let (new, old) = (metadata[key].as_str().unwrap_or(""), before[key].as_str().unwrap_or(""));
        if new != old {
            errors.push(FieldError::invalid(format!("metadata.{key}"), new, "field is immutable"));
        }
    }
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata[key] != before[key] {
            errors.push(FieldError::invalid(format!("metadata.{key}"), metadata[key].clone(), "field is immutable"));
        }
    }
    validate_common(metadata, &mut errors);
    validate_managed_fields(metadata, &mut errors);
    errors
}

fn validate_common(metadata: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in entries(&metadata["labels"]) {
        for message in names::is_qualified_name(key) {
            errors.push(FieldError::invalid("metadata.labels", key.as_str(), message));
        }
        let value = value.as_str().unwrap_or("");
        for message in names::is_label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", value, message));
        }
    }
    let mut size = 0;
    for (key, value) in entries(&metadata["annotations"]) {
        size += key.len() + value.as_str().map_or(0, str::len);
        for message in names::is_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key.as_str(), message));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT as u64));
    }
    validate_owners(metadata, errors);
}

fn validate_owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.ownerReferences";
    let owners = metadata["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |key: &str| owner[key].as_str().unwrap_or("");
        if text("apiVersion").rsplit('/').next().is_none_or(str::is_empty) {
            let field = format!("{FIELD}.apiVersion");
            errors.push(FieldError::invalid(field, text("apiVersion"), "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                errors.push(FieldError::invalid(format!("{FIELD}.{key}"), "", "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(FIELD, owner.clone(), detail));
        }
        if owner["controller"] == true {
            let current = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(current),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                    );
                    let shown: Vec<String> = owners.iter().map(in_field_order).collect();
                    let detail = format!("[{}]: {detail}", shown.join(","));
                    errors.push(FieldError::new(ErrorKind::Invalid, FIELD, None, detail));
                }
            }
        }
    }
}

/// An owner reference with its fields in the order of the Go type, as messages print it.
fn in_field_order(owner: &Value) -> String {
    const ORDER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields = ORDER.iter().filter_map(|name| Some(format!("\"{name}\":{}", owner.get(name)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn validate_finalizers(metadata: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.finalizers";
    let finalizers = strings(&metadata["finalizers"]);
    for finalizer in &finalizers {
        for message in names::is_qualified_name(finalizer) {
            errors.push(FieldError::invalid(FIELD, *finalizer, message));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(FIELD, metadata["finalizers"].clone(), detail));
    }
}

fn validate_managed_fields(metadata: &Value, errors: &mut Vec<FieldError>) {
    for (at, entry) in metadata["managedFields"].as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("metadata.managedFields[{at}].{name}");
        let operation = entry["operation"].as_str().unwrap_or("");
        if operation != "Apply" && operation != "Update" {
            errors.push(FieldError::invalid(field("operation"), operation, "must be `Apply` or `Update`"));
        }
        let kind = entry["fieldsType"].as_str().unwrap_or("");
        if !kind.is_empty() && kind != "FieldsV1" {
            errors.push(FieldError::invalid(field("fieldsType"), kind, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(entry["manager"].as_str().unwrap_or(""), &field("manager")));
    }
}

/// What is wrong with the name of a field manager (`fieldManager` of a request).
#[must_use]
pub fn validate_field_manager(manager: &str, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > 128 {
        errors.push(FieldError::too_long(field, 128));
    }
    for (at, odd) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {at})", odd as u32);
        errors.push(FieldError::invalid(field, manager, detail));
    }
    errors
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flat_map(Map::iter)
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::error::aggregate;

    #[track_caller]
    fn check_create(metadata: Value, namespaced: bool, expected: Expect) {
        let errors = validate_create(&json!({ "metadata": metadata }), namespaced, NameRule::Subdomain);
        expected.assert_eq(&errors.iter().map(FieldError::message).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_new_object_needs_a_name_and_its_namespace() {
        check_create(
            json!({}),
            true,
            expect![[r#"
            metadata.name: Required value: name or generateName is required
            metadata.namespace: Required value"#]],
        );
        check_create(
            json!({"name": "a", "namespace": "b"}),
            false,
            expect!["metadata.namespace: Forbidden: not allowed on this type"],
        );
        check_create(json!({"name": "a", "generateName": "a-"}), false, expect![""]);
    }

    #[test]
    fn bad_keys_owners_and_finalizers_are_named() {
        check_create(
            json!({"name": "a", "labels": {"a b": "c", "d": "e f"}, "finalizers": ["x y"],
                   "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]}),
            false,
            expect![[r#"
                metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                metadata.labels: Invalid value: "e f": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
                metadata.ownerReferences.uid: Invalid value: "": must not be empty
                metadata.finalizers: Invalid value: "x y": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]],
        );
    }

    #[test]
    fn an_update_keeps_identity_and_adds_no_finalizer_while_deleting() {
        let old = json!({"metadata": {"name": "a", "uid": "1", "deletionTimestamp": "t", "finalizers": ["x/y"]}});
        let new = json!({"metadata": {"name": "a", "uid": "2", "resourceVersion": "1", "deletionTimestamp": "t", "finalizers": ["x/y", "x/z"]}});
        expect![[r#"[metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x/z"}, metadata.uid: Invalid value: "2": field is immutable]"#]]
        .assert_eq(&aggregate(&validate_update(&new, &old)));
    }
}
