//! Quotes text the way upstream's messages do, so that scripts which cut them apart keep working, and keeps it short.

use std::borrow::Cow;
use std::fmt::Write;

/// The text in double quotes, with everything escaped that is not printable.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            other if (other as u32) < 0x20 || other as u32 == 0x7f => escape(&mut quoted, 'x', 2, other),
            other if is_printable(other) => quoted.push(other),
            other if other as u32 > 0xffff => escape(&mut quoted, 'U', 8, other),
            other => escape(&mut quoted, 'u', 4, other),
        }
    }
    quoted.push('"');
    quoted
}

/// The text, or its beginning when it is longer than so many characters.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

fn escape(text: &mut String, letter: char, width: usize, character: char) {
    write!(text, "\\{letter}{:0width$x}", character as u32).expect("writing to a string cannot fail");
}

/// Controls, format characters, private use and every space but the plain one are not printable.
fn is_printable(character: char) -> bool {
    character == ' '
        || !(character.is_control()
            || character.is_whitespace()
            || matches!(character as u32, 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xffff | 0xe0000..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_controls_are_escaped() {
        assert_eq!(quoted("a \"b\"\n\u{1}é\u{200b}\u{e0001}"), r#""a \"b\"\n\x01é\u200b\U000e0001""#);
    }

    #[test]
    fn long_text_ends_at_a_character() {
        assert_eq!(cut("grün", 4), "grün");
        assert_eq!(cut("grün", 3), "grü…");
    }
}
