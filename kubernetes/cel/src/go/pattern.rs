//! Go's regular expressions, as `pattern`s of schemas and `matches` of expressions are written, made into Rust's.
//!
//! Both come from RE2 and match alike, but their notations differ: in Go a `[`, `&&`, `--` or `~~` in a class stands for
//! itself, `\d`, `\s`, `\w` and `\b` know ASCII only, `{` may be a letter, `\Q…\E` quotes, octal escapes exist, names of groups
//! may begin with a digit, and operators do not stack. [`compile`] reads Go's notation with Go's rules and errors, and writes
//! down every letter and class so that Rust can read it in one way only.

mod class;
mod escape;

use regex::{Regex, RegexBuilder};

/// No part may be repeated more often, all repetitions around it taken together.
const MOST_COPIES: u64 = 1000;

/// Builds a regular expression of Go's notation.
///
/// # Errors
/// The text is none; the message is Go's.
pub fn compile(text: &str) -> Result<Regex, String> {
    let translated = translate(text).map_err(|error| format!("error parsing regexp: {error}"))?;
    RegexBuilder::new(&translated).build().map_err(|_| format!("error parsing regexp: expression too large: `{text}`"))
}

/// The same expression in Rust's notation.
fn translate(whole: &str) -> Result<String, String> {
    let mut reader = Reader { whole, rest: whole, open: Vec::new(), pieces: Vec::new(), lazy: false };
    // The operator just read, from where it begins: another one may not follow.
    let mut last_repeat = None;
    while let Some(letter) = reader.rest.chars().next() {
        let before = reader.rest;
        let mut repeat = None;
        match letter {
            '(' if reader.rest.starts_with("(?") => reader.group_with_flags()?,
            '(' => {
                reader.rest = &before[1..];
                reader.begin("(");
            }
            '|' => {
                reader.rest = &before[1..];
                reader.pieces.push(Piece::Bar);
            }
            ')' => reader.end()?,
            '^' | '$' | '.' => {
                reader.rest = &before[1..];
                reader.item(letter.to_string());
            }
            '[' => {
                let (class, rest) = class::bracketed(before)?;
                reader.rest = rest;
                reader.item(class);
            }
            '*' | '+' | '?' => {
                reader.rest = &before[1..];
                reader.repeat(before, last_repeat, None)?;
                repeat = Some(before);
            }
            '{' => match counts(before) {
                None => {
                    reader.rest = &before[1..];
                    reader.item(letter_text('{'));
                }
                Some((counts, rest)) => {
                    reader.rest = rest;
                    reader.repeat(before, last_repeat, Some(counts?))?;
                    repeat = Some(before);
                }
            },
            '\\' => reader.escaped()?,
            letter => {
                reader.rest = &before[letter.len_utf8()..];
                reader.item(letter_text(letter));
            }
        }
        last_repeat = repeat;
    }
    if !reader.open.is_empty() {
        return Err(format!("missing closing ): `{whole}`"));
    }
    Ok(joined(&reader.pieces))
}

/// A piece of a concatenation, in Rust's notation.
enum Piece {
    /// Something that can be repeated, with how many copies of its innermost part it stands for.
    Item {
        text: String,
        copies: u64,
    },
    /// A change of flags for what follows.
    Flags(String),
    Bar,
}

struct Reader<'t> {
    whole: &'t str,
    rest: &'t str,
    /// The groups that are still open.
    open: Vec<Group>,
    /// What was read of the innermost group.
    pieces: Vec<Piece>,
    /// Whether operators take as little as they can, unless they are marked (`U`).
    lazy: bool,
}

/// A group that is still open.
struct Group {
    /// What it begins with.
    begin: String,
    /// What stood before it.
    before: Vec<Piece>,
    lazy: bool,
}

impl Reader<'_> {
    fn item(&mut self, text: String) {
        self.pieces.push(Piece::Item { text, copies: 0 });
    }

    fn begin(&mut self, text: impl Into<String>) {
        let before = std::mem::take(&mut self.pieces);
        self.open.push(Group { begin: text.into(), before, lazy: self.lazy });
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(Group { begin, before, lazy }) = self.open.pop() else {
            return Err(format!("unexpected ): `{}`", self.whole));
        };
        self.lazy = lazy;
        let inside = std::mem::replace(&mut self.pieces, before);
        let copies = inside.iter().map(|piece| if let Piece::Item { copies, .. } = piece { *copies } else { 0 }).max();
        self.pieces
            .push(Piece::Item { text: format!("{begin}{})", joined(&inside)), copies: copies.unwrap_or_default() });
        self.rest = &self.rest[1..];
        Ok(())
    }

    /// Repeats the last item; `rest` is behind the operator already, except for a mark of laziness.
    fn repeat(&mut self, before: &str, last_repeat: Option<&str>, counts: Option<Counts>) -> Result<(), String> {
        let bare = &before[..before.len() - self.rest.len()];
        let is_marked = self.rest.starts_with('?');
        if is_marked {
            self.rest = &self.rest[1..];
        }
        let operator = &before[..before.len() - self.rest.len()];
        if let Some(last) = last_repeat {
            let stacked = &last[..last.len() - self.rest.len()];
            return Err(format!("invalid nested repetition operator: `{stacked}`"));
        }
        let last = self.pieces.iter_mut().rev().find(|piece| !matches!(piece, Piece::Flags(_)));
        let Some(Piece::Item { text, copies }) = last else {
            return Err(format!("missing argument to repetition operator: `{operator}`"));
        };
        if let Some(Counts { least, most }) = counts {
            *copies = match most.unwrap_or(least) {
                0 if most.is_some() => 0,
                0 => *copies,
                times => times * (*copies).max(1),
            };
            if (least >= 2 || most.is_some_and(|most| most >= 2)) && *copies > MOST_COPIES {
                return Err(format!("invalid repeat count: `{operator}`"));
            }
        }
        // The flag counts where the operator stands, which may be behind what it repeats.
        let mark = if is_marked == self.lazy { "" } else { "?" };
        *text = format!("(?:{text}){bare}{mark}");
        Ok(())
    }

    /// `(?flags)`, `(?flags:…)`, `(?P<name>…)` and `(?<name>…)`.
    fn group_with_flags(&mut self) -> Result<(), String> {
        let text = self.rest;
        let name = text.strip_prefix("(?P<").or_else(|| text.strip_prefix("(?<"));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let Some((name, rest)) = name.split_once('>') else {
                return Err(format!("invalid named capture: `{text}`"));
            };
            if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                return Err(format!("invalid named capture: `{}`", &text[..text.len() - rest.len()]));
            }
            self.rest = rest;
            // Names are of no use to those who only match, and Go has more of them.
            self.begin("(");
            return Ok(());
        }
        let mut flags: Vec<(char, bool)> = Vec::new();
        let (mut on, mut says_something) = (true, true);
        for (at, letter) in text.char_indices().skip(2) {
            let behind = at + letter.len_utf8();
            match letter {
                'i' | 'm' | 's' | 'U' => {
                    flags.retain(|(known, _)| *known != letter);
                    flags.push((letter, on));
                    says_something = true;
                }
                '-' if on => (on, says_something) = (false, false),
                ':' | ')' if says_something => {
                    self.rest = &text[behind..];
                    self.set(&flags, letter == ':');
                    return Ok(());
                }
                _ => return Err(format!("invalid or unsupported Perl syntax: `{}`", &text[..behind])),
            }
        }
        Err(format!("invalid or unsupported Perl syntax: `{text}`"))
    }

    fn set(&mut self, flags: &[(char, bool)], begins_group: bool) {
        let lazy = flags.iter().find(|(flag, _)| *flag == 'U').map_or(self.lazy, |(_, on)| *on);
        let others = || flags.iter().filter(|(flag, _)| *flag != 'U');
        let those = |wanted: bool| others().filter(move |(_, on)| *on == wanted).map(|(flag, _)| *flag);
        let mut text: String = those(true).collect();
        if those(false).next().is_some() {
            text.push('-');
            text.extend(those(false));
        }
        match begins_group {
            true => self.begin(format!("(?{text}:")),
            false if text.is_empty() => {}
            false => self.pieces.push(Piece::Flags(format!("(?{text})"))),
        }
        self.lazy = lazy;
    }

    fn escaped(&mut self) -> Result<(), String> {
        let (text, rest) = (self.rest, self.rest.get(2..).unwrap_or_default());
        match text.as_bytes().get(1) {
            Some(b'A') => self.item(r"\A".to_owned()),
            Some(b'z') => self.item(r"\z".to_owned()),
            // Words are made of ASCII letters.
            Some(b'b') => self.item(r"(?-u:\b)".to_owned()),
            Some(b'B') => self.item(r"(?-u:\B)".to_owned()),
            Some(b'Q') => {
                let (quoted, rest) = rest.split_once(r"\E").unwrap_or((rest, ""));
                quoted.chars().for_each(|letter| self.item(letter_text(letter)));
                self.rest = rest;
                return Ok(());
            }
            _ => {
                let (item, rest) = match class::escaped(text)? {
                    Some((members, rest)) => (format!("[{members}]"), rest),
                    None => {
                        let (letter, rest) = escape::letter(text)?;
                        (class::one(letter), rest)
                    }
                };
                self.item(item);
                self.rest = rest;
                return Ok(());
            }
        }
        self.rest = rest;
        Ok(())
    }
}

fn joined(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Item { text, .. } | Piece::Flags(text) => text.clone(),
        Piece::Bar => "|".to_owned(),
    };
    pieces.iter().map(text).collect()
}

/// A letter that stands for itself.
fn letter_text(letter: char) -> String {
    match letter.is_ascii_alphanumeric() {
        true => letter.to_string(),
        false => format!("\\x{{{:X}}}", u32::from(letter)),
    }
}

/// How often something is repeated.
struct Counts {
    least: u64,
    /// None if there is no limit.
    most: Option<u64>,
}

/// Reads `{n}`, `{n,}` or `{n,m}`, and what comes behind; none if the brace stands for itself.
fn counts(text: &str) -> Option<(Result<Counts, String>, &str)> {
    let (least, rest) = number(text.strip_prefix('{')?)?;
    let (most, rest) = match rest.strip_prefix(',') {
        None => (Some(least), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (most, rest) = number(rest)?;
            (Some(most), rest)
        }
    };
    let rest = rest.strip_prefix('}')?;
    let fits = least <= MOST_COPIES && most.is_none_or(|most| (least..=MOST_COPIES).contains(&most));
    let counts = match fits {
        true => Ok(Counts { least, most }),
        false => Err(format!("invalid repeat count: `{}`", &text[..text.len() - rest.len()])),
    };
    Some((counts, rest))
}

/// A number without leading zeros; one that is too large is larger than any that may stand there.
fn number(text: &str) -> Option<(u64, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    match digits {
        "" => None,
        _ if length > 1 && digits.starts_with('0') => None,
        _ => Some((digits.parse().unwrap_or(u64::MAX), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn matches(pattern: &str, yes: &[&str], no: &[&str]) {
        let compiled = compile(pattern).unwrap();
        yes.iter().for_each(|text| assert!(compiled.is_match(text), "{pattern} does not match {text:?}"));
        no.iter().for_each(|text| assert!(!compiled.is_match(text), "{pattern} matches {text:?}"));
    }

    #[track_caller]
    fn refused(pattern: &str, why: &str) {
        assert_eq!(compile(pattern).map(|_| ()), Err(format!("error parsing regexp: {why}")), "{pattern}");
    }

    #[test]
    fn what_is_special_in_a_rust_class_is_a_letter_in_a_go_class() {
        matches(
            r#"^(?i)(x-[^][ ()\\<>@,;:"/?.=\x00-\x1F\x7F]+|application|audio)/[a-z]+$"#,
            &["x-a/b", "APPLICATION/json"],
            &["x-[/b", "x-]/b", "x-/b"],
        );
        matches("^[a[b]$", &["a", "[", "b"], &["]"]);
        matches("^[a&&b]$", &["a", "&", "b"], &["c"]);
        matches("^[ --b]$", &[" ", "#", "-", "b"], &["c"]);
        matches("^[+--]$", &["+", ",", "-"], &["."]);
        matches("^[a~~b]$", &["a", "~", "b"], &["c"]);
        matches("^[]a]$", &["]", "a"], &["b"]);
        matches("^[^]a]$", &["b", "\n"], &["]", "a"]);
        matches("^[a-]$", &["a", "-"], &["b"]);
    }

    #[test]
    fn named_classes_know_ascii_only() {
        matches(r"^\d\w\s$", &["1_\t", "9z "], &["٣_ ", "1é ", "1_\u{a0}", "1_\x0b"]);
        matches(r"^\D\W\S$", &["a-b", "٣é\u{a0}"], &["1-b"]);
        matches(r"^[\d\W]$", &["1", "-", "é"], &["a"]);
        matches(r"^[^\d]$", &["a"], &["1"]);
        matches(r"\bé", &["aé"], &["é", "-é"]);
        matches(r"\Bé", &["é"], &["aé"]);
        matches("^[[:alpha:][:^digit:]]$", &["a", "é"], &["1"]);
        matches("^[[:alpha]$", &["[", ":", "a", "l", "p", "h"], &["b"]);
        matches(r"^\pN\PN\p{^N}\p{greek}$", &["1aaλ"], &["11aλ", "1aaa"]);
        matches(r"(?i)^\w$", &["\u{17f}", "\u{212a}"], &["é"]);
        matches(r"^\p{Cs}|\x{D800}|[\x{D800}]$", &[], &["a", "", "\u{fffd}"]);
        matches(r"^[\x{D7FF}-\x{D801}]$", &["\u{d7ff}"], &["\u{e000}"]);
    }

    #[test]
    fn letters_are_escaped_as_in_go() {
        matches(r"^\Qa.b*\E+$", &["a.b*", "a.b**"], &["axb*", "a.b"]);
        matches(r"\Qa.", &["a."], &["ax"]);
        matches(r"^\101\x41\x{41}\07\_\-\a\v$", &["AAA\u{7}_-\u{7}\u{b}"], &[]);
        matches("^a{,2}b{03}}]$", &["a{,2}b{03}}]"], &["aab"]);
        matches("^[\\t\\n\\x20]# $", &["\t# ", " # "], &["t# "]);
        matches(r"\Aa\z", &["a"], &["a\n", "ba"]);
    }

    #[test]
    fn groups_and_flags_are_those_of_go() {
        matches("^(?P<n>a)(?P<n>b)(?<1>c)$", &["abc"], &[]);
        matches("^a(?i)b$", &["aB"], &["AB"]);
        matches("^(?i-i)a(?)(?ii:b)$", &["aB"], &["AB"]);
        matches("^a(?i)*$", &["", "aa"], &["A"]);
        let found = |pattern: &str| compile(pattern).unwrap().find("aaa").map(|found| found.len());
        assert_eq!(
            (found("(?U)a+"), found("(?U)a+?"), found("(?U:a)+"), found("a(?U)+")),
            (Some(1), Some(3), Some(3), Some(1))
        );
        matches("(?m)^b$", &["a\nb\nc"], &["ab"]);
        matches("^a.b$", &["a.b"], &["a\nb"]);
        matches("(?s)^a.b$", &["a\nb"], &[]);
        matches("^(?:a|b|)$", &["", "a", "b"], &["c"]);
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        refused("a**", "invalid nested repetition operator: `**`");
        refused("x{2}??", "invalid nested repetition operator: `{2}??`");
        refused("(a{1000}){2}", "invalid repeat count: `{2}`");
        refused("a{1001}", "invalid repeat count: `{1001}`");
        refused("a{3,2}", "invalid repeat count: `{3,2}`");
        refused("a|*", "missing argument to repetition operator: `*`");
        refused("[[:foo:]]", "invalid character class range: `[:foo:]`");
        refused("[a--b]", "invalid character class range: `a--`");
        refused("[z-a]", "invalid character class range: `z-a`");
        refused(r"\p{Old_Italic}", r"invalid character class range: `\p{Old_Italic}`");
        refused(r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`");
        refused("[a", "missing closing ]: `[a`");
        refused("a)", "unexpected ): `a)`");
        refused("(a", "missing closing ): `(a`");
        refused(r"\", "trailing backslash at end of expression: ``");
        refused(r"\8", r"invalid escape sequence: `\8`");
        refused(r"\x{110000}", r"invalid escape sequence: `\x{110000`");
        refused("(?x)a", "invalid or unsupported Perl syntax: `(?x`");
        refused("(?-)a", "invalid or unsupported Perl syntax: `(?-)`");
        refused("(?P<a b>c)", "invalid named capture: `(?P<a b>`");
    }
}
