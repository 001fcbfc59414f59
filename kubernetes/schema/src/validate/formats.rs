//! String formats that the real server knows; any other format says nothing.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::Regex;

use crate::names;

/// Whether the text has the format, or `None` for a format the server does not check.
pub(super) fn validates(format: &str, text: &str) -> Option<bool> {
    Some(match format.replace('-', "").as_str() {
        "datetime" => is_date_time(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "byte" => !text.is_empty() && STANDARD.decode(text.trim_end_matches(['\n', '\r'])).is_ok(),
        "password" => true,
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => matches(&UUID, text),
        "uuid3" => matches(&UUID, text) && version(text) == Some(b'3'),
        "uuid4" => matches(&UUID, text) && version(text) == Some(b'4') && variant(text),
        "uuid5" => matches(&UUID, text) && version(text) == Some(b'5') && variant(text),
        "hexcolor" => matches(&HEX_COLOR, text),
        "rgbcolor" => matches(&RGB_COLOR, text),
        "ssn" => matches(&SSN, text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "k8sshortname" => names::is_label(text).is_empty(),
        "k8slongname" => names::is_subdomain(text).is_empty(),
        _ => return None,
    })
}

static UUID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok());
static HEX_COLOR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])";
    Regex::new(&format!(r"^rgb\(\s*{part}\s*,\s*{part}\s*,\s*{part}\s*\)$")).ok()
});
static SSN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$").ok());

fn matches(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|r| r.is_match(text))
}

/// The digit that carries a UUID's version, in the spelling with or without dashes.
fn version(text: &str) -> Option<u8> {
    text.bytes().filter(|b| *b != b'-').nth(12)
}

fn variant(text: &str) -> bool {
    let digit = text.bytes().filter(|b| *b != b'-').nth(16).map(|b| b.to_ascii_lowercase());
    matches!(digit, Some(b'8' | b'9' | b'a' | b'b'))
}

fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let separated = bytes.len() >= 20 && matches!(bytes[10], b'T' | b't');
    let zoned = text.ends_with(['Z', 'z']) || text[text.len().saturating_sub(6)..].starts_with(['+', '-']);
    separated && zoned && text.is_ascii() && text.to_ascii_uppercase().parse::<jiff::Timestamp>().is_ok()
}

/// A number with a unit, or several of them; more units than Go's own durations.
fn is_duration(text: &str) -> bool {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$").ok());
    static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^((\d+)\s*(ns|nano|nanoseconds?|us|µs|μs|micro|microseconds?|ms|milli|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)\s*)+$").ok()
    });
    text == "0" || matches(&PART, text) || matches(&WORDS, &text.to_lowercase())
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return text.starts_with('/');
    };
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (named || text.starts_with('/')) && !rest.contains([' ', '\u{7f}']) && !rest.chars().any(char::is_control)
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    !local.is_empty()
        && !domain.is_empty()
        && !text.chars().any(|c| c.is_whitespace() || "<>(),;:\\\"[]".contains(c))
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|part| {
            !part.is_empty()
                && part.len() <= 63
                && part.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let Ok(bits) = length.parse::<u8>() else {
        return false;
    };
    let plain = length == bits.to_string();
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => plain && bits <= 32,
        Ok(std::net::IpAddr::V6(_)) => plain && bits <= 128,
        Err(_) => false,
    }
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let digits = parts.len() * width;
        matches!(digits, 12 | 16 | 40)
            && parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter(|c| *c != '-' && *c != ' ').map(|c| c.to_digit(10).unwrap_or(99)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let mut values = digits(text);
    if values.len() == 10 && text.ends_with(['X', 'x']) {
        values[9] = 10;
    }
    let sum: u32 = values.iter().zip(1..).map(|(value, at)| value * at).sum();
    values.len() == 10 && values[..9].iter().all(|v| *v < 10) && values[9] <= 10 && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let values = digits(text);
    let sum: u32 = values.iter().enumerate().map(|(at, v)| if at % 2 == 0 { *v } else { v * 3 }).sum();
    values.len() == 13 && values.iter().all(|v| *v < 10) && sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let values = digits(text);
    let double = |v: u32| if v > 4 { v * 2 - 9 } else { v * 2 };
    let sum: u32 = values.iter().rev().enumerate().map(|(at, v)| if at % 2 == 1 { double(*v) } else { *v }).sum();
    (12..=19).contains(&values.len()) && values.iter().all(|v| *v < 10) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(validates(format, text), Some(true), "{format} {text}");
        }
        for text in bad {
            assert_eq!(validates(format, text), Some(false), "{format} {text}");
        }
    }

    #[test]
    fn formats_accept_and_refuse() {
        check("date-time", &["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123+02:00"], &["2026-01-02", "x", ""]);
        check("date", &["2026-01-02"], &["2026-13-02", "2026-1-2", ""]);
        check("duration", &["5m", "1h30m", "2.5s", "0", "3 days"], &["", "x", "5", "m"]);
        check("byte", &["aGk="], &["", "a", "###"]);
        check("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "256.0.0.1"]);
        check("ipv6", &["::1"], &["10.0.0.1", "x"]);
        check("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]);
        check("mac", &["00:11:22:33:44:55"], &["00:11:22:33:44", "zz:11:22:33:44:55"]);
        check("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123"]);
        check("email", &["a@b.example"], &["a", "@b", "a b@c"]);
        check("hostname", &["a.example", "a"], &["", "-a", "a..b"]);
        check("uri", &["https://a.example/x", "/relative"], &["no scheme", ""]);
        assert_eq!(validates("no-such-format", "x"), None);
    }
}
