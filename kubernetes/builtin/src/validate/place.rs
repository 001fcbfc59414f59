//! A value with the path that leads to it, and the list that findings are added to.

use schema::{ErrorKind, FieldError};
use serde_json::Value;

/// A value of an object and where it stands. What is absent is null and reads as zero, as in the real server's types.
#[derive(Clone)]
pub(crate) struct Place<'v> {
    pub(crate) value: &'v Value,
    pub(crate) path: String,
}

impl<'v> Place<'v> {
    pub(crate) fn root(value: &'v Value) -> Self {
        Place { value, path: String::new() }
    }

    pub(crate) fn field(&self, name: &str) -> Self {
        Place { value: &self.value[name], path: self.child(name) }
    }

    /// The path of something below that need not exist.
    pub(crate) fn child(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The same value under another path, where the real server names another than the one it looks at.
    pub(crate) fn known_as(&self, path: impl Into<String>) -> Self {
        Place { value: self.value, path: path.into() }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = Place<'v>> {
        let path = self.path.clone();
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(move |(at, value)| Place { value, path: format!("{path}[{at}]") })
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'v str, Place<'v>)> {
        let path = self.path.clone();
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), Place { value, path: format!("{path}[{key}]") }))
    }

    pub(crate) fn count(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    pub(crate) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &'v str> {
        self.value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap_or_default())
    }

    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    pub(crate) fn is_true(&self) -> bool {
        *self.value == Value::Bool(true)
    }

    /// Absent, or an empty text, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        }
    }
}

/// What was found to be wrong.
pub(crate) type Findings = Vec<FieldError>;

pub(crate) trait Find {
    fn required(&mut self, place: &Place<'_>, detail: &str);
    fn forbidden(&mut self, place: &Place<'_>, detail: impl Into<String>);
    fn invalid(&mut self, place: &Place<'_>, detail: impl Into<String>);
    fn invalid_as(&mut self, place: &Place<'_>, value: impl Into<Value>, detail: impl Into<String>);
    fn duplicate(&mut self, place: &Place<'_>);
    fn duplicate_as(&mut self, place: &Place<'_>, value: impl Into<Value>);
    fn not_found(&mut self, place: &Place<'_>);
    fn unsupported(&mut self, place: &Place<'_>, supported: &[&str]);
    fn too_long(&mut self, place: &Place<'_>, limit: u64);
    /// Adds what is wrong with the text at a place.
    fn problems(&mut self, place: &Place<'_>, problems: Vec<String>);
    /// One of these texts, or nothing at all is an error too.
    fn one_of(&mut self, place: &Place<'_>, supported: &[&str]);
    /// As [`Find::one_of`], but nothing is told to be missing.
    fn required_one_of(&mut self, place: &Place<'_>, supported: &[&str]);
    fn non_negative(&mut self, place: &Place<'_>);
}

impl Find for Findings {
    fn required(&mut self, place: &Place<'_>, detail: &str) {
        self.push(FieldError::required(&place.path, detail));
    }

    fn forbidden(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(&place.path, detail));
    }

    fn invalid(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&place.path, place.value.clone(), detail));
    }

    fn invalid_as(&mut self, place: &Place<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&place.path, value, detail));
    }

    fn duplicate(&mut self, place: &Place<'_>) {
        self.push(FieldError::duplicate(&place.path, place.value.clone()));
    }

    fn duplicate_as(&mut self, place: &Place<'_>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(&place.path, value));
    }

    fn not_found(&mut self, place: &Place<'_>) {
        self.push(FieldError::new(ErrorKind::NotFound, &place.path, Some(place.text().into()), ""));
    }

    fn unsupported(&mut self, place: &Place<'_>, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|&value| value.to_owned()).collect();
        self.push(FieldError::not_supported(&place.path, place.text(), &supported));
    }

    fn too_long(&mut self, place: &Place<'_>, limit: u64) {
        self.push(FieldError::too_long(&place.path, limit));
    }

    fn problems(&mut self, place: &Place<'_>, problems: Vec<String>) {
        self.extend(problems.into_iter().map(|problem| FieldError::invalid(&place.path, place.text(), problem)));
    }

    fn one_of(&mut self, place: &Place<'_>, supported: &[&str]) {
        if !supported.contains(&place.text()) {
            self.unsupported(place, supported);
        }
    }

    fn required_one_of(&mut self, place: &Place<'_>, supported: &[&str]) {
        match place.text() {
            "" => self.required(place, ""),
            _ => self.one_of(place, supported),
        }
    }

    fn non_negative(&mut self, place: &Place<'_>) {
        if place.number() < 0 {
            self.invalid(place, super::rules::NEGATIVE);
        }
    }
}
