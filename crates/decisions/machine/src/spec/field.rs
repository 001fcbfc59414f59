//! Problems and warnings about one field of a providerSpec, worded as the Kubernetes API words them.
//!
//! Users and scripts know the form `path: Required value: detail`, so every platform reports in it.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::provider::{Problem, Verdict};

/// Longest text of an offending value in a message; a whole spec in a message helps nobody.
const LONGEST_VALUE: usize = 256;

/// Where a field is: `providerSpec.blockDevices[0].ebs.throughputMib`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// `providerSpec`, where the paths of every platform begin.
    #[must_use]
    pub fn spec() -> Self {
        Self("providerSpec".to_owned())
    }

    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The problems that the Kubernetes API distinguishes; `detail` says what to write instead.
impl Problem {
    #[must_use]
    pub fn required(path: &Path, detail: impl fmt::Display) -> Self {
        Self::new(path.as_str(), format!("Required value: {detail}"))
    }

    #[must_use]
    pub fn invalid(path: &Path, value: impl Serialize, detail: impl fmt::Display) -> Self {
        Self::new(path.as_str(), format!("Invalid value: {}: {detail}", shown(value)))
    }

    #[must_use]
    pub fn forbidden(path: &Path, detail: impl fmt::Display) -> Self {
        Self::new(path.as_str(), format!("Forbidden: {detail}"))
    }

    /// A value outside a list of values, which is printed in order.
    #[must_use]
    pub fn unsupported(path: &Path, value: impl Serialize, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        Self::new(path.as_str(), message)
    }

    #[must_use]
    pub fn too_many(path: &Path, count: usize, limit: usize) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        Self::new(path.as_str(), format!("Too many: {count}: must have at most {limit} {items}"))
    }
}

/// Collects what validation finds.
impl Verdict {
    pub fn required(&mut self, path: &Path, detail: impl fmt::Display) {
        self.problems.push(Problem::required(path, detail));
    }

    pub fn invalid(&mut self, path: &Path, value: impl Serialize, detail: impl fmt::Display) {
        self.problems.push(Problem::invalid(path, value, detail));
    }

    pub fn forbidden(&mut self, path: &Path, detail: impl fmt::Display) {
        self.problems.push(Problem::forbidden(path, detail));
    }

    pub fn unsupported(&mut self, path: &Path, value: impl Serialize, supported: &[&str]) {
        self.problems.push(Problem::unsupported(path, value, supported));
    }

    pub fn too_many(&mut self, path: &Path, count: usize, limit: usize) {
        self.problems.push(Problem::too_many(path, count, limit));
    }

    /// A problem if `value` is neither empty nor one of `allowed`.
    pub fn one_of(&mut self, path: &Path, value: &str, allowed: &[&str]) {
        if !value.is_empty() && !allowed.contains(&value) {
            self.invalid(path, value, format!("write {}, or leave it out", listed(allowed)));
        }
    }

    /// Something that the user should know about a field that is accepted.
    pub fn warn(&mut self, path: &Path, detail: impl fmt::Display) {
        self.warnings.push(format!("{path}: {detail}"));
    }
}

/// `a, b or c`.
pub(super) fn listed(values: &[&str]) -> String {
    match values {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn shown(value: impl Serialize) -> String {
    // What cannot be written as JSON is not worth showing.
    let text = serde_json::to_value(value).as_ref().map(Value::to_string).unwrap_or_default();
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn problems_read_as_those_of_the_kubernetes_api() {
        let mut verdict = Verdict::default();
        let path = Path::spec().child("disks").index(0);
        verdict.required(&path.child("name"), "name the disk");
        verdict.invalid(&path.child("sizeGb"), 15, "must be at least 16");
        verdict.forbidden(&path.child("image"), "the boot disk has one");
        verdict.unsupported(&path.child("type"), "floppy", &["pd-ssd", "pd-standard"]);
        verdict.too_many(&path, 2, 1);
        verdict.one_of(&path.child("mode"), "c", &["a", "b"]);
        let lines: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
        expect![[r#"
            providerSpec.disks[0].name: Required value: name the disk
            providerSpec.disks[0].sizeGb: Invalid value: 15: must be at least 16
            providerSpec.disks[0].image: Forbidden: the boot disk has one
            providerSpec.disks[0].type: Unsupported value: "floppy": supported values: "pd-ssd", "pd-standard"
            providerSpec.disks[0]: Too many: 2: must have at most 1 item
            providerSpec.disks[0].mode: Invalid value: "c": write a or b, or leave it out"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_large_value_is_cut_and_a_small_one_is_not() {
        let message = |value: String| Problem::invalid(&Path::spec(), value, "no").message;
        assert_eq!(message("é".to_owned()), r#"Invalid value: "é": no"#);
        let long = message("é".repeat(1000));
        assert!(long.contains('…') && long.len() < 600, "{long}");
    }

    #[test]
    fn one_of_accepts_what_is_left_out() {
        let mut verdict = Verdict::default();
        verdict.one_of(&Path::spec(), "", &["a"]);
        verdict.one_of(&Path::spec(), "a", &["a"]);
        assert!(verdict.problems.is_empty());
    }
}
