//! Selectors as objects carry them: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use super::labels::{LabelSelector, Operator, Requirement};
use crate::error::{FieldError, aggregate};

/// The selector of a `metav1.LabelSelector`: absent selects nothing, empty selects everything.
///
/// # Errors
/// An expression has an unknown operator, or names a key or value that no label can have.
pub fn from_object(selector: &Value) -> Result<LabelSelector, String> {
    if selector.is_null() {
        return Ok(LabelSelector::nothing());
    }
    let mut requirements = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let values = vec![value.as_str().unwrap_or("").to_string()];
        requirements.push(Requirement { key: key.clone(), operator: Operator::Equals, values });
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let operator = match expression["operator"].as_str().unwrap_or("") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(format!("{} is not a valid label selector operator", crate::error::go_quote(other)));
            }
        };
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut values: Vec<String> = values.map(str::to_string).collect();
        values.sort();
        values.dedup();
        let key = expression["key"].as_str().unwrap_or("").to_string();
        if matches!(operator, Operator::Exists | Operator::DoesNotExist) && !values.is_empty() {
            let detail = "values set must be empty for exists and does not exist";
            return Err(FieldError::invalid("values", values, detail).message());
        }
        requirements.push(Requirement { key, operator, values });
    }
    for requirement in &requirements {
        let errors = requirement.check();
        if !errors.is_empty() {
            return Err(aggregate(&errors));
        }
    }
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(LabelSelector::new(requirements))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_expressions_all_hold() {
        let selector = from_object(&json!({
            "matchLabels": {"a": "1"},
            "matchExpressions": [{"key": "b", "operator": "In", "values": ["x", "y"]}, {"key": "c", "operator": "DoesNotExist"}],
        }))
        .expect("parses");
        assert!(selector.matches(json!({"a": "1", "b": "y"}).as_object()));
        assert!(!selector.matches(json!({"a": "1", "b": "y", "c": ""}).as_object()));
        assert!(!from_object(&Value::Null).expect("parses").matches(None));
        assert!(from_object(&json!({})).expect("parses").matches(None));
    }

    #[test]
    fn an_unknown_operator_is_refused() {
        let error = from_object(&json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})).expect_err("refused");
        assert_eq!(error, "\"Like\" is not a valid label selector operator");
    }
}
