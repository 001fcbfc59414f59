//! Which labels a pool's selector accepts.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A label selector that is known to be well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector<'a> {
    requirements: Vec<Requirement<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement<'a> {
    In(&'a str, &'a [String]),
    NotIn(&'a str, &'a [String]),
    Exists(&'a str),
    DoesNotExist(&'a str),
}

impl<'a> Selector<'a> {
    /// Reads a selector; the error names the part that is wrong.
    pub fn parse(selector: &'a LabelSelector) -> Result<Self, String> {
        let labels = selector.match_labels.iter().flatten();
        let mut requirements: Vec<_> =
            labels.map(|(key, value)| Requirement::In(key, std::slice::from_ref(value))).collect();
        for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
            let (key, values) = (expression.key.as_str(), expression.values.as_deref().unwrap_or_default());
            let wrong = |what: &str| Err(format!("matchExpressions[{index}] ({key}): {what}"));
            requirements.push(match (expression.operator.as_str(), values) {
                _ if key.is_empty() => return wrong("key is empty"),
                ("In" | "NotIn", []) => return wrong("In and NotIn need values"),
                ("In", values) => Requirement::In(key, values),
                ("NotIn", values) => Requirement::NotIn(key, values),
                ("Exists", []) => Requirement::Exists(key),
                ("DoesNotExist", []) => Requirement::DoesNotExist(key),
                ("Exists" | "DoesNotExist", _) => return wrong("Exists and DoesNotExist take no values"),
                (other, _) => {
                    return wrong(&format!("{other:?} is not one of In, NotIn, Exists, DoesNotExist"));
                }
            });
        }
        Ok(Self { requirements })
    }

    /// Whether the selector asks for nothing, and so would accept everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let get = |key: &str| labels.and_then(|labels| labels.get(key));
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => get(key).is_some(),
            Requirement::DoesNotExist(key) => get(key).is_none(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn matches(selector: Value, labels: &[(&str, &str)]) -> Result<bool, String> {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Selector::parse(&selector).map(|selector| selector.matches(Some(&labels)))
    }

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let selector = json!({
            "matchLabels": {"a": "1"},
            "matchExpressions": [
                {"key": "role", "operator": "In", "values": ["worker", "infra"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "NotIn", "values": ["x"]},
            ],
        });
        assert_eq!(matches(selector.clone(), &[("a", "1"), ("role", "infra")]), Ok(true));
        assert_eq!(matches(selector.clone(), &[("a", "1"), ("role", "infra"), ("old", "")]), Ok(false));
        assert_eq!(matches(selector.clone(), &[("a", "1"), ("role", "infra"), ("zone", "x")]), Ok(false));
        assert_eq!(matches(selector, &[("a", "1"), ("role", "master")]), Ok(false));
    }

    #[test]
    fn a_malformed_expression_is_named() {
        let selector = json!({"matchExpressions": [{"key": "role", "operator": "Like", "values": ["x"]}]});
        assert!(matches(selector, &[]).unwrap_err().contains("matchExpressions[0] (role): \"Like\""));
        let selector = json!({"matchExpressions": [{"key": "role", "operator": "In"}]});
        assert!(matches(selector, &[]).unwrap_err().contains("need values"));
    }
}
