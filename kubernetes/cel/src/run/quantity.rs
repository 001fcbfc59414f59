//! Quantities as numbers, in the form in which the real server keeps them: what is a whole number depends on it.

use std::cmp::Ordering;

use crate::quantity;

#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    value: i128,
    /// The power of ten of the value.
    scale: i32,
    /// Whether it is kept in 64 bits.
    small: bool,
    /// Whether it was made by adding or subtracting.
    pub(crate) is_result: bool,
}

impl Quantity {
    pub(super) fn parse(text: &str) -> Result<Quantity, &'static str> {
        let (value, scale, small) = quantity::amount(text)?;
        Ok(Quantity { value, scale, small, is_result: false })
    }

    pub(super) fn of(number: i64) -> Quantity {
        Quantity { value: i128::from(number), scale: 0, small: true, is_result: false }
    }

    /// Both values at the scale of the finer one.
    fn aligned(&self, other: &Quantity) -> (i128, i128, i32) {
        let scale = self.scale.min(other.scale);
        let at = |own: &Quantity| own.value.saturating_mul(10_i128.saturating_pow(own.scale.abs_diff(scale)));
        (at(self), at(other), scale)
    }

    pub(crate) fn cmp(&self, other: &Quantity) -> Ordering {
        let (one, two, _) = self.aligned(other);
        one.cmp(&two)
    }

    pub(super) fn add(&self, other: &Quantity) -> Quantity {
        let fits = |value: i128| i64::try_from(value).is_ok();
        // Nothing added to nothing keeps the form of the other.
        let (value, scale) = match (self.value, other.value) {
            (0, value) => (value, other.scale),
            (value, 0) => (value, self.scale),
            _ => {
                let (one, two, scale) = self.aligned(other);
                (one.saturating_add(two), scale)
            }
        };
        Quantity { value, scale, small: self.small && other.small && fits(value), is_result: true }
    }

    pub(super) fn sub(&self, other: &Quantity) -> Quantity {
        self.add(&Quantity { value: -other.value, ..*other })
    }

    pub(super) fn sign(&self) -> i64 {
        i64::try_from(self.value.signum()).unwrap_or(0)
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        if !self.small || self.scale < 0 {
            return None;
        }
        let factor = 10_i128.checked_pow(self.scale.unsigned_abs())?;
        i64::try_from(self.value.checked_mul(factor)?).ok()
    }

    pub(super) fn float(&self) -> f64 {
        let base = self.value as f64;
        if self.scale == 0 { base } else { base * 10_f64.powi(self.scale) }
    }
}
