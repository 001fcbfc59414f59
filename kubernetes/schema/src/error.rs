//! Field errors with the real server's words: kind, path, offending value and detail.

use std::fmt::Write as _;

use cel::Wrong;
pub use cel::go::quote as go_quote;
use serde_json::Value;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    TypeInvalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooShort,
    TooMany,
    TooFew,
    Internal,
}

/// One finding about one field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: ErrorKind,
    /// The path as users read it: `spec.versions[0].name`, `spec.labels[a/b]`.
    pub field: String,
    /// The offending value; `None` prints no value.
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::new(ErrorKind::Invalid, field, Some(value.into()), detail)
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::new(ErrorKind::Required, field, None, detail)
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::new(ErrorKind::Forbidden, field, None, detail)
    }

    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> FieldError {
        FieldError::new(ErrorKind::Duplicate, field, Some(value.into()), "")
    }

    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[String]) -> FieldError {
        let quoted: Vec<String> = supported.iter().map(|s| go_quote(s)).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        FieldError::new(ErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    pub fn too_long(field: impl Into<String>, limit: u64) -> FieldError {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        FieldError::new(ErrorKind::TooLong, field, None, format!("may not be more than {limit} {unit}"))
    }

    pub fn too_many(field: impl Into<String>, actual: usize, limit: u64) -> FieldError {
        let unit = if limit == 1 { "item" } else { "items" };
        FieldError::new(ErrorKind::TooMany, field, Some(actual.into()), format!("must have at most {limit} {unit}"))
    }

    pub fn new(
        kind: ErrorKind,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError { kind, field: field.into(), value, detail: detail.into() }
    }

    /// What is wrong with an expression that stands in a field.
    #[must_use]
    pub fn of_expression(wrong: Wrong, field: impl Into<String>, expression: &str) -> FieldError {
        match wrong {
            Wrong::Invalid(detail) => FieldError::invalid(field, expression, detail),
            Wrong::Internal(detail) => FieldError::new(ErrorKind::Internal, field, None, detail),
            Wrong::Forbidden(detail) => FieldError::forbidden(field, detail),
        }
    }

    /// The machine-readable reason of a Status cause.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.kind {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Internal => "InternalError",
        }
    }

    /// The message without the path, as a Status cause carries it.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = String::from(match self.kind {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        });
        let prints_value = !matches!(
            self.kind,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::TooShort | ErrorKind::Internal
        );
        if let (true, Some(value)) = (prints_value, &self.value) {
            let _ = write!(text, ": {}", go_value(value));
        }
        if !self.detail.is_empty() {
            let _ = write!(text, ": {}", self.detail);
        }
        text
    }

    /// The whole message: path, kind, value and detail.
    #[must_use]
    pub fn message(&self) -> String {
        format!("{}: {}", self.field, self.body())
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message())
    }
}

/// The messages of several errors as one text: alone, or in brackets, each message once.
#[must_use]
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut messages: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.message();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.len() {
        1 => messages.swap_remove(0),
        _ => format!("[{}]", messages.join(", ")),
    }
}

/// A value as the server prints it in an error: numbers plain, strings quoted, the rest as JSON.
fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (None, None, Some(float)) => go_float(float),
            _ => number.to_string(),
        },
        other => go_json(other),
    }
}

/// Compact JSON with the characters that Go's encoder hides from HTML escaped.
#[must_use]
pub fn go_json(value: &Value) -> String {
    let mut text = String::new();
    write_ordered(value, &mut text);
    go_escaped(text)
}

/// Fields that Go writes before others of their struct; the rest of what is shown in errors is sorted by name anyway.
const BEFORE_OTHERS: [&str; 31] = [
    "Name",
    "Protocol",
    "AppProtocol",
    "Port",
    "TargetPort",
    "NodePort",
    "matchLabels",
    "matchExpressions",
    "Type",
    "RollingUpdate",
    "Partition",
    "MaxUnavailable",
    "MaxSurge",
    "SucceededIndexes",
    "Capabilities",
    "Privileged",
    "SELinuxOptions",
    "WindowsOptions",
    "RunAsUser",
    "RunAsGroup",
    "RunAsNonRoot",
    "ReadOnlyRootFilesystem",
    "AllowPrivilegeEscalation",
    "ProcMount",
    "SeccompProfile",
    "AppArmorProfile",
    "Key",
    "Operator",
    "Value",
    "Effect",
    "TolerationSeconds",
];

fn write_ordered(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            let rank = |name: &str| BEFORE_OTHERS.iter().position(|own| *own == name).unwrap_or(BEFORE_OTHERS.len());
            fields.sort_by_key(|(name, _)| rank(name));
            text.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(text, "{comma}{}:", Value::from(name.as_str()));
                write_ordered(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_ordered(item, text);
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

pub(crate) fn go_escaped(text: String) -> String {
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(escaped, "\\u{:04x}", character as u32);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// A value the way Go's `%v` prints it.
#[must_use]
pub fn go_plain(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_plain(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(go_plain).collect::<Vec<_>>().join(" ")),
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_string(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => go_float(float),
            None => number.to_string(),
        },
        Value::Bool(flag) => flag.to_string(),
    }
}

/// A float the way Go's `%v` prints it: shortest digits, exponent from 1e21 up and below 1e-4.
#[must_use]
pub fn go_float(float: f64) -> String {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(error: &FieldError, expected: Expect) {
        expected.assert_eq(&error.message());
    }

    #[test]
    fn messages_read_like_the_real_servers() {
        check(&FieldError::required("spec.a", ""), expect!["spec.a: Required value"]);
        check(&FieldError::invalid("spec.a", 5, "must be x"), expect!["spec.a: Invalid value: 5: must be x"]);
        check(&FieldError::invalid("spec.a", "q\"", "no"), expect![[r#"spec.a: Invalid value: "q\"": no"#]]);
        check(&FieldError::duplicate("l[1]", json!({"a": "<"})), expect![[r#"l[1]: Duplicate value: {"a":"\u003c"}"#]]);
        check(
            &FieldError::not_supported("s", "x", &["A".into(), "B".into()]),
            expect![[r#"s: Unsupported value: "x": supported values: "A", "B""#]],
        );
        check(&FieldError::too_long("s", 1), expect!["s: Too long: may not be more than 1 byte"]);
        check(&FieldError::too_many("s", 3, 2), expect!["s: Too many: 3: must have at most 2 items"]);
    }

    #[test]
    fn floats_print_as_in_go() {
        assert_eq!(go_float(1.5), "1.5");
        assert_eq!(go_float(100.0), "100");
        assert_eq!(go_float(1e21), "1e+21");
        assert_eq!(go_float(0.00001), "1e-05");
    }

    #[test]
    fn aggregate_shows_each_message_once() {
        let error = FieldError::required("a", "");
        assert_eq!(aggregate(&[error.clone(), error.clone()]), "a: Required value");
        assert_eq!(aggregate(&[error, FieldError::required("b", "")]), "[a: Required value, b: Required value]");
    }
}
