//! Finds the values that are given to secret-looking names: `name: value`, `name=value`, `"name": "value"`, `--name value`.
//!
//! It reads no syntax in particular. Where a value could end in several places, the last of them counts.

use std::collections::HashMap;
use std::ops::Range;

/// Values are followed so far; what goes on is masked up to here, and looked at anew from here.
const LONGEST: usize = 64 * 1024;

/// Parts of names whose values are secret, without signs and capitals.
const SECRET: [&str; 18] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "keydata",
    "presharedkey",
    "sharedkey",
    "signingkey",
    "encryptionkey",
    "accountkey",
    "storagekey",
    "masterkey",
    "connectionstring",
];

/// Whole names whose values are secret.
const NAMES: [&str; 10] =
    ["auth", "pass", "pwd", "pw", "psk", "sig", "hmac", "authorization", "requirepass", "masterauth"];

/// Ends of names that say something about a secret and are none.
const ABOUT: [&str; 14] = [
    "ttl",
    "timeout",
    "seconds",
    "minutes",
    "hours",
    "days",
    "size",
    "length",
    "count",
    "policy",
    "type",
    "enabled",
    "duration",
    "expiration",
];

/// Ends of names whose values are secret unless they are a path.
const PLACES: [&str; 9] = ["file", "path", "dir", "directory", "config", "location", "socket", "bin", "files"];

/// Words that are not secret whatever they are given to.
const PLAIN: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "null", "none", "~", "<masked>"];

/// Words that follow `password` in PAM and `passwd:` in nsswitch.conf.
const ELSEWHERE: [&str; 12] = [
    "required",
    "requisite",
    "sufficient",
    "optional",
    "include",
    "substack",
    "files",
    "sss",
    "compat",
    "db",
    "systemd",
    "altfiles",
];

/// Where the values of secret-looking names stand.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let scanner = Scanner { text, bytes: text.as_bytes() };
    let (mut places, mut at) = (Vec::new(), 0);
    // Texts of megabytes say the same names again and again.
    let mut judged: HashMap<&str, bool> = HashMap::new();
    while let Some(name) = scanner.name(at) {
        at = name.end;
        let word = &text[name.clone()];
        let is_secret = *judged.entry(word).or_insert_with(|| is_secret(word));
        if let Some(value) = is_secret.then(|| scanner.value(&name)).flatten() {
            at = at.max(value.end);
            places.push(value);
        }
    }
    places
}

fn is_secret(name: &str) -> bool {
    let plain = bare(name);
    let is_about = ABOUT.iter().any(|end| plain.ends_with(end));
    !is_about
        && (SECRET.iter().any(|part| plain.contains(part))
            || NAMES.contains(&plain.as_str())
            || plain.ends_with("psk")
            || has_short_end(name))
}

/// `DB_PASS`, `MYSQL_PWD`: a short word for a password, with a sign before it; `bypass` is none.
fn has_short_end(name: &str) -> bool {
    let end = name.rsplit(['_', '-', '.']).next().unwrap_or_default();
    end.len() < name.len() && (end.eq_ignore_ascii_case("pass") || end.eq_ignore_ascii_case("pwd"))
}

/// A name without signs and capitals.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
}

impl Scanner<'_> {
    /// The next name, from a place on.
    fn name(&self, from: usize) -> Option<Range<usize>> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
        let mut at = from;
        loop {
            let start =
                at + self.bytes.get(at..)?.iter().position(|byte| byte.is_ascii_alphabetic() || *byte == b'_')?;
            let length = self.bytes[start..].iter().position(|byte| !is_part(byte)).unwrap_or(self.bytes.len() - start);
            at = start + length;
            if length > 1 {
                return Some(start..at);
            }
        }
    }

    fn at(&self, place: usize) -> u8 {
        self.bytes.get(place).copied().unwrap_or(b'\n')
    }

    /// The first place that is no space, on the same line.
    fn after_spaces(&self, from: usize) -> usize {
        let spaces = self.bytes.get(from..).unwrap_or_default().iter();
        from + spaces.take_while(|byte| b" \t".contains(byte)).count()
    }

    fn line_end(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |length| from + length)
    }

    fn line_start(&self, of: usize) -> usize {
        self.text[..of].rfind('\n').map_or(0, |place| place + 1)
    }

    /// The value that follows a name, if one does and may be secret.
    fn value(&self, name: &Range<usize>) -> Option<Range<usize>> {
        let quote = Quote::before(self.bytes, name.start).filter(|quote| quote.is_at(self.bytes, name.end));
        let after = quote.map_or(name.end, |quote| name.end + quote.len());
        let sign = self.after_spaces(after);
        let value = match (self.at(sign), self.at(sign + 1)) {
            (b'=', b'=') => None,
            (b'=', b'>') => self.assigned(name, quote, sign, self.after_spaces(sign + 2)),
            (b'=', _) => self.assigned(name, quote, sign, self.after_spaces(sign + 1)),
            (b':', b'=') => self.assigned(name, quote, sign, self.after_spaces(sign + 2)),
            // In unquoted YAML a name ends with a colon and a space; `image:tag` has none.
            (b':', next) if quote.is_some() || next.is_ascii_whitespace() || b"\"'".contains(&next) => {
                self.assigned(name, quote, sign, self.after_spaces(sign + 1))
            }
            _ => self.option(name).or_else(|| if sign > after { self.argument(name, sign) } else { None }),
        }?;
        self.may_be_secret(name, &value).then_some(value)
    }

    fn may_be_secret(&self, name: &Range<usize>, value: &Range<usize>) -> bool {
        let (name, value) = (bare(&self.text[name.clone()]), self.text[value.clone()].trim());
        let is_place = value.starts_with('/') && !value.contains(char::is_whitespace);
        // `${TOKEN:-abc}` has a value of its own.
        let variable = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let is_variable = variable.is_some_and(|name| name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'));
        let first = value.split_whitespace().next().unwrap_or_default();
        let is_elsewhere = matches!(name.as_str(), "password" | "passwd") && ELSEWHERE.contains(&first);
        !(value.is_empty()
            || value == "\\"
            || PLAIN.contains(&value.to_ascii_lowercase().as_str())
            || is_variable
            || is_elsewhere
            || (is_place && PLACES.iter().any(|end| name.ends_with(end))))
    }

    /// A value after `:` or `=`, which begins at `from`.
    fn assigned(&self, name: &Range<usize>, quote: Option<Quote>, sign: usize, from: usize) -> Option<Range<usize>> {
        let colon = self.at(sign) == b':';
        let rest = &self.text[from..];
        for triple in ["\"\"\"", "'''"] {
            if let Some(inner) = rest.strip_prefix(triple) {
                let length = inner.find(triple).unwrap_or(inner.len());
                return Some(from + 3..from + 3 + length);
            }
        }
        if let Some(own) = Quote::after(self.bytes, from) {
            return Some(self.quoted(own, from + own.len()));
        }
        match self.at(from) {
            b'\n' | b'|' | b'>' | b'#' | b'&' | b'\r' if colon => self.block(name, from),
            b'\n' | b'\r' => None,
            open @ (b'[' | b'{') => Some(self.bracketed(open, from + 1)),
            _ => Some(self.bare(name, quote, colon, sign, from)),
        }
    }

    /// Up to the quote that closes; to the end of the line where none does.
    fn quoted(&self, quote: Quote, from: usize) -> Range<usize> {
        let end = self.limit(from);
        let mut at = from;
        while at < end {
            if quote.is_at(self.bytes, at) {
                let doubled = quote == Quote::Single && self.at(at + 1) == b'\'';
                if !doubled {
                    return from..at;
                }
                at += 1;
            } else if self.bytes[at] == b'\\' && quote == Quote::Double {
                at += 1;
            }
            at += 1;
        }
        from..self.line_end(from)
    }

    fn limit(&self, from: usize) -> usize {
        let mut end = self.text.len().min(from + LONGEST);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        end
    }

    fn bracketed(&self, open: u8, from: usize) -> Range<usize> {
        let close = if open == b'[' { b']' } else { b'}' };
        let (mut depth, mut quoted) = (1, None);
        let end = self.limit(from);
        let mut at = from;
        while at < end {
            match (self.bytes[at], quoted) {
                (b'\\', _) => at += 1,
                (byte, Some(quote)) if byte == quote => quoted = None,
                (_, Some(_)) => {}
                (b'"', None) => quoted = Some(b'"'),
                (byte, None) if byte == open => depth += 1,
                (byte, None) if byte == close => depth -= 1,
                (_, None) => {}
            }
            if depth == 0 {
                return from..at;
            }
            at += 1;
        }
        from..end
    }

    /// The lines below a name of YAML that are indented deeper, or are entries of its list.
    fn block(&self, name: &Range<usize>, from: usize) -> Option<Range<usize>> {
        // An empty `authorization:` is a section of settings; the header of that name has a value.
        if bare(&self.text[name.clone()]) == "authorization" {
            return None;
        }
        let head = self.text[from..self.line_end(from)].trim_end();
        let end = self.deeper(name, self.line_end(from), true);
        let start = if head.is_empty() || head.starts_with('#') { self.line_end(from) } else { from };
        (end > start).then_some(start..end)
    }

    /// Where the lines end that belong to the line of a name because they are indented deeper.
    fn deeper(&self, name: &Range<usize>, line_end: usize, with_list: bool) -> usize {
        let indent = name.start - self.line_start(name.start);
        let start = self.line_start(name.start);
        // A list's entry is indented by its dash, a quoted name by its quote.
        let lead = &self.text[start..name.start];
        if !lead.chars().all(|letter| " \t-\"'".contains(letter)) {
            return line_end;
        }
        let indent = indent - lead.chars().filter(|letter| "\"'".contains(*letter)).count();
        let mut end = line_end;
        while end < self.text.len() {
            let next = end + 1;
            let stop = self.line_end(next);
            let line = &self.text[next..stop];
            let depth = line.len() - line.trim_start().len();
            let is_entry = with_list && depth == indent && line.trim_start().starts_with("- ") && !lead.contains('-');
            let is_blank = line.trim().is_empty();
            if !is_blank && depth <= indent && !is_entry {
                break;
            }
            if is_blank && stop >= self.text.len() {
                break;
            }
            end = stop;
        }
        end
    }

    /// A value without quotes.
    fn bare(&self, name: &Range<usize>, quote: Option<Quote>, colon: bool, sign: usize, from: usize) -> Range<usize> {
        let line = &self.text[from..self.line_end(from)];
        if quote.is_some() {
            let length = line.find([',', '}', ']']).unwrap_or(line.len());
            return from..from + line[..length].trim_end().len();
        }
        // `"NAME=value"`: the quote before the name ends the value.
        if let Some(outer) = Quote::before(self.bytes, name.start) {
            return self.quoted(outer, from);
        }
        let lead = self.text[self.line_start(name.start)..name.start].trim_start();
        let is_first = lead.is_empty() || lead == "export " || lead.chars().all(|letter| "-*# ".contains(letter));
        let is_word = !colon && !is_first && sign == name.end && from == sign + 1;
        if is_word {
            return from..from + word(line);
        }
        let mut end = self.line_end(from);
        // A backslash at the end of a line continues it.
        while self.text[from..end].trim_end_matches('\r').ends_with('\\') && end < self.text.len() {
            end = self.line_end(end + 1);
        }
        if colon && is_first {
            end = self.deeper(name, end, false);
        }
        from..from + self.text[from..end].trim_end().len()
    }

    /// A value behind an option: `--token value`, `'--token' \` with `'value'` on the next line, the next entry of a list.
    fn option(&self, name: &Range<usize>) -> Option<Range<usize>> {
        let start = self.text[..name.start].trim_end_matches('-').len();
        let quote = Quote::before(self.bytes, start).filter(|quote| quote.is_at(self.bytes, name.end));
        let after = quote.map_or(name.end, |quote| name.end + quote.len());
        let is_entry = self.text[self.line_start(start)..start].trim_matches([' ', '\t', '"', '\'']) == "-";
        let from = self.next_word(after, quote.is_some(), is_entry);
        let inner = Quote::after(self.bytes, from).map_or(from, |quote| from + quote.len());
        let is_none = b"-|&;#\n\r".contains(&self.at(inner)) || (inner == from && self.at(from) == b'\\');
        if start == name.start || from == after || is_none {
            return None;
        }
        Some(match Quote::after(self.bytes, from) {
            Some(quote) => self.quoted(quote, inner),
            None => from..from + word(&self.text[from..self.line_end(from)]),
        })
    }

    /// Where the next word begins, also behind a backslash at the end of the line, a comma, or the dash of a list's entry.
    fn next_word(&self, from: usize, is_quoted: bool, is_entry: bool) -> usize {
        let rest = &self.text[from..];
        let trimmed = rest.trim_start_matches([' ', '\t']);
        let skipped = if let Some(behind) = trimmed.strip_prefix(',').filter(|_| is_quoted) {
            behind.trim_start()
        } else if let Some(behind) = trimmed.trim_start_matches('\r').strip_prefix('\n').filter(|_| is_entry) {
            behind.trim_start().strip_prefix("- ").unwrap_or(trimmed).trim_start()
        } else {
            let behind = trimmed.strip_prefix("\\\n").or_else(|| trimmed.strip_prefix("\\\r\n"));
            behind.map_or(trimmed, str::trim_start)
        };
        from + rest.len() - skipped.len()
    }

    /// A value after a space: `login me password value`, or a line that begins with the name.
    fn argument(&self, name: &Range<usize>, from: usize) -> Option<Range<usize>> {
        let line_start = self.line_start(name.start);
        let lead = self.text[line_start..name.start].trim_start();
        let word_of_its_own = NAMES.contains(&bare(&self.text[name.clone()]).as_str())
            || matches!(&self.text[name.clone()], "password" | "passwd" | "secret" | "passphrase");
        let is_word = word_of_its_own && (lead.is_empty() || lead.contains("login "));
        let line = &self.text[from..self.line_end(from)];
        if !is_word || line.is_empty() || line.starts_with(['-', '|', '&', ';', '#', '\\']) {
            return None;
        }
        Some(match Quote::after(self.bytes, from) {
            Some(quote) => self.quoted(quote, from + quote.len()),
            None if ELSEWHERE.contains(&&line[..word(line)]) => return None,
            None => from..from + word(line),
        })
    }
}

/// The length of the first word; a backslash keeps the space behind it.
fn word(line: &str) -> usize {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, letter)| {
        let ends = letter.is_whitespace() && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map_or(line.len(), |(place, _)| place)
}

/// A quotation mark as it is written; within a string of JSON it has a backslash before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    Double,
    Single,
    Escaped,
}

impl Quote {
    fn sign(self) -> &'static [u8] {
        match self {
            Self::Double => b"\"",
            Self::Single => b"'",
            Self::Escaped => b"\\\"",
        }
    }

    fn len(self) -> usize {
        self.sign().len()
    }

    fn is_at(self, bytes: &[u8], place: usize) -> bool {
        bytes.get(place..).is_some_and(|rest| rest.starts_with(self.sign()))
    }

    fn before(bytes: &[u8], place: usize) -> Option<Self> {
        let head = &bytes[..place];
        [Self::Escaped, Self::Double, Self::Single].into_iter().find(|quote| head.ends_with(quote.sign()))
    }

    fn after(bytes: &[u8], place: usize) -> Option<Self> {
        [Self::Escaped, Self::Double, Self::Single].into_iter().find(|quote| quote.is_at(bytes, place))
    }
}
