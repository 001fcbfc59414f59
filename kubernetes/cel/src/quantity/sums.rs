//! Quantities that are added and compared, and written as the real server writes them afterwards.

use std::{cmp::Ordering, fmt};

use super::{Format, NANO, amount, interpret, written};

/// A quantity as it was written, or as a calculation made it.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: i128,
    /// The power of ten of the amount.
    scale: i32,
    format: Format,
    /// Of one that nobody calculated with: as it was written.
    text: Option<Box<str>>,
}

impl Quantity {
    /// Reads a quantity that is in the form in which it is stored.
    ///
    /// # Errors
    /// The text is no quantity; the error is the real server's.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (amount, scale, _) = amount(text)?;
        let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
        let format = interpret(suffix).map_or(Format::Decimal, |(format, _)| format);
        let mut quantity = Self { amount, scale, format, text: Some(text.into()) };
        if format == Format::Binary && quantity.is_positive() && quantity < Self::of(1) {
            quantity.format = Format::Decimal;
        }
        Ok(quantity)
    }

    #[must_use]
    pub fn of(number: i64) -> Self {
        Self { amount: number.into(), scale: 0, format: Format::Decimal, text: None }
    }

    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.amount == 0
    }

    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.amount > 0
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (one, two, scale) = self.aligned(other);
        // Nothing has no form of its own.
        let format = if self.is_zero() { other.format } else { self.format };
        Self { amount: one.saturating_add(two), scale, format, text: None }
    }

    /// What is left, at least nothing.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        let (one, two, scale) = self.aligned(other);
        let format = if self.is_zero() { other.format } else { self.format };
        Self { amount: one.saturating_sub(two).max(0), scale, format, text: None }
    }

    /// In units of a power of ten, rounded up.
    #[must_use]
    pub fn in_units(&self, power: i32) -> i64 {
        let factor = 10_i128.saturating_pow(self.scale.abs_diff(power));
        let units = match self.scale < power {
            true => self.amount.div_euclid(factor) + i128::from(self.amount.rem_euclid(factor) != 0),
            false => self.amount.saturating_mul(factor),
        };
        i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
    }

    /// Rounded up to a whole number; one that is whole stays as it was written.
    #[must_use]
    pub fn whole(self) -> Self {
        self.rounded(0)
    }

    /// Rounded up to a power of ten; what is no finer stays as it was written.
    #[must_use]
    pub fn rounded(self, power: i32) -> Self {
        if self.scale >= power {
            return self;
        }
        let rounded = Self { amount: self.in_units(power).into(), scale: power, format: self.format, text: None };
        if rounded == self { self } else { rounded }
    }

    /// Both amounts at the scale of the finer one.
    fn aligned(&self, other: &Self) -> (i128, i128, i32) {
        let scale = self.scale.min(other.scale).max(NANO);
        let at = |own: &Self| own.amount.saturating_mul(10_i128.saturating_pow(own.scale.abs_diff(scale)));
        (at(self), at(other), scale)
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two, _) = self.aligned(other);
        one.cmp(&two)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => out.write_str(text),
            None => out.write_str(&written(self.amount, self.scale, self.format)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn sums_are_written_in_the_form_of_the_first() {
        for (one, two, sum) in [
            ("0", "1Gi", "1Gi"),
            ("1Gi", "1Gi", "2Gi"),
            ("1Gi", "500M", "1573741824"),
            ("500M", "1Gi", "1573741824"),
            ("512Mi", "512Mi", "1Gi"),
            ("500m", "500m", "1"),
            ("1", "250m", "1250m"),
            ("1e3", "1k", "2e3"),
            ("100m", "0", "100m"),
            ("999", "1", "1k"),
            ("0.5Ki", "512", "1Ki"),
        ] {
            assert_eq!(read(one).plus(&read(two)).to_string(), sum, "{one} + {two}");
        }
    }

    #[test]
    fn what_nobody_calculated_with_stays_as_it_was_written() {
        assert_eq!(read("1.500").to_string(), "1.500");
        assert_eq!(read("2Gi").whole().to_string(), "2Gi");
        assert_eq!(read("1.500").plus(&Quantity::of(0)).to_string(), "1500m");
    }

    #[test]
    fn differences_end_at_nothing_and_orders_are_of_amounts() {
        assert_eq!(read("1Gi").less(&read("512Mi")).to_string(), "512Mi");
        assert_eq!(read("1").less(&read("2")).to_string(), "0");
        assert!(read("1Gi") > read("1G") && read("1000m") == read("1") && read("999u") < read("1m"));
    }

    #[test]
    fn units_are_rounded_up() {
        assert_eq!([0, -3].map(|power| read("1500m").in_units(power)), [2, 1500]);
        assert_eq!([0, -3].map(|power| read("100n").in_units(power)), [1, 1]);
        assert_eq!([0, -3].map(|power| read("2Ki").in_units(power)), [2048, 2_048_000]);
        assert_eq!(read("1.5").whole().to_string(), "2");
        assert_eq!(["99999u", "1m", "2Gi"].map(|text| read(text).rounded(-3).to_string()), ["100m", "1m", "2Gi"]);
        assert_eq!(read("9223372036854775807").in_units(-3), i64::MAX);
    }
}
