//! Durations as Go writes them (`1h30m`, `10s`), which is how a kubelet reads them.

use std::fmt::Write;

const SECOND: i64 = 1_000_000_000;
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// Nanoseconds of a duration; `None` when the text is none, or too long for 64 bits.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &after[..end])?;
        total = total.checked_add(amount(whole, fraction, *unit)?)?;
        rest = &after[end..];
    }
    Some(if negative { -total } else { total })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn amount(whole: &str, fraction: &str, unit: i64) -> Option<i64> {
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Finer than a nanosecond is cut off, and no unit has more than thirteen decimal places of them.
    let mut part = 0_i128;
    let mut scale = 1_i128;
    for digit in fraction.bytes().take(18) {
        part = part * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    let part = i64::try_from(part * i128::from(unit) / scale).ok()?;
    whole.checked_mul(unit)?.checked_add(part)
}

/// The text Go writes for a duration, in which equal durations look the same.
pub(crate) fn write(nanoseconds: i64) -> String {
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    if nanoseconds < 0 {
        text.push('-');
    }
    let total = nanoseconds.unsigned_abs();
    let second = SECOND.unsigned_abs();
    if total < second {
        let (unit, name) = match total {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return text + &decimal(total, unit) + name;
    }
    let (hours, rest) = (total / (3600 * second), total % (3600 * second));
    let (minutes, rest) = (rest / (60 * second), rest % (60 * second));
    // Writing to a text cannot fail.
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    text + &decimal(rest, second) + "s"
}

/// `total / unit` with as many decimal places as it needs.
fn decimal(total: u64, unit: u64) -> String {
    let (whole, rest) = (total / unit, total % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let places = unit.ilog10() as usize;
    let fraction = format!("{rest:0places$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (given, written) in [
            ("5m", "5m0s"),
            ("90s", "1m30s"),
            ("4h", "4h0m0s"),
            ("1.5h", "1h30m0s"),
            ("0", "0s"),
            ("0s", "0s"),
            ("-1m", "-1m0s"),
            (".5s", "500ms"),
            ("1m.5s", "1m0.5s"),
            ("1500us", "1.5ms"),
            ("1µs", "1µs"),
            ("7ns", "7ns"),
            ("+3s", "3s"),
        ] {
            assert_eq!(parse(given).map(write).as_deref(), Some(written), "{given}");
        }
    }

    #[test]
    fn what_has_no_unit_or_an_unknown_one_is_no_duration() {
        for text in ["", "soon", "5", "5 m", "1d", "m", ".s", "-", "1h1", "9999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
