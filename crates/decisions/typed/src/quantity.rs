//! Quantities (`500m`, `10Gi`) in the form Kubernetes prints them, and their value in whole units.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Nothing finer than this power of ten is kept.
const FINEST: i32 = -9;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount that was read from a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quantity {
    text: String,
    /// In billionths.
    nanos: i128,
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

impl Quantity {
    /// Reads a quantity; `None` when the text is none, or larger than anything a host has.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = Parts::of(text)?;
        let (format, power) = format_of(parts.suffix)?;
        let digits: i128 = format!("{}{}", parts.whole, parts.fraction).parse().ok()?;
        let fraction = i32::try_from(parts.fraction.len()).ok()?;
        let (amount, scale) = match format {
            Format::Binary => (digits.checked_mul(1 << power)?, -fraction),
            Format::Decimal | Format::Exponent => (digits, power.checked_sub(fraction)?),
        };
        let nanos = scaled(amount, scale.checked_sub(FINEST)?)?;
        let nanos = if parts.negative { -nanos } else { nanos };
        let text = if parts.stays(format, power, scale, digits) { text.to_owned() } else { write(nanos, format) };
        Some(Self { text, nanos })
    }

    /// Reads a field that may be written as a number as well.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::String(text) => Self::parse(text.trim()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whole units, rounded away from zero as Kubernetes does; what does not fit is the largest number there is.
    pub fn value(&self) -> i64 {
        let one = 10_i128.pow(FINEST.unsigned_abs());
        let (whole, rest) = (self.nanos / one, self.nanos % one);
        let rounded = whole + rest.signum();
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// Whether it has no fraction.
    pub fn is_whole(&self) -> bool {
        self.nanos % 10_i128.pow(FINEST.unsigned_abs()) == 0
    }

    /// Whether its amount is less than one.
    pub fn is_below_one(&self) -> bool {
        self.nanos < 10_i128.pow(FINEST.unsigned_abs())
    }

    /// Whether it is nothing at all.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }
}

impl TryFrom<String> for Quantity {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("it is no quantity")
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.text
    }
}

/// `amount` times ten to the `power`, rounded up where digits are lost.
fn scaled(amount: i128, power: i32) -> Option<i128> {
    let by = 10_i128.checked_pow(power.unsigned_abs());
    match (power < 0, by) {
        (false, Some(by)) => amount.checked_mul(by),
        (false, None) => (amount == 0).then_some(0),
        (true, Some(by)) => Some(amount / by + i128::from(amount % by != 0)),
        (true, None) => Some(i128::from(amount != 0)),
    }
}

/// A text taken apart: sign, digits before and after the point, suffix.
struct Parts<'t> {
    negative: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &'t str| text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let (whole, after) = digits(rest);
        let (fraction, suffix) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        (!whole.is_empty() || !fraction.is_empty()).then_some(Self { negative, whole, fraction, suffix })
    }

    /// Kubernetes keeps the text of most small numbers as it was written.
    fn stays(&self, format: Format, power: i32, scale: i32, digits: i128) -> bool {
        let written = format!("{}{}", self.whole.trim_start_matches('0'), self.fraction);
        if digits == 0 || written.len() > 15 {
            return false;
        }
        match format {
            Format::Binary => self.fraction.is_empty() && power % 10 == 0 && digits & 7 != 0,
            Format::Decimal | Format::Exponent => {
                scale >= FINEST
                    && scale % 3 == 0
                    && !written.ends_with("000")
                    && !self.whole.trim_start_matches('0').is_empty()
            }
        }
    }
}

/// What a suffix means: the format it stands for, and the power of ten or of two.
fn format_of(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, *power));
    }
    if let Some(at) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Format::Binary, i32::try_from(at).ok()? * 10));
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    power.parse().ok().map(|power| (Format::Exponent, power))
}

/// The shortest number with a suffix that loses nothing.
fn write(nanos: i128, format: Format) -> String {
    let one = 10_i128.pow(FINEST.unsigned_abs());
    if nanos == 0 {
        return "0".to_owned();
    }
    if format == Format::Binary && nanos % one == 0 && (nanos / one).abs() >= 1024 {
        let (mut number, mut power) = (nanos / one, 0);
        while number % 1024 == 0 && power + 1 < BINARY.len() {
            number /= 1024;
            power += 1;
        }
        return format!("{number}{}", BINARY[power]);
    }
    let (mut amount, mut scale) = (nanos, FINEST);
    while amount % 1000 == 0 && scale < 18 {
        amount /= 1000;
        scale += 3;
    }
    if format == Format::Exponent && scale != 0 {
        return format!("{amount}e{scale}");
    }
    let suffix = DECIMAL.iter().find(|(_, power)| *power == scale).map_or("", |(name, _)| *name);
    format!("{amount}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_by_kubernetes() {
        for (given, written) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("1.5Gi", "1536Mi"),
            ("1000000", "1M"),
            ("50000", "50k"),
            ("8193", "8193"),
            ("1e3", "1e3"),
            ("-0.25", "-250m"),
            ("-15Mi", "-15Mi"),
            ("8G", "8G"),
            ("16Mi", "16Mi"),
            ("00", "0"),
        ] {
            assert_eq!(Quantity::parse(given).map(|it| it.text).as_deref(), Some(written), "{given}");
        }
        for text in ["", "abc", "1x", "1KiB", "1mk", ".", "-", "1 Gi", "ten"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_round_away_from_zero() {
        for (given, value) in [("0.5Mi", 524_288), ("9k", 9000), ("1.1", 2), ("-1.1", -2), ("999E", i64::MAX)] {
            assert_eq!(Quantity::parse(given).map(|it| it.value()), Some(value), "{given}");
        }
    }
}
