//! Checks whether the text of a systemd unit is well formed, with the same result as Ignition.
//!
//! Ignition's parser detects lines that are too long only within the current contents of its read buffer, so the same
//! line is accepted or refused depending on its position. We must neither refuse a unit that boots a node nor accept
//! one that does not, so [`Reader`] has the same window.

/// The length at which systemd cuts lines, according to Ignition.
const LINE_MAX: usize = 2048;

/// The size of the read buffer of Ignition's parser.
const WINDOW: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether there is an option in an `[Install]` section.
    pub(crate) install: bool,
}

/// Returns what is wrong with the text, if anything.
pub(crate) fn check(text: &str) -> Result<Found, &'static str> {
    let mut reader = Reader { text: text.as_bytes(), at: 0, filled: 0 };
    let mut found = Found { install: false };
    let mut section: Option<&[u8]> = None;
    loop {
        reader.check_line()?;
        let Some(first) = reader.rune() else {
            return Ok(found);
        };
        match first {
            b'[' => section = Some(section_name(&mut reader)?),
            b'#' | b';' => comment(&mut reader)?,
            _ if section.is_none() || reader.was_space() => {}
            _ => {
                option(&mut reader)?;
                found.install |= section == Some(b"Install");
            }
        }
    }
}

fn section_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], &'static str> {
    reader.check_line()?;
    let name = reader.until(b']');
    let name = name.strip_suffix(b"]").ok_or("unable to find end of section")?;
    reader.check_line()?;
    if !reader.line().trim_ascii().is_empty() {
        return Err("found garbage after section name");
    }
    Ok(name)
}

fn comment(reader: &mut Reader<'_>) -> Result<(), &'static str> {
    reader.check_line()?;
    loop {
        let line = reader.line();
        if !line.strip_suffix(b" ").unwrap_or(line).ends_with(b"\\") {
            return Ok(());
        }
    }
}

/// Skips `name=value`, whose first character was already consumed.
fn option(reader: &mut Reader<'_>) -> Result<(), &'static str> {
    reader.unread();
    reader.check_line()?;
    loop {
        match reader.rune().ok_or("EOF")? {
            b'\n' | b'\r' => {
                return Err("unexpected newline encountered while parsing option name");
            }
            b'=' => break,
            _ => {}
        }
    }
    loop {
        reader.check_line()?;
        let line = reader.line();
        if line.trim_ascii().is_empty() || !line.ends_with(b"\\") {
            return Ok(());
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The end of the window's contents.
    filled: usize,
}

impl<'a> Reader<'a> {
    /// Returns the first byte of the next character.
    fn rune(&mut self) -> Option<u8> {
        let first = *self.text.get(self.at)?;
        let width = width(first);
        if self.filled < self.at + width {
            self.fill();
        }
        self.at = (self.at + width).min(self.text.len());
        Some(first)
    }

    /// Whether the last character was white space, including Unicode's.
    fn was_space(&self) -> bool {
        let start = self.last_rune();
        std::str::from_utf8(&self.text[start..self.at]).is_ok_and(|text| text.chars().all(char::is_whitespace))
    }

    fn unread(&mut self) {
        self.at = self.last_rune();
    }

    fn last_rune(&self) -> usize {
        let continues = |byte: &u8| byte & 0xC0 == 0x80;
        let head = &self.text[..self.at];
        head.iter().rposition(|byte| !continues(byte)).unwrap_or(0)
    }

    fn line(&mut self) -> &'a [u8] {
        let line = self.until(b'\n');
        line.strip_suffix(b"\n").unwrap_or(line)
    }

    fn until(&mut self, end: u8) -> &'a [u8] {
        let start = self.at;
        loop {
            if let Some(index) = self.text[self.at..self.filled].iter().position(|byte| *byte == end) {
                self.at += index + 1;
                break;
            }
            if self.filled - self.at >= WINDOW {
                self.at = self.filled;
            } else if self.filled == self.text.len() {
                self.at = self.filled;
                break;
            }
            self.fill();
        }
        &self.text[start..self.at]
    }

    fn fill(&mut self) {
        self.filled = self.text.len().min(self.at + WINDOW);
    }

    fn check_line(&self) -> Result<(), &'static str> {
        let head = self.text[self.at..self.filled.max(self.at)].get(..LINE_MAX);
        if head.is_some_and(|head| !head.iter().any(|byte| matches!(byte, b'\r' | b'\n'))) {
            return Err("line too long (max 2048 bytes)");
        }
        Ok(())
    }
}

/// Returns the length in bytes of the character that starts with this byte.
fn width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_units_pass() {
        for text in [
            "",
            "[Unit]\nDescription=x\n",
            "# comment\n[Unit]\nA=b\\\n c\n\n[Install]\nWantedBy=x",
            "garbage before the first section\n[Unit]\n",
            "[Service]\nEnvironment=\n",
            "[Unit]\n# ends with a backslash\\\nstill a comment\nA=b\n",
            "[Unit]\nDescription=ñandú ✓\n",
            "[Unit]\n\u{a0}\nA=b\n",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
        assert_eq!(check("[Install]\nWantedBy=x\n"), Ok(Found { install: true }));
        assert_eq!(check("[Install]\n"), Ok(Found { install: false }));
    }

    #[test]
    fn bad_units_say_why() {
        assert_eq!(check("[Unit"), Err("unable to find end of section"));
        assert_eq!(check("[Unit] x\n"), Err("found garbage after section name"));
        assert_eq!(check("[Unit]\nDescription\n"), Err("unexpected newline encountered while parsing option name"));
        assert_eq!(check("[Unit]\nDescription"), Err("EOF"));
    }

    #[test]
    fn a_long_line_counts_only_inside_the_window() {
        let early = format!("[Unit]\nA={}\n", "x".repeat(3000));
        assert_eq!(check(&early), Err("line too long (max 2048 bytes)"));
        let late = format!("[Unit]\n{}A={}\n", "B=c\n".repeat(700), "x".repeat(3000));
        assert_eq!(check(&late), Ok(Found { install: false }));
    }
}
