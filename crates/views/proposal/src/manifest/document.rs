//! Splits a file into its documents and turns each into a value.

use serde_json::Value;

use super::yaml;

/// One document of a file, with its place for error messages.
pub(super) struct Document<'a> {
    text: &'a str,
    /// From 1.
    pub(super) number: usize,
    /// Lines of the file before this document.
    line: usize,
}

/// Splits at the lines that separate YAML documents, as kubectl does. A file of JSON objects one after another is also
/// several documents.
pub(super) fn split(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let (mut start, mut line_of_start) = (0, 0);
    let (mut offset, mut number) = (0, 1);
    for (line, content) in text.split_inclusive('\n').enumerate() {
        if is_separator(content) {
            let before = &text[start..offset];
            // A separator at the very top opens the first document instead of ending an empty one.
            if number > 1 || !is_blank(before) {
                documents.push(Document { text: before, number, line: line_of_start });
                number += 1;
            }
            (start, line_of_start) = (offset, line);
        }
        offset += content.len();
    }
    documents.push(Document { text: &text[start..], number, line: line_of_start });
    documents.into_iter().flat_map(json_stream).collect()
}

impl Document<'_> {
    pub(super) fn parse(&self) -> Result<Value, String> {
        if self.looks_like_json() {
            // YAML's own flow style looks the same at first, so it gets its chance before JSON's error is told.
            return serde_json::from_str(self.text).or_else(|error| {
                yaml::parse(self.text, self.line).map_err(|_| {
                    let line = self.line + error.line();
                    format!("not valid JSON at line {line}, column {}: {}", error.column(), without_place(&error))
                })
            });
        }
        yaml::parse(self.text, self.line)
    }

    fn looks_like_json(&self) -> bool {
        self.text.trim_start().starts_with('{')
    }
}

/// Several JSON objects in a row become a document each; anything else stays one.
fn json_stream(document: Document<'_>) -> Vec<Document<'_>> {
    if !document.looks_like_json() {
        return vec![document];
    }
    let mut stream = serde_json::Deserializer::from_str(document.text).into_iter::<serde::de::IgnoredAny>();
    let (mut parts, mut start) = (Vec::new(), 0);
    while let Some(Ok(_)) = stream.next() {
        let end = stream.byte_offset();
        let line = document.line + document.text[..start].matches('\n').count();
        parts.push(Document { text: &document.text[start..end], number: document.number + parts.len(), line });
        start = end;
    }
    if parts.len() > 1 && document.text[start..].trim().is_empty() { parts } else { vec![document] }
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%'))
}

/// serde_json ends its messages with a place counted from the document; ours is counted from the file.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(usize, Value)> {
        split(text).iter().map(|document| (document.number, document.parse().unwrap())).collect()
    }

    #[test]
    fn documents_are_counted_as_people_count_them() {
        let text = "# top\n---\na: 1\n--- # second\nb: 2\n---\n";
        let found = values(text);
        assert_eq!(found[0], (1, serde_json::json!({"a": 1})));
        assert_eq!(found[1], (2, serde_json::json!({"b": 2})));
        assert_eq!(found[2], (3, Value::Null));
    }

    #[test]
    fn a_file_of_json_objects_is_several_documents() {
        assert_eq!(values("{\"a\": 1}\n{\"b\": 2}\n").len(), 2);
        assert_eq!(values("{a: 1}"), vec![(1, serde_json::json!({"a": 1}))]);
    }

    #[test]
    fn errors_count_lines_from_the_top_of_the_file() {
        let documents = split("a: 1\n---\nb: [1\nc: }\n");
        let message = documents[1].parse().unwrap_err();
        assert!(message.contains("line 4") || message.contains("line 3"), "{message}");
    }

    #[test]
    fn a_separator_inside_a_block_of_text_is_text() {
        let found = values("a: |\n  ---\n  x\n");
        assert_eq!(found, vec![(1, serde_json::json!({"a": "---\nx\n"}))]);
    }
}
