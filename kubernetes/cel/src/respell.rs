//! Writes anew what the parser misreads, and knows where everything stood before.
//!
//! The parser takes neither negative numbers in hexadecimal, nor quotes inside a text in triple quotes.

use std::borrow::Cow;

use super::depth::quoted;

/// A text as the parser gets it.
pub(super) struct Respelled<'t> {
    pub(super) text: Cow<'t, str>,
    /// Where something was written anew: its end before and after.
    moves: Vec<(usize, usize)>,
}

impl Respelled<'_> {
    /// Where a place of the respelled text was before. What is inside something respelled stood at its end.
    pub(super) fn origin(&self, place: usize) -> usize {
        let moved = self.moves.iter().take_while(|(_, after)| *after <= place).last();
        moved.map_or(place, |(before, after)| before + (place - after))
    }
}

/// Respells a text, as far as that is needed.
pub(super) fn respell(text: &str) -> Respelled<'_> {
    let bytes = text.as_bytes();
    let (mut out, mut kept, mut moves) = (String::new(), 0, Vec::new());
    let (mut at, mut is_negative) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        let (width, anew) = match byte {
            b'"' | b'\'' => {
                let prefix = text_prefix(&text[..at]);
                let width = quoted(&bytes[at..], prefix.contains(['r', 'R']));
                let anew = texts(&text[at..at + width], prefix);
                if anew.is_some() {
                    at -= prefix.len();
                }
                (width + if anew.is_some() { prefix.len() } else { 0 }, anew)
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                (bytes[at..].iter().take_while(|byte| **byte != b'\n').count(), None)
            }
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let width =
                    bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
                (width, hexadecimal(&text[at..at + width]).filter(|_| is_negative))
            }
            _ => (1, None),
        };
        if let Some(anew) = anew {
            out.push_str(&text[kept..at]);
            out.push_str(&anew);
            kept = at + width;
            moves.push((kept, out.len()));
        }
        if !byte.is_ascii_whitespace() {
            is_negative = byte == b'-';
        }
        at += width;
    }
    if moves.is_empty() {
        return Respelled { text: Cow::Borrowed(text), moves };
    }
    out.push_str(&text[kept..]);
    Respelled { text: Cow::Owned(out), moves }
}

/// What stands right before a text in quotes, if it says how the text is meant.
fn text_prefix(before: &str) -> &str {
    let rest = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let prefix = &before[rest.len()..];
    if matches!(prefix.to_ascii_lowercase().as_str(), "r" | "b" | "br" | "rb") { prefix } else { "" }
}

/// A number in hexadecimal as one in decimal, if it is one. What is too large stays too large.
fn hexadecimal(word: &str) -> Option<String> {
    let digits = word.strip_prefix("0x").filter(|digits| !digits.is_empty())?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(digits, 16).ok();
    Some(number.map_or_else(|| "9".repeat(digits.len() * 2), |number| number.to_string()))
}

/// A text in triple quotes with quotes in it, as one in single ones.
fn texts(whole: &str, prefix: &str) -> Option<String> {
    let quote = &whole[..1];
    let inner = whole.strip_prefix(quote.repeat(3).as_str())?.strip_suffix(quote.repeat(3).as_str())?;
    if !inner.contains(['"', '\'']) {
        return None;
    }
    let is_raw = prefix.contains(['r', 'R']);
    let bytes = if prefix.contains(['b', 'B']) { "b" } else { "" };
    let mut out = format!("{bytes}\"");
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            // Every end of a line is the same one.
            '\r' => {
                letters.next_if_eq(&'\n');
                out.push_str("\\n");
            }
            '\\' if is_raw => out.push_str("\\\\"),
            '\\' if letters.next_if_eq(&'\'').is_some() => out.push('\''),
            '\\' => {
                out.push('\\');
                out.extend(letters.next());
            }
            other => out.push(other),
        }
    }
    out.push('"');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let respelled = respell(text);
        assert_eq!(respelled.text, expected, "{text}");
        assert_eq!(respelled.origin(respelled.text.len()), text.len(), "{text}");
        assert_eq!(respelled.origin(0), 0, "{text}");
    }

    #[test]
    fn only_what_is_misread_is_respelled() {
        for text in [
            "a - 1",
            "0x1F",
            "'-0x1F'",
            "a0x1 -b",
            "// -0x1\n1",
            "'''plain'''",
            "r'-0x1'",
            "-0x1Fu",
            "\"a'b\"",
            "-1.5e3",
            "\u{e9}'x'",
            "'\u{1f600}'\u{1f600}\"\"",
        ] {
            check(text, text);
        }
        check("-0x1F", "-31");
        check("x - 0x10 + -0x2", "x - 16 + -2");
        check("-0x8000000000000000", "-9223372036854775808");
        check("-0x8000000000000001", "-9223372036854775809");
        check("-0x", "-0x");
        check(r"'''a\'b'c'''", r#""a'b'c""#);
        check(r#"'''it's "so"''' + 'x'"#, r#""it's \"so\"" + 'x'"#);
        check(r#"r"""a"\d""" == b'''x'y'''"#, r#""a\"\\d" == b"x'y""#);
        check("\"\"\"a\n\"b\\\" \"\"\" + c", r#""a\n\"b\" " + c"#);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[\"'\\\\rRbB/0-9xXaFfu \\-\\n\u{e9}\u{1f600}]{0,40}") {
            let respelled = respell(&text);
            for place in 0..=respelled.text.len() {
                proptest::prop_assert!(respelled.origin(place) <= text.len());
            }
            let whole = respelled.origin(respelled.text.len());
            proptest::prop_assert_eq!(whole, text.len());
        }
    }

    #[test]
    fn places_are_found_again() {
        let respelled = respell("-0x1F + '''a'b''' + nothing");
        assert_eq!(respelled.text, "-31 + \"a'b\" + nothing");
        let place = respelled.text.find("nothing").unwrap_or_default();
        assert_eq!(respelled.origin(place), 20);
        assert_eq!(respelled.origin(1), 1);
    }
}
