//! Label selectors, validated once and then matched many times.
//!
//! The checks and their messages follow Kubernetes, because they are shown to the author of the selector.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A valid selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Why a selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    #[error("values: Invalid value: {0}: for 'in', 'notin' operators, values set can't be empty")]
    NoValues(String),
    #[error("values: Invalid value: {0}: values set must be empty for exists and does not exist")]
    Values(String),
    #[error("key: Invalid value: {key:?}: {problem}")]
    Key { key: String, problem: &'static str },
    #[error("values[{index}][{key}]: Invalid value: {value:?}: {problem}")]
    Value { index: usize, key: String, value: String, problem: &'static str },
}

impl Selector {
    /// Validates a selector. `matchLabels` is checked before `matchExpressions`, like in Kubernetes.
    pub fn parse(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::new(key, Operator::In, std::slice::from_ref(value))?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            requirements.push(Requirement::new(
                &expression.key,
                operator,
                expression.values.as_deref().unwrap_or(&[]),
            )?);
        }
        Ok(Self { requirements })
    }

    /// Whether the selector has no requirements. For pools this means that it selects no node, not every node.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the labels that an object needs to be selected, as far as the selector determines them: by equality, a
    /// list of one value, or existence.
    pub fn implied_labels(&self) -> BTreeMap<String, String> {
        let implied = self.requirements.iter().filter_map(|it| match (it.operator, it.values.as_slice()) {
            (Operator::In, [value]) => Some((it.key.clone(), value.clone())),
            (Operator::Exists, _) => Some((it.key.clone(), String::new())),
            (Operator::In | Operator::NotIn | Operator::DoesNotExist, _) => None,
        });
        implied.collect()
    }

    /// Whether these labels satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: &[String]) -> Result<Self, SelectorError> {
        if let Some(problem) = key_problem(key) {
            return Err(SelectorError::Key { key: key.to_owned(), problem });
        }
        let listed = || serde_json::to_string(values).unwrap_or_default();
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return Err(SelectorError::NoValues("null".to_owned()));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return Err(SelectorError::Values(listed()));
            }
            Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {}
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(problem) = value_problem(value) {
                return Err(SelectorError::Value { index, key: key.to_owned(), value: value.clone(), problem });
            }
        }
        Ok(Self { key: key.to_owned(), operator, values: values.to_vec() })
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

const NAME_SHAPE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const PREFIX_SHAPE: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return Some("a qualified name must consist of a name with an optional DNS subdomain prefix and '/'");
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => return Some("prefix part must be non-empty"),
        Some(prefix) if prefix.len() > 253 => return Some("prefix part must be no more than 253 characters"),
        Some(prefix) if !prefix.split('.').all(is_dns_label) => return Some(PREFIX_SHAPE),
        Some(_) | None => {}
    }
    if name.is_empty() {
        Some("name part must be non-empty")
    } else if name.len() > 63 {
        Some("name part must be no more than 63 characters")
    } else if !is_label_word(name) {
        Some(NAME_SHAPE)
    } else {
        None
    }
}

fn value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        Some("must be no more than 63 characters")
    } else if !value.is_empty() && !is_label_word(value) {
        Some(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        )
    } else {
        None
    }
}

fn is_label_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.iter().all(inner)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

fn is_dns_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.iter().all(|byte| plain(byte) || *byte == b'-')
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(yaml: serde_json::Value, labels: &[(&str, &str)], expected: Expect) {
        let selector: LabelSelector = serde_json::from_value(yaml).unwrap();
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let answer = Selector::parse(&selector).map(|selector| selector.matches(&labels));
        expected.assert_eq(&answer.map_or_else(|error| error.to_string(), |matches| matches.to_string()));
    }

    #[test]
    fn all_requirements_must_hold() {
        let both =
            serde_json::json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]});
        check(both.clone(), &[("a", "1"), ("b", "")], expect!["true"]);
        check(both, &[("a", "1")], expect!["false"]);
    }

    #[test]
    fn not_in_accepts_a_missing_label() {
        let without = serde_json::json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]});
        check(without.clone(), &[], expect!["true"]);
        check(without, &[("b", "x")], expect!["false"]);
    }

    #[test]
    fn malformed_selectors_say_what_is_wrong() {
        check(
            serde_json::json!({"matchExpressions": [{"key": "b", "operator": "Near"}]}),
            &[],
            expect![[r#""Near" is not a valid label selector operator"#]],
        );
        check(
            serde_json::json!({"matchExpressions": [{"key": "b", "operator": "In"}]}),
            &[],
            expect!["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"],
        );
        check(
            serde_json::json!({"matchExpressions": [{"key": "b", "operator": "Exists", "values": ["a"]}]}),
            &[],
            expect![[r#"values: Invalid value: ["a"]: values set must be empty for exists and does not exist"#]],
        );
        check(
            serde_json::json!({"matchLabels": {"bad key!": ""}}),
            &[],
            expect![[
                r#"key: Invalid value: "bad key!": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"#
            ]],
        );
    }
}
