//! Quantities (`500m`, `1Gi`) as the real server writes them.
//!
//! Most texts stay as they were written; some are brought into a canonical form, by rules that are the real server's.

mod sums;

use serde_json::Value;

pub use sums::Quantity;

const WRONG: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NUMBER: &str = "unable to parse numeric part of quantity";

/// Nothing finer is kept.
const NANO: i32 = -9;
/// Numbers with more digits than this do not fit into 64 bits.
const DIGITS: i32 = 18;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// The canonical form of a quantity in JSON: a text or a number.
pub fn canonical_value(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => canonical(text.trim()),
        other => canonical(&other.to_string()),
    }
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The form in which a quantity is stored and shown.
///
/// # Errors
/// The text is no quantity; the error is the real server's.
pub fn canonical(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(WRONG);
    }
    if text == "0" {
        return Ok(text.to_owned());
    }
    let parts = Parts::of(text)?;
    let (format, exponent) = interpret(parts.suffix).ok_or(SUFFIX)?;
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let fraction = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let length = i32::try_from(shifted.len()).unwrap_or(i32::MAX);
    // Numbers that fit into 64 bits take the short way, on which most texts stay as they are.
    let room = match format {
        Format::Decimal | Format::Exponent => DIGITS - length,
        Format::Binary if fraction == 0 => 15 - length - exponent * 3 / 10 - 1,
        Format::Binary => -1,
    };
    let scale = if format == Format::Binary { -fraction } else { exponent.saturating_sub(fraction) };
    let digits: i128 = match shifted.parse() {
        Ok(digits) => digits,
        // Nobody means a number of forty digits; it is kept as it is.
        Err(_) if shifted.len() > 38 => return Ok(text.to_owned()),
        Err(_) => return Err(NUMBER),
    };
    let mut amount = match format {
        Format::Binary => match digits.checked_mul(1 << exponent) {
            Some(amount) => amount,
            None => return Ok(text.to_owned()),
        },
        Format::Decimal | Format::Exponent => digits,
    };
    if room >= 0 && scale >= NANO && i64::try_from(amount).is_ok() {
        let stays = match format {
            Format::Binary => exponent % 10 == 0 && digits & 7 != 0,
            _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
        };
        if stays {
            return Ok(text.to_owned());
        }
        return Ok(written(signed(amount, parts.negative), scale, format));
    }
    if !text.strip_suffix(parts.suffix).unwrap_or(text).contains(|c: char| c.is_ascii_digit()) {
        return Err(NUMBER);
    }
    let mut scale = scale;
    if scale < NANO {
        let by = 10_i128.checked_pow(scale.abs_diff(NANO)).unwrap_or(i128::MAX);
        amount = amount / by + i128::from(amount % by != 0);
        scale = NANO;
    }
    let mut format = format;
    if format == Format::Binary {
        let one = 10_i128.pow(scale.unsigned_abs());
        if amount / one > i128::from(i64::MAX) || (amount / one == i128::from(i64::MAX) && amount % one != 0) {
            (amount, scale) = (i128::from(i64::MAX), 0);
        } else if amount > 0 && amount < one {
            format = Format::Decimal;
        }
    }
    Ok(written(signed(amount, parts.negative), scale, format))
}

/// A quantity as a number and its power of ten, and whether the real server keeps it in 64 bits.
///
/// # Errors
/// The text is no quantity; the error is the real server's.
pub fn amount(text: &str) -> Result<(i128, i32, bool), &'static str> {
    if text.is_empty() {
        return Err(WRONG);
    }
    let parts = Parts::of(text)?;
    let (format, exponent) = interpret(parts.suffix).ok_or(SUFFIX)?;
    if !text.strip_suffix(parts.suffix).unwrap_or(text).contains(|c: char| c.is_ascii_digit()) {
        return Err(NUMBER);
    }
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let fraction = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let length = i32::try_from(shifted.len()).unwrap_or(i32::MAX);
    // Nobody means a number of forty digits; the largest there is stands for it.
    let digits: i128 = shifted.parse().unwrap_or(i128::from(i64::MAX));
    let (room, mut scale, mut amount) = match format {
        Format::Decimal | Format::Exponent => (DIGITS - length, exponent.saturating_sub(fraction), digits),
        Format::Binary => {
            let room = if fraction == 0 { 15 - length - exponent * 3 / 10 - 1 } else { -1 };
            (room, -fraction, digits.saturating_mul(1 << exponent))
        }
    };
    if room >= 0 && scale >= NANO && i64::try_from(amount).is_ok() {
        return Ok((signed(amount, parts.negative), scale, true));
    }
    if scale < NANO {
        let by = 10_i128.checked_pow(scale.abs_diff(NANO)).unwrap_or(i128::MAX);
        amount = amount / by + i128::from(amount % by != 0);
        scale = NANO;
    }
    Ok((signed(amount, parts.negative), scale, false))
}

fn signed(amount: i128, negative: bool) -> i128 {
    if negative { -amount } else { amount }
}

/// A text taken apart: sign, digits before and after the point, suffix.
struct Parts<'t> {
    negative: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl Parts<'_> {
    fn of(text: &str) -> Result<Parts<'_>, &'static str> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let rest = rest.trim_start_matches('0');
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
        let number = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if !number.chars().all(|c| c.is_ascii_digit()) {
            return Err(WRONG);
        }
        Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }
}

/// What a suffix means: the format it stands for, and the power of ten or of two.
fn interpret(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, *exponent));
    }
    if let Some(at) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Format::Binary, i32::try_from(at).unwrap_or_default() * 10));
    }
    let number = suffix.strip_prefix(['e', 'E'])?;
    number.parse().ok().map(|exponent| (Format::Exponent, exponent))
}

/// The shortest number with a suffix that loses nothing.
fn written(mut amount: i128, mut scale: i32, mut format: Format) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    if format == Format::Binary {
        match whole(amount, scale).filter(|whole| whole.abs() >= 1024) {
            None => format = Format::Decimal,
            Some(mut number) => {
                let mut power = 0;
                while number % 1024 == 0 {
                    number /= 1024;
                    power += 1;
                }
                return format!("{number}{}", BINARY.get(power).copied().unwrap_or_default());
            }
        }
    }
    while amount % 10 == 0 {
        amount /= 10;
        scale += 1;
    }
    while scale.rem_euclid(3) != 0 {
        amount = amount.saturating_mul(10);
        scale -= 1;
    }
    match (format, scale) {
        (Format::Exponent, 0) => amount.to_string(),
        (Format::Exponent, _) => format!("{amount}e{scale}"),
        _ => {
            let suffix = DECIMAL.iter().find(|(_, exponent)| *exponent == scale).map_or("", |(name, _)| *name);
            format!("{amount}{suffix}")
        }
    }
}

fn whole(amount: i128, scale: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(scale.unsigned_abs())?;
    match scale < 0 {
        true => (amount % power == 0).then_some(amount / power),
        false => amount.checked_mul(power),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_by_the_real_server() {
        for (written, expected) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.1Mi", "104857600m"),
            ("1000000", "1M"),
            ("128974848", "128974848"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("-0.25", "-250m"),
            ("0.0000000001", "1n"),
            ("00", "0"),
            ("1.500", "1.500"),
        ] {
            assert_eq!(canonical(written), Ok(expected.to_owned()), "{written}");
        }
        for (written, error) in [("", WRONG), ("abc", WRONG), ("1x", WRONG), ("1KiB", WRONG), ("1mk", SUFFIX)] {
            assert_eq!(canonical(written), Err(error), "{written}");
        }
    }
}
