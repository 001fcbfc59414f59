//! `data:` URLs (RFC 2397), parsed exactly like the Go library inside Ignition.
//!
//! This must accept and refuse the same URLs as the Ignition on a node. So it follows the grammar of that library,
//! including its oddities, and uses no general URL parser.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Go's standard decoder requires padding but ignores the unused bits before it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("missing data prefix")]
    Prefix,
    #[error("missing comma before data")]
    Comma,
    #[error("invalid media type")]
    MediaType,
    #[error("invalid parameter")]
    Parameter,
    #[error("invalid data character at byte {0}")]
    Character(usize),
    #[error("invalid percent escape")]
    Escape,
    #[error("illegal base64 data")]
    Base64,
}

/// Returns the bytes of a `data:` URL.
pub fn decode(url: &str) -> Result<Vec<u8>, Error> {
    match split(url)? {
        Payload::Escaped(text) => Ok(unescape(text)),
        Payload::Base64(text) if text.contains('\n') => {
            let joined: String = text.split('\n').collect();
            BASE64.decode(joined).map_err(|_| Error::Base64)
        }
        Payload::Base64(text) => BASE64.decode(text).map_err(|_| Error::Base64),
    }
}

/// Returns whether [`decode`] would succeed, without building the bytes.
pub fn check(url: &str) -> Result<(), Error> {
    split(url).map(|_| ())
}

/// Returns the number of bytes that [`decode`] would return for a valid URL; the data itself is not checked again.
pub(crate) fn decoded_len(url: &str) -> Result<usize, Error> {
    let count = |text: &str, wanted: u8| text.bytes().filter(|byte| *byte == wanted).count();
    match head(url)? {
        Payload::Escaped(text) => Ok(text.len().saturating_sub(2 * count(text, b'%'))),
        Payload::Base64(text) => {
            let padding = text.bytes().rev().take_while(|byte| matches!(byte, b'=' | b'\n'));
            let padding = padding.filter(|byte| *byte == b'=').count();
            Ok(((text.len() - count(text, b'\n')) / 4 * 3).saturating_sub(padding))
        }
    }
}

/// Returns a base64 `data:` URL without a media type, which is compact for any content.
pub fn encode(bytes: &[u8]) -> String {
    let mut url = String::from("data:;base64,");
    BASE64.encode_string(bytes, &mut url);
    url
}

/// Returns a percent-escaped `data:` URL, which people can read.
pub fn escape(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut url = String::with_capacity(bytes.len() + 8);
    url.push_str("data:,");
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(byte) {
            url.push(char::from(*byte));
        } else {
            url.push('%');
            url.push(char::from(HEX[usize::from(byte >> 4)]));
            url.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    url
}

/// The part after the comma.
enum Payload<'a> {
    Escaped(&'a str),
    Base64(&'a str),
}

/// Returns the data, checked to be well formed.
fn split(url: &str) -> Result<Payload<'_>, Error> {
    match head(url)? {
        Payload::Escaped(data) => escaped(data, url.len() - data.len()),
        Payload::Base64(data) => base64(data, url.len() - data.len()),
    }
}

/// Checks everything before the comma, and returns the data unchecked.
fn head(url: &str) -> Result<Payload<'_>, Error> {
    let rest = url.strip_prefix("data:").ok_or(Error::Prefix)?;
    let mut rest = media_type(rest)?;
    let mut unquote = false;
    loop {
        if let Some(data) = rest.strip_prefix(',') {
            return Ok(Payload::Escaped(data));
        }
        let parameter = rest.strip_prefix(';').ok_or(if rest.is_empty() { Error::Comma } else { Error::MediaType })?;
        let name = token_len(parameter);
        match parameter.as_bytes().get(name) {
            Some(b',') if &parameter[..name] == "base64" => {
                return Ok(Payload::Base64(&parameter[name + 1..]));
            }
            Some(b'=') if name > 0 => rest = parameter_value(&parameter[name + 1..], &mut unquote)?,
            _ => return Err(Error::Parameter),
        }
    }
}

/// Skips `type/subtype`. The type must be one from RFC 2045, or `x-…`.
fn media_type(rest: &str) -> Result<&str, Error> {
    const KNOWN: [&str; 7] = ["text", "image", "audio", "video", "application", "message", "multipart"];
    if rest.is_empty() {
        return Err(Error::Comma);
    }
    if rest.starts_with([';', ',']) {
        return Ok(rest);
    }
    let end = token_len(rest);
    let kind = &rest[..end];
    let extension = kind.starts_with("x-") || kind.starts_with("X-");
    if end == 0 || !(extension || KNOWN.iter().any(|known| kind.starts_with(known))) {
        return Err(Error::MediaType);
    }
    let subtype = rest[end..].strip_prefix('/').ok_or(Error::MediaType)?;
    let rest = &subtype[token_len(subtype)..];
    match rest.bytes().next() {
        None => Err(Error::Comma),
        Some(b';' | b',') => Ok(rest),
        Some(_) => Err(Error::MediaType),
    }
}

/// Skips the value of a parameter. Values are never used, but an invalid one makes the URL invalid.
///
/// After an empty quoted value the library still unquotes the next value, hence `unquote`.
fn parameter_value<'a>(value: &'a str, unquote: &mut bool) -> Result<&'a str, Error> {
    if let Some(quoted) = value.strip_prefix('"') {
        let end = closing_quote(quoted).ok_or(Error::Parameter)?;
        *unquote = end == 0;
        if !is_go_string(&quoted[..end]) {
            return Err(Error::Parameter);
        }
        return Ok(&quoted[end + 1..]);
    }
    let end = token_len(value);
    let (token, rest) = value.split_at(end);
    let fine = if std::mem::take(unquote) { is_go_string(token) } else { escapes_are_valid(token) };
    match rest.bytes().next() {
        None => Err(Error::Comma),
        Some(b';' | b',') if end > 0 && fine => Ok(rest),
        Some(_) => Err(Error::Parameter),
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(index),
            b'\\' if !bytes.next()?.1.is_ascii() => return None,
            _ if !byte.is_ascii() => return None,
            _ => {}
        }
    }
    None
}

/// Whether Go accepts the text between double quotes.
fn is_go_string(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'\n' | b'"', ..] => return false,
            [b'\\', b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'"', tail @ ..] => tail,
            [b'\\', b'x', tail @ ..] if hex(tail, 2).is_some() => &tail[2..],
            [b'\\', b'u', tail @ ..] if hex(tail, 4).is_some_and(is_scalar) => &tail[4..],
            [b'\\', b'U', tail @ ..] if hex(tail, 8).is_some_and(is_scalar) => &tail[8..],
            [b'\\', b'0'..=b'3', b'0'..=b'7', b'0'..=b'7', tail @ ..] => tail,
            [b'\\', ..] => return false,
            [_, tail @ ..] => tail,
        }
    }
}

fn hex(digits: &[u8], count: usize) -> Option<u32> {
    let digits = digits.get(..count)?;
    digits.iter().try_fold(0u32, |sum, digit| Some(sum << 4 | char::from(*digit).to_digit(16)?))
}

fn is_scalar(code: u32) -> bool {
    char::from_u32(code).is_some()
}

/// Classes of bytes after the comma, for each of the two forms.
const BASE64_DIGIT: u8 = 1;
const URL_CHARACTER: u8 = 2;

/// One lookup per byte: every config is checked completely, and most of it is file contents.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let digit = matches!(byte as u8, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/');
        let refused = matches!(
            byte as u8,
            b' ' | b'<' | b'>' | b'#' | b'"' | b'{' | b'}' | b'|' | b'\\' | b'^' | b'[' | b']' | b'`'
        );
        let visible = byte > 0x1F && byte < 0x7F;
        classes[byte] = (digit as u8) * BASE64_DIGIT + ((visible && !refused) as u8) * URL_CHARACTER;
        byte += 1;
    }
    classes
};

fn is_class(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

fn escaped(data: &str, offset: usize) -> Result<Payload<'_>, Error> {
    if let Some(index) = data.bytes().position(|byte| !is_class(byte, URL_CHARACTER)) {
        return Err(Error::Character(offset + index));
    }
    if !escapes_are_valid(data) {
        return Err(Error::Escape);
    }
    Ok(Payload::Escaped(data))
}

fn base64(data: &str, offset: usize) -> Result<Payload<'_>, Error> {
    // Fast path: nearly all data consists of digits on one line with padding.
    let digits = data.strip_suffix('=').map_or(data, |data| data.strip_suffix('=').unwrap_or(data));
    let classes = digits.bytes().fold(BASE64_DIGIT, |all, byte| all & CLASSES[usize::from(byte)]);
    if classes != 0 && data.len().is_multiple_of(4) {
        return Ok(Payload::Base64(data));
    }
    let (mut digits, mut padding) = (0usize, 0usize);
    for (index, byte) in data.bytes().enumerate() {
        match byte {
            _ if is_class(byte, BASE64_DIGIT) && padding == 0 => digits += 1,
            _ if is_class(byte, BASE64_DIGIT) => return Err(Error::Base64),
            b'=' => padding += 1,
            b'\n' => {}
            _ => return Err(Error::Character(offset + index)),
        }
    }
    if padding > 2 || !(digits + padding).is_multiple_of(4) {
        return Err(Error::Base64);
    }
    Ok(Payload::Base64(data))
}

fn escapes_are_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(index, _)| hex(&bytes[index + 1..], 2).is_some())
}

/// Escapes were checked before.
fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        let code = hex(part, 2).and_then(|code| u8::try_from(code).ok());
        bytes.push(code.unwrap_or_default());
        bytes.extend_from_slice(part.get(2..).unwrap_or_default());
    }
    bytes
}

/// Returns the number of leading bytes that are token characters of RFC 2045.
fn token_len(text: &str) -> usize {
    let token = |byte: &u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(byte);
    text.as_bytes().iter().position(|byte| !token(byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_urls_decode_as_in_go() {
        for (url, expected) in [
            ("data:,", ""),
            ("data:,hello", "hello"),
            ("data:,a%20b", "a b"),
            ("data:;base64,aGk=", "hi"),
            ("data:;base64,aG\nk=", "hi"),
            ("data:;base64,aGl=", "hi"),
            ("data:;base64,", ""),
            ("data:text/plain;charset=utf-8;base64,aGk=", "hi"),
            ("data:text/,x", "x"),
            ("data:textual/x,y", "y"),
            ("data:x-own/thing;a=b,z", "z"),
            ("data:text/plain;a=\"q \\\" r\",z", "z"),
            ("data:,a?b&c=d", "a?b&c=d"),
            ("data:,a+b", "a+b"),
        ] {
            assert_eq!(decode(url).as_deref(), Ok(expected.as_bytes()), "{url}");
            assert_eq!(decoded_len(url), Ok(expected.len()), "{url}");
        }
    }

    #[test]
    fn refused_urls_are_refused_as_in_go() {
        for url in [
            "",
            "data",
            "Data:,x",
            "data:",
            "data:x",
            "data:text,x",
            "data:text/plain",
            "data:font/woff,x",
            "data:;,x",
            "data:;base64;charset=utf-8,aGk=",
            "data:;charset=,x",
            "data:;charset,x",
            "data:,a#b",
            "data:,a b",
            "data:,%zz",
            "data:,%4",
            "data:,é",
            "data:;base64,aGk",
            "data:;base64,aGk==",
            "data:;base64,a-k=",
            "data:;base64,aG\r\nk=",
            "data:;base64,aGk=aGk=",
            "data:;a=\"\\q\",z",
            "http://example.com",
        ] {
            assert!(decode(url).is_err(), "{url}");
            assert!(check(url).is_err(), "{url}");
        }
    }

    #[test]
    fn both_encodings_decode_to_the_original_bytes() {
        for bytes in [&b""[..], b"plain", b"\x00\xff\n %#", "ñandú ✓\n".as_bytes()] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Ok(bytes));
            assert_eq!(decode(&escape(bytes)).as_deref(), Ok(bytes));
        }
        assert_eq!(escape(b"a b\n"), "data:,a%20b%0A");
    }
}
