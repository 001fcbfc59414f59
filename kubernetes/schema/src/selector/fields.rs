//! Field selectors: `a=b,c!=d`. Which fields a resource knows is the caller's to check.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    /// `=` and `==`, or `!=`.
    pub equal: bool,
    pub value: String,
}

/// All requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// `get` answers a field's value, empty if the object does not have it.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.requirements.iter().all(|r| (get(&r.field) == r.value.as_str()) == r.equal)
    }

    /// The one value a field must have, if the selector says so.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.field == field && r.equal).map(|r| r.value.as_str())
    }
}

/// Parses a field selector; the error is the server's text.
///
/// # Errors
/// A term has no operator, or a value has an escape or a character it may not have.
pub fn fields(text: &str) -> Result<FieldSelector, String> {
    let mut terms = split(text);
    terms.sort_unstable();
    let mut requirements = Vec::new();
    for term in terms {
        if term.is_empty() {
            continue;
        }
        let Some((field, equal, value)) = split_term(term) else {
            return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
        };
        requirements.push(FieldRequirement { field: field.to_string(), equal, value: unescape(value)? });
    }
    Ok(FieldSelector { requirements })
}

/// Cuts at commas that no backslash protects.
fn split(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().map(|(at, _)| at).find(|at| {
        let rest = &term[*at..];
        rest.starts_with("!=") || rest.starts_with('=')
    })?;
    let (field, rest) = term.split_at(at);
    match (rest.strip_prefix("!="), rest.strip_prefix("==")) {
        (Some(value), _) => Some((field, false, value)),
        (None, Some(value)) => Some((field, true, value)),
        (None, None) => Some((field, true, &rest[1..])),
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{c}"));
                }
                None => {
                    return Err("invalid field selector: invalid escape sequence: \\".to_string());
                }
            },
            ',' | '=' => {
                let code = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn equality_and_inequality_match() {
        let get = |field: &str| Cow::Borrowed(if field == "a" { "1" } else { "" });
        for yes in ["", "a=1", "a==1", "a!=2", "b=", "a=1,b!=x", ","] {
            assert!(fields(yes).expect("parses").matches(get), "{yes}");
        }
        for no in ["a=2", "a!=1", "b=1"] {
            assert!(!fields(no).expect("parses").matches(get), "{no}");
        }
        assert_eq!(fields(r"a=x\,y\=z").expect("parses").exact("a"), Some("x,y=z"));
    }

    #[track_caller]
    fn refuses(selector: &str, expected: Expect) {
        expected.assert_eq(&fields(selector).expect_err("refused"));
    }

    #[test]
    fn what_is_not_a_selector_is_refused_in_the_servers_words() {
        refuses("a", expect!["invalid selector: 'a'; can't understand 'a'"]);
        refuses(r"a=\x", expect![r"invalid field selector: invalid escape sequence: \x"]);
        refuses("a=b=c", expect!["invalid field selector: unescaped character in value: 61"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = fields(&text);
        }
    }
}
