//! Strict decoding: duplicate keys in raw JSON, and the text that lists what strict decoding refused.

use std::collections::HashSet;

/// The paths of keys that appear more than once in their object, each once, in order of appearance.
///
/// The text is scanned, not decoded; text that is not JSON gives whatever was found before the fault.
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut scanner = Scanner { json, at: 0, path: String::new(), found: Vec::new() };
    scanner.value(0);
    scanner.found
}

/// The problems as warnings and strict errors name them: `unknown field "a"`, then `duplicate field "b"`.
#[must_use]
pub fn problems(unknown: &[String], duplicate: &[String]) -> Vec<String> {
    let duplicate = duplicate.iter().map(|path| format!("duplicate field \"{path}\""));
    let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    duplicate.chain(unknown).collect()
}

/// The error of `fieldValidation=Strict`.
#[must_use]
pub fn error(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}

/// Deeper nesting than this is not followed; decoding refuses it anyway.
const MAX_DEPTH: usize = 512;

struct Scanner<'a> {
    json: &'a [u8],
    at: usize,
    path: String,
    found: Vec<String>,
}

impl Scanner<'_> {
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.json.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    /// Passes one value; false when the text ends or is not JSON.
    fn value(&mut self, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().is_some(),
            Some(_) => {
                let start = self.at;
                while self.json.get(self.at).is_some_and(|b| !b",]} \t\n\r".contains(b)) {
                    self.at += 1;
                }
                self.at > start
            }
            None => false,
        }
    }

    fn object(&mut self, depth: usize) -> bool {
        self.at += 1;
        let length = self.path.len();
        let mut seen: HashSet<&[u8]> = HashSet::new();
        let mut reported: Vec<&[u8]> = Vec::new();
        loop {
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return true;
                }
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                Some(b'"') => {}
                _ => return false,
            }
            let Some((start, end)) = self.string() else {
                return false;
            };
            let key = &self.json[start..end];
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&String::from_utf8_lossy(key));
            if !seen.insert(key) && !reported.contains(&key) {
                reported.push(key);
                self.found.push(self.path.clone());
            }
            if self.peek() != Some(b':') {
                return false;
            }
            self.at += 1;
            let whole = self.value(depth + 1);
            self.path.truncate(length);
            if !whole {
                return false;
            }
        }
    }

    fn array(&mut self, depth: usize) -> bool {
        self.at += 1;
        let length = self.path.len();
        for index in 0.. {
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return true;
                }
                Some(b',') => self.at += 1,
                Some(_) if index == 0 => {}
                _ => return false,
            }
            self.path.push_str(&format!("[{index}]"));
            let whole = self.value(depth + 1);
            self.path.truncate(length);
            if !whole {
                return false;
            }
        }
        true
    }

    /// Passes a string and returns where its content stands.
    fn string(&mut self) -> Option<(usize, usize)> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.json.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let end = self.at;
        self.at += 1;
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_named_by_path() {
        let text = br#"{"a": 1, "b": {"c": [ {"d": "}\"", "d": 2, "d": 3}, {"d": 1} ]}, "a": {}}"#;
        assert_eq!(duplicate_fields(text), ["b.c[0].d", "a"]);
        assert!(duplicate_fields(br#"{"a": {"b": 1}, "c": [1, 2, "x"], "d": null}"#).is_empty());
        assert!(duplicate_fields(b"").is_empty());
    }

    #[test]
    fn the_strict_error_lists_all() {
        let problems = problems(&["spec.x".into()], &["spec.y".into()]);
        assert_eq!(error(&problems), "strict decoding error: duplicate field \"spec.y\", unknown field \"spec.x\"");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let _ = duplicate_fields(&bytes);
        }

        #[test]
        fn no_json_like_text_panics(text in r#"[{}\[\]":,a-b1\\ ]{0,40}"#) {
            let _ = duplicate_fields(text.as_bytes());
        }
    }
}
