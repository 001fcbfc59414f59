//! Durations as Go writes them: `1h30m`, `0.5s`, `300ms`.

use jiff::SignedDuration;

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration such as 5m or 1h30m")]
pub struct NotADuration(pub String);

/// Reads a duration. `0` needs no unit; a sign is accepted as Go does.
pub fn parse(text: &str) -> Result<SignedDuration, NotADuration> {
    let refuse = || NotADuration(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(refuse());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(refuse)?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        total = total.checked_add(nanoseconds(number, unit).ok_or_else(refuse)?).ok_or_else(refuse)?;
        rest = after;
    }
    let total = if negative { -total } else { total };
    let nanoseconds = i64::try_from(total).map_err(|_| refuse())?;
    Ok(SignedDuration::from_nanos(nanoseconds))
}

/// Reads a duration that must not be negative: a timeout that is over before it begins would act on everything at once.
pub fn parse_positive(text: &str) -> Result<SignedDuration, NotADuration> {
    parse(text).and_then(|read| if read.is_negative() { Err(NotADuration(text.to_owned())) } else { Ok(read) })
}

/// One number with its unit. Fractions are exact down to the nanosecond.
fn nanoseconds(number: &str, unit: &str) -> Option<i128> {
    let scale: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: String = fraction.chars().take(18).collect();
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let tenth = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(scale)?.checked_add(part.checked_mul(scale)? / tenth)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let seconds = |text| parse(text).unwrap().as_secs_f64();
        assert!((seconds("1h30m") - 5400.0).abs() < 1e-9);
        assert!((seconds("0.5s") - 0.5).abs() < 1e-9);
        assert!((seconds("300ms") - 0.3).abs() < 1e-9);
        assert!((seconds(".5m") - 30.0).abs() < 1e-9);
        assert!((seconds("0") - 0.0).abs() < 1e-9);
        assert!((seconds("-2s") + 2.0).abs() < 1e-9);
        for nonsense in ["", "5", "5 m", "m", "1.2.3s", "1d", ".s", "9999999999999h"] {
            assert_eq!(parse(nonsense), Err(NotADuration(nonsense.to_owned())), "{nonsense}");
        }
    }
}
