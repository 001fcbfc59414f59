//! What Go's JSON scanner says about a text that is not JSON; users and tests know these sentences.

/// The complaint about the first mistake, or `None` if the text is well formed.
#[must_use]
pub fn complaint(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0 };
    match scanner.value() {
        Err(mistake) => return Some(mistake),
        Ok(()) => scanner.space(),
    }
    scanner.peek().map(|byte| format!("invalid character {} after top-level value", quote(byte)))
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

#[derive(Clone, Copy)]
enum Open {
    Object,
    Array,
}

const END: &str = "unexpected end of JSON input";
/// Go's own limit on nesting.
const DEPTH: usize = 10_000;

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next(&mut self, context: &str) -> Result<u8, String> {
        let byte = self.peek().ok_or(END)?;
        self.at += 1;
        if byte < b' ' && context.contains("string literal") {
            return Err(wrong(byte, context));
        }
        Ok(byte)
    }

    /// One whole value. What is open is kept in a list: by recursion a client could use up the stack.
    fn value(&mut self) -> Result<(), String> {
        let mut open = Vec::new();
        loop {
            self.space();
            let begun = match self.peek().ok_or(END)? {
                b'{' => self.begin(Open::Object)?,
                b'[' => self.begin(Open::Array)?,
                b'"' => self.string().map(|()| None)?,
                b't' => self.word(b"true").map(|()| None)?,
                b'f' => self.word(b"false").map(|()| None)?,
                b'n' => self.word(b"null").map(|()| None)?,
                b'-' | b'0'..=b'9' => self.number().map(|()| None)?,
                byte => return Err(wrong(byte, "looking for beginning of value")),
            };
            match begun {
                Some(_) if open.len() == DEPTH => return Err("exceeded max depth".to_owned()),
                Some(begun) => open.push(begun),
                None if self.end(&mut open)? => return Ok(()),
                None => {}
            }
        }
    }

    /// Enters an object, up to its first value, or an array; nothing if it is empty.
    fn begin(&mut self, kind: Open) -> Result<Option<Open>, String> {
        self.at += 1;
        self.space();
        match (kind, self.peek()) {
            (Open::Object, Some(b'}')) | (Open::Array, Some(b']')) => {
                self.at += 1;
                return Ok(None);
            }
            (Open::Object, _) => self.key()?,
            (Open::Array, _) => {}
        }
        Ok(Some(kind))
    }

    /// Goes on behind a value, to the next one; says whether there is none.
    fn end(&mut self, open: &mut Vec<Open>) -> Result<bool, String> {
        while let Some(kind) = open.last() {
            self.space();
            match (kind, self.next("")?) {
                (Open::Object, b',') => return self.key().map(|()| false),
                (Open::Array, b',') => return Ok(false),
                (Open::Object, b'}') | (Open::Array, b']') => drop(open.pop()),
                (Open::Object, byte) => return Err(wrong(byte, "after object key:value pair")),
                (Open::Array, byte) => return Err(wrong(byte, "after array element")),
            }
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), String> {
        self.space();
        match self.peek().ok_or(END)? {
            b'"' => self.string()?,
            byte => return Err(wrong(byte, "looking for beginning of object key string")),
        }
        self.space();
        match self.next("")? {
            b':' => Ok(()),
            byte => Err(wrong(byte, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.next("in string literal")? {
                b'"' => return Ok(()),
                b'\\' => match self.next("in string escape code")? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next("")?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(wrong(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(wrong(byte, "in string escape code")),
                },
                _ => {}
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), String> {
        self.at += 1;
        for expected in &word[1..] {
            let byte = self.next("")?;
            if byte != *expected {
                let word = String::from_utf8_lossy(word);
                return Err(wrong(byte, &format!("in literal {word} (expecting {})", quote(*expected))));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
            match self.peek().ok_or(END)? {
                b'0'..=b'9' => {}
                byte => return Err(wrong(byte, "in numeric literal")),
            }
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            match self.peek().ok_or(END)? {
                b'0'..=b'9' => self.digits(),
                byte => return Err(wrong(byte, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            match self.peek().ok_or(END)? {
                b'0'..=b'9' => self.digits(),
                byte => return Err(wrong(byte, "in exponent of numeric literal")),
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }
}

fn wrong(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quote(byte))
}

fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x20..=0x7e | 0x80.. => format!("'{}'", byte as char),
        _ => format!("'\\x{byte:02x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(complaint(text.as_bytes()).as_deref(), expected, "{text}");
    }

    #[test]
    fn mistakes_are_named_as_in_go() {
        check(r#"{"a": [1, 2.5e3, "x\u00e9", true, null]} "#, None);
        check("", Some("unexpected end of JSON input"));
        check("{", Some("unexpected end of JSON input"));
        check("{]", Some("invalid character ']' looking for beginning of object key string"));
        check("{\"a\" 1}", Some("invalid character '1' after object key"));
        check("{\"a\":}", Some("invalid character '}' looking for beginning of value"));
        check("{\"a\":1 \"b\"}", Some("invalid character '\"' after object key:value pair"));
        check("[1 2]", Some("invalid character '2' after array element"));
        check("nope", Some("invalid character 'o' in literal null (expecting 'u')"));
        check("{} x", Some("invalid character 'x' after top-level value"));
        check("{\"a\": {}, \"b\": [[], {\"c\": [1, {}]}]}", None);
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        check(&"[".repeat(20_000), Some("exceeded max depth"));
        check(&"{\"a\":".repeat(20_000), Some("exceeded max depth"));
        check(&format!("{}{}", "[".repeat(9_000), "]".repeat(9_000)), None);
    }
}
