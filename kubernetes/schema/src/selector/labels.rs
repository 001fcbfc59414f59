//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use serde_json::{Map, Value};

use crate::{
    error::{FieldError, aggregate},
    names,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// Sorted, each once.
    pub values: Vec<String>,
}

/// All requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// Set by a selector object that selects nothing.
    nothing: bool,
}

impl LabelSelector {
    #[must_use]
    pub fn new(requirements: Vec<Requirement>) -> LabelSelector {
        LabelSelector { requirements, nothing: false }
    }

    /// Matches no object at all.
    #[must_use]
    pub fn nothing() -> LabelSelector {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// Matches every object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    #[must_use]
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_by(|key| labels.and_then(|labels| labels.get(key)).map(|value| value.as_str().unwrap_or("")))
    }

    /// As `matches`, for labels that are kept otherwise: `get` answers the value of a key.
    #[must_use]
    pub fn matches_by<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let named = |value: &str| self.values.iter().any(|v| v == value);
        match (self.operator, value) {
            (Operator::In | Operator::Equals, Some(value)) => named(value),
            (Operator::NotIn | Operator::NotEquals, Some(value)) => !named(value),
            (Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist, None) => true,
            (Operator::Exists, present) => present.is_some(),
            (Operator::DoesNotExist, Some(_)) | (Operator::In | Operator::Equals, None) => false,
            (Operator::GreaterThan, value) => self.compare(value).is_some_and(std::cmp::Ordering::is_gt),
            (Operator::LessThan, value) => self.compare(value).is_some_and(std::cmp::Ordering::is_lt),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<std::cmp::Ordering> {
        let limit: i64 = self.values.first()?.parse().ok()?;
        Some(value?.parse::<i64>().ok()?.cmp(&limit))
    }

    /// What is wrong with the requirement; paths as in a selector given as text.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let problems = names::is_qualified_name(&self.key);
        if !problems.is_empty() {
            errors.push(FieldError::invalid("key", self.key.as_str(), problems.join("; ")));
        }
        let values = || Value::from(self.values.clone());
        match self.operator {
            Operator::In | Operator::NotIn if self.values.is_empty() => {
                let detail = "for 'in', 'notin' operators, values set can't be empty";
                errors.push(FieldError::invalid("values", values(), detail));
            }
            Operator::GreaterThan | Operator::LessThan => {
                for (at, value) in self.values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                        errors.push(FieldError::invalid(format!("values[{at}]"), value.as_str(), detail));
                    }
                }
            }
            _ => {}
        }
        for (at, value) in self.values.iter().enumerate() {
            let problems = names::is_label_value(value);
            if !problems.is_empty() {
                let field = format!("values[{at}][{}]", self.key);
                errors.push(FieldError::invalid(field, value.as_str(), problems.join("; ")));
            }
        }
        errors
    }
}

/// Parses a label selector; the error is the server's text.
///
/// # Errors
/// The selector does not follow the grammar, or names a key or value that no label can have.
pub fn labels(text: &str) -> Result<LabelSelector, String> {
    let mut parser = Parser { tokens: scan(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Symbol("!") => {
                let requirement = parser.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                requirements.push(requirement);
                match parser.next() {
                    Token::End => break,
                    Token::Symbol(",") => {
                        if !matches!(parser.peek(), Token::Word(_) | Token::Symbol("!")) {
                            let found = parser.peek();
                            return Err(format!("found '{}', expected: identifier after ','", found.text()));
                        }
                    }
                    other => {
                        return Err(format!("found '{}', expected: ',' or 'end of string'", other.text()));
                    }
                }
            }
            Token::End => break,
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        }
    }
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(LabelSelector::new(requirements))
}

#[derive(Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    Error(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) | Token::Error(text) => text,
            Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn scan(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 8] = ["==", "!=", "=", "!", "(", ")", ",", ">"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() && !rest.starts_with('\0') {
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else if let Some(after) = rest.strip_prefix('<') {
            tokens.push(Token::Symbol("<"));
            rest = after;
        } else {
            let end = rest.find(['=', '!', '(', ')', ',', '>', '<', ' ', '\t', '\r', '\n', '\0']);
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            tokens.push(match word.is_empty() {
                true => Token::Error(format!("error expected: keyword found '{rest}'")),
                false => Token::Word(word.to_string()),
            });
            rest = if word.is_empty() { "" } else { after };
        }
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let problems = names::is_qualified_name(&key);
        if !problems.is_empty() {
            return Err(FieldError::invalid("<nil>", key, problems.join("; ")).message());
        }
        if absent || matches!(self.peek(), Token::End | Token::Symbol(",")) {
            let ends = matches!(self.peek(), Token::End | Token::Symbol(","));
            if ends || absent {
                let operator = if absent { Operator::DoesNotExist } else { Operator::Exists };
                return checked(Requirement { key, operator, values: Vec::new() });
            }
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        checked(Requirement { key, operator, values })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.next();
        Ok(match &token {
            Token::Symbol("=" | "==") => Operator::Equals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            Token::Word(word) if word == "in" => Operator::In,
            Token::Word(word) if word == "notin" => Operator::NotIn,
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let first = self.peek();
        match &first {
            Token::Word(_) | Token::Symbol(",") => {
                let values = self.value_list()?;
                if self.next() != Token::Symbol(")") {
                    return Err(format!("found '{}', expected: ')'", first.text()));
                }
                Ok(values)
            }
            Token::Symbol(")") => {
                self.next();
                Ok(vec![String::new()])
            }
            other => Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }

    fn value_list(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Symbol(",") => {
                    let after = self.peek();
                    if values.is_empty() || matches!(after, Token::Symbol(")" | ",")) {
                        values.push(String::new());
                    }
                    if after == Token::Symbol(")") {
                        break;
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',', or identifier", other.text()));
                }
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    fn exact_value(&mut self) -> Result<Vec<String>, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(vec![String::new()]),
            Token::Word(word) => {
                self.next();
                Ok(vec![word])
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }
}

fn checked(requirement: Requirement) -> Result<Requirement, String> {
    let errors = requirement.check();
    match errors.is_empty() {
        true => Ok(requirement),
        false => Err(aggregate(&errors)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn matches(selector: &str, of: Value) -> bool {
        labels(selector).expect("parses").matches(of.as_object())
    }

    #[test]
    fn every_operator_matches() {
        let object = json!({"a": "b", "n": "5", "empty": ""});
        for yes in [
            "",
            "a",
            "!z",
            "a=b",
            "a==b",
            "a!=c",
            "z!=c",
            "a in (b,c)",
            "z notin (b)",
            "n>4",
            "n<6",
            "empty=",
            "a,n",
            " a = b , n in ( 5 ) ",
            "empty in ()",
            "in!=x",
            "a notin (c)",
        ] {
            assert!(matches(yes, object.clone()), "{yes}");
        }
        for no in ["z", "!a", "a=c", "a!=b", "a in (c)", "a notin (b)", "n>5", "n<5", "z=", "z>1", "a>1"] {
            assert!(!matches(no, object.clone()), "{no}");
        }
        assert!(!LabelSelector::nothing().matches(object.as_object()));
        assert!(labels("a").expect("parses").matches(json!({"a": "x"}).as_object()));
        assert!(!labels("a").expect("parses").matches(None));
    }

    #[track_caller]
    fn refuses(selector: &str, expected: Expect) {
        expected.assert_eq(&labels(selector).expect_err("refused"));
    }

    #[test]
    fn what_is_not_a_selector_is_refused_in_the_servers_words() {
        refuses("a=b,", expect!["found '', expected: identifier after ','"]);
        refuses("=b", expect!["found '=', expected: !, identifier, or 'end of string'"]);
        refuses("a in b", expect!["unable to parse requirement: found 'b' expected: '('"]);
        refuses("a b", expect!["unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"]);
        refuses("a=b c", expect!["found 'c', expected: ',' or 'end of string'"]);
        refuses(
            "-a",
            expect![[
                r#"unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#
            ]],
        );
        refuses(
            "a=-b",
            expect![[
                r#"unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#
            ]],
        );
        refuses(
            "a>x",
            expect![[
                r#"unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"#
            ]],
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = labels(&text);
        }

        #[test]
        fn no_selector_like_text_panics(text in "[a-c=!,()<> in]{0,20}") {
            let _ = labels(&text);
        }
    }
}
