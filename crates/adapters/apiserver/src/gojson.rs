//! What Go's JSON scanner says about a text that is not JSON; users and tests know these sentences.

/// The complaint about the first mistake, or `None` if the text is well formed.
pub(crate) fn complaint(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0 };
    match scanner.value("looking for beginning of value", 0) {
        Err(mistake) => return Some(mistake),
        Ok(()) => scanner.space(),
    }
    scanner.peek().map(|byte| format!("invalid character {} after top-level value", quote(byte)))
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
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

    fn value(&mut self, context: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.space();
        match self.peek().ok_or(END)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(wrong(byte, context)),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            match self.peek().ok_or(END)? {
                b'"' => self.string()?,
                byte => return Err(wrong(byte, "looking for beginning of object key string")),
            }
            self.space();
            match self.next("")? {
                b':' => {}
                byte => return Err(wrong(byte, "after object key")),
            }
            self.value("looking for beginning of value", depth + 1)?;
            self.space();
            match self.next("")? {
                b',' => {}
                b'}' => return Ok(()),
                byte => return Err(wrong(byte, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value("looking for beginning of value", depth + 1)?;
            self.space();
            match self.next("")? {
                b',' => {}
                b']' => return Ok(()),
                byte => return Err(wrong(byte, "after array element")),
            }
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
    }
}
