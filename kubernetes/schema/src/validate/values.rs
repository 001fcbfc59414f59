//! Types and limits of values.

use serde_json::{Map, Value};

use super::{formats, numbers};
use crate::{
    error::{ErrorKind, FieldError},
    node::{Additional, Id, Limits, List, Node, Schema, Types},
    path::Path,
};

pub(super) struct Checker<'a> {
    schema: &'a Schema,
    /// Where the checked value stands, put before every path.
    prefix: &'a str,
    pub(super) errors: Vec<FieldError>,
}

/// What the schema validator calls the JSON type of a value, and the Go format it infers.
pub(super) fn type_of(value: &Value) -> (&'static str, &'static str, Types) {
    match value {
        Value::Null => ("null", "", Types(0)),
        Value::Bool(_) => ("boolean", "", Types::BOOLEAN),
        Value::Number(number) if number.is_f64() => ("number", "float64", Types::NUMBER),
        Value::Number(_) => ("integer", "int64", Types::INTEGER),
        Value::String(_) => ("string", "", Types::STRING),
        Value::Array(_) => ("array", "", Types::ARRAY),
        Value::Object(_) => ("object", "", Types::OBJECT),
    }
}

impl<'a> Checker<'a> {
    pub(super) fn new(schema: &'a Schema, prefix: &'a str) -> Checker<'a> {
        Checker { schema, prefix, errors: Vec::new() }
    }

    /// Checks a value and returns how many checks passed, by which the best of several alternatives is chosen.
    pub(super) fn check(&mut self, id: Id, value: &Value, old: Option<&Value>, path: &Path<'_>) -> usize {
        let node = self.schema.node(id);
        if old == Some(value) {
            return 1;
        }
        if value.is_null() {
            let passed = self.check_type(node, value, path);
            self.check_enum(node, value, path);
            return passed;
        }
        let mut passed = 1;
        if !node.types.is_any() || node.format.is_some() {
            passed += self.check_type(node, value, path) + 1;
        }
        let limits = node.limits.as_deref();
        passed += 1 + limits.map_or(1, |limits| self.check_branches(limits, value, old, path));
        match value {
            Value::String(text) => {
                if let Some(limits) = limits {
                    self.check_string(limits, text, path);
                }
                passed += 1;
                // What is in a built-in kind was decoded by its type; no bytes are bytes there.
                if let Some(format) = &node.format
                    && (self.schema.custom || &**format != "byte")
                    && let Some(valid) = formats::validates(format, text)
                {
                    passed += 1;
                    if !valid {
                        let quoted = crate::error::go_quote(text);
                        let detail = format!("{} in body must be of type {format}: {quoted}", path.dotted());
                        self.push(ErrorKind::TypeInvalid, path, Some(value.clone()), detail);
                    }
                }
            }
            Value::Number(number) => {
                if self.schema.custom {
                    numbers::check(self, node, limits, number, path);
                }
                passed += 2;
            }
            Value::Array(list) => passed += 1 + self.check_array(node, limits, list, old, path),
            Value::Object(_) | Value::Bool(_) | Value::Null => {}
        }
        self.check_enum(node, value, path);
        passed += 1;
        if let Value::Object(map) = value {
            passed += 1 + self.check_object(id, limits, map, old, path);
        }
        passed
    }

    fn check_type(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> usize {
        let (name, inferred, types) = type_of(value);
        if !self.schema.custom {
            return 1;
        }
        if value.is_null() {
            if !node.types.is_any() && !node.nullable {
                return self.wrong_type(node.types.name(), "null", path);
            }
            return 1;
        }
        let integral = matches!(value, Value::Number(n) if n.is_f64() && numbers::is_integral(n.as_f64()))
            && node.types.has(Types::INTEGER);
        let widened = name == "integer" && node.types.has(Types::NUMBER);
        let textual = matches!(value, Value::String(_) | Value::Array(_));
        let format = node.format.as_deref().unwrap_or("");
        let fits = node.types.has(types) || integral || widened;
        if !textual && !format.is_empty() && !fits && inferred != format {
            return self.wrong_type(format, inferred, path);
        }
        let numeric = node.types.has(Types::NUMBER) || node.types.has(Types::INTEGER);
        if textual && !format.is_empty() && !numeric {
            return 1;
        }
        if !fits {
            return self.wrong_type(node.types.name(), name, path);
        }
        1
    }

    fn wrong_type(&mut self, expected: &str, actual: &str, path: &Path<'_>) -> usize {
        let detail = format!("{} in body must be of type {expected}: \"{actual}\"", path.dotted());
        self.push(ErrorKind::TypeInvalid, path, Some(actual.into()), detail);
        0
    }

    fn check_enum(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        let Some(allowed) = node.limits.as_ref().and_then(|l| l.one_of_values.as_ref()) else {
            return;
        };
        let equal = |candidate: &Value| {
            candidate == value
                || matches!((candidate, value), (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64())
        };
        if allowed.iter().any(|candidate| !candidate.is_null() && equal(candidate)) {
            return;
        }
        let supported: Vec<String> = allowed
            .iter()
            .map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
            .collect();
        let field = self.place(path);
        self.errors.push(FieldError::not_supported(field, value.clone(), &supported));
    }

    fn check_string(&mut self, limits: &Limits, text: &str, path: &Path<'_>) {
        let needs_length = limits.max_length.is_some() || limits.min_length.is_some();
        let length = if needs_length { text.chars().count() as u64 } else { 0 };
        if let Some(limit) = limits.max_length.filter(|limit| length > *limit) {
            let field = self.place(path);
            self.errors.push(FieldError::too_long(field, limit));
        } else if let Some(limit) = limits.min_length.filter(|limit| length < *limit) {
            self.invalid(path, text, &format!("should be at least {limit} chars long"));
        } else if let Some(pattern) = limits.pattern.as_ref().filter(|p| !p.matches(text)) {
            self.invalid(path, text, &format!("should match '{}'", pattern.text));
        }
    }

    fn check_array(
        &mut self,
        node: &Node,
        limits: Option<&Limits>,
        list: &[Value],
        old: Option<&Value>,
        path: &Path<'_>,
    ) -> usize {
        let mut passed = 0;
        if let Some(items) = node.items {
            let old = old.and_then(Value::as_array);
            for (at, value) in list.iter().enumerate() {
                let before = old.and_then(|old| correlated(node, old, value));
                passed += self.check(items, value, before, &path.index(at));
            }
        }
        let Some(limits) = limits else {
            return passed + 1;
        };
        let size = list.len();
        if let Some(limit) = limits.min_items.filter(|limit| (size as u64) < *limit) {
            self.invalid(path, size, &format!("should have at least {limit} items"));
        }
        if let Some(limit) = limits.max_items.filter(|limit| size as u64 > *limit) {
            let field = self.place(path);
            self.errors.push(FieldError::too_many(field, size, limit));
        }
        if limits.unique_items && (1..size).any(|at| list[..at].contains(&list[at])) {
            self.invalid(path, "", "shouldn't contain duplicates");
        }
        passed + 1
    }

    fn check_object(
        &mut self,
        id: Id,
        limits: Option<&Limits>,
        map: &Map<String, Value>,
        old: Option<&Value>,
        path: &Path<'_>,
    ) -> usize {
        let node = self.schema.node(id);
        let mut passed = 0;
        if let Some(limits) = limits {
            let size = map.len() as u64;
            if let Some(limit) = limits.min_properties.filter(|limit| size < *limit) {
                self.invalid(path, size, &format!("should have at least {limit} properties"));
            }
            if let Some(limit) = limits.max_properties.filter(|limit| size > *limit) {
                let field = self.place(path);
                self.errors.push(FieldError::too_many(field, map.len(), limit));
            }
        }
        for (key, value) in map {
            let child = match (node.property(key), node.additional) {
                (Some(_), _) if id == self.schema.root && key == "metadata" => self.schema.checked_metadata,
                (Some(id), _) | (None, Additional::Schema(id)) => Some(id),
                (None, Additional::None | Additional::Any) => None,
            };
            if let Some(child) = child {
                let before = old.and_then(|o| o.get(key)).filter(|_| !node.atomic_map);
                passed += self.check(child, value, before, &path.field(key));
            }
        }
        for name in limits.into_iter().flat_map(|l| &l.required) {
            if !map.contains_key(name.as_ref()) {
                let field = self.place(&path.field(name));
                self.errors.push(FieldError::required(field, ""));
            }
        }
        passed
    }

    fn check_branches(&mut self, limits: &Limits, value: &Value, old: Option<&Value>, path: &Path<'_>) -> usize {
        let mut passed = 1;
        if !limits.any_of.is_empty() {
            let (valid, best, best_passed) = self.try_branches(&limits.any_of, value, old, path, true);
            if valid == 0 {
                self.whole(format!("\"{}\" must validate at least one schema (anyOf)", path.dotted()));
                self.errors.extend(best);
            }
            passed += best_passed;
        }
        if !limits.one_of.is_empty() {
            let (valid, best, best_passed) = self.try_branches(&limits.one_of, value, old, path, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_string(),
                    count => format!("Found {count} valid alternatives"),
                };
                self.whole(format!("\"{}\" must validate one and only one schema (oneOf). {found}", path.dotted()));
                if valid == 0 {
                    self.errors.extend(best);
                }
            }
            passed += best_passed;
        }
        if !limits.all_of.is_empty() {
            let mut valid = 0;
            for branch in &limits.all_of {
                let before = self.errors.len();
                passed += self.check(*branch, value, old, path);
                valid += usize::from(before == self.errors.len());
            }
            if valid != limits.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.whole(format!("\"{}\" must validate all the schemas (allOf){none}", path.dotted()));
            }
        }
        if let Some(not) = limits.not {
            let mut checker = Checker::new(self.schema, self.prefix);
            checker.check(not, value, old, path);
            if checker.errors.is_empty() {
                self.whole(format!("\"{}\" must not validate the schema (not)", path.dotted()));
            }
        }
        passed
    }

    /// How many branches hold, and the errors of the one that came nearest.
    fn try_branches(
        &self,
        branches: &[Id],
        value: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
        first: bool,
    ) -> (usize, Vec<FieldError>, usize) {
        let (mut valid, mut best, mut best_passed) = (0, None, 0);
        for branch in branches {
            let mut checker = Checker::new(self.schema, self.prefix);
            let passed = checker.check(*branch, value, old, path);
            if checker.errors.is_empty() {
                valid += 1;
                best = Some(Vec::new());
                best_passed = best_passed.max(passed);
                if first {
                    break;
                }
            } else if valid == 0 && (best.is_none() || passed > best_passed) {
                best = Some(checker.errors);
                best_passed = passed;
            }
        }
        (valid, best.unwrap_or_default(), best_passed)
    }

    pub(super) fn invalid(&mut self, path: &Path<'_>, value: impl Into<Value>, what: &str) {
        let detail = format!("{} in body {what}", path.dotted());
        self.push(ErrorKind::Invalid, path, Some(value.into()), detail);
    }

    /// A finding that the server gives no path of its own.
    pub(super) fn whole(&mut self, detail: String) {
        let field = if self.prefix.is_empty() { "<nil>" } else { self.prefix };
        self.errors.push(FieldError::invalid(field, "", detail));
    }

    fn push(&mut self, kind: ErrorKind, path: &Path<'_>, value: Option<Value>, detail: String) {
        let field = self.place(path);
        self.errors.push(FieldError::new(kind, field, value, detail));
    }

    fn place(&self, path: &Path<'_>) -> String {
        let text = path.dotted();
        match (self.prefix.is_empty(), text.is_empty()) {
            (true, true) => "<nil>".to_string(),
            (true, false) => text,
            (false, true) => self.prefix.to_string(),
            (false, false) => format!("{}.{text}", self.prefix),
        }
    }
}

/// The element of the stored list that this element is the successor of, if the list type says so.
pub(crate) fn correlated<'v>(node: &Node, old: &'v [Value], value: &Value) -> Option<&'v Value> {
    match &node.list {
        List::Map(keys) => old.iter().find(|candidate| {
            keys.iter().all(|key| candidate.get(key.as_ref()) == value.get(key.as_ref())) && candidate.is_object()
        }),
        List::Set => old.iter().find(|candidate| *candidate == value),
        List::Atomic | List::Unspecified => None,
    }
}
