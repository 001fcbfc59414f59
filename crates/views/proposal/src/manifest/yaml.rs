//! YAML to JSON, with kubectl's reading of every scalar: `0644` is octal, `yes` is true, a date is text.

use serde_json::Value;

/// Parses one document; `line` is the number of lines before it in its file.
pub(super) fn parse(text: &str, line: usize) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.to_string().replace('\n', " ");
        match error.location() {
            Some(place) => {
                let line = line as u64 + place.line();
                format!("not valid YAML at line {line}, column {}: {}", place.column(), without_place(&message))
            }
            None => format!("not valid YAML: {message}"),
        }
    })
}

/// The parser puts its own line into the message, counted from the document.
fn without_place(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or(message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Recorded from kubectl 1.32: what it sends for each way of writing a value.
    #[test]
    fn scalars_mean_what_kubectl_says_they_mean() {
        for (text, expected) in [
            ("0644", json!(420)),
            ("0o644", json!(420)),
            ("-0644", json!(-420)),
            ("0777_1", json!(4089)),
            ("00", json!(0)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("1_000", json!(1000)),
            ("+12", json!(12)),
            ("yes", json!(true)),
            ("y", json!(true)),
            ("on", json!(true)),
            ("NO", json!(false)),
            ("N", json!(false)),
            ("~", Value::Null),
            ("2001-01-01", json!("2001-01-01")),
            ("190:20:30", json!("190:20:30")),
            ("1.0", json!(1.0)),
            ("1e3", json!(1000.0)),
            (".5", json!(0.5)),
            ("\"0644\"", json!("0644")),
            ("0x", json!("0x")),
        ] {
            let value = parse(&format!("a: {text}\n"), 0).unwrap();
            assert_eq!(value["a"], expected, "{text}");
        }
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        assert!(parse("a: .inf\n", 0).is_err());
        assert!(parse("a: 1\na: 2\n", 0).is_err());
    }
}
