//! Ranges and factors of numbers, compared as integers where both sides are.

use serde_json::Number;

use super::values::Checker;
use crate::{
    error::go_float,
    node::{Limits, Node, Types},
    path::Path,
};

pub(super) fn is_integral(value: Option<f64>) -> bool {
    value.is_some_and(|v| v.is_finite() && v.fract() == 0.0)
}

pub(super) fn check(checker: &mut Checker<'_>, node: &Node, limits: Option<&Limits>, number: &Number, path: &Path<'_>) {
    check_range(checker, node, number, path);
    let Some(limits) = limits else { return };
    let float = number.as_f64().unwrap_or(0.0);
    let integer = number.as_i64();
    if let Some(factor) = limits.multiple_of {
        let multiple = match integer {
            Some(value) if factor.fract() == 0.0 && factor >= 1.0 => value % (factor as i64) == 0,
            _ if factor < 1.0 => is_integral(Some(1.0 / factor * float)),
            _ => is_integral(Some(float / factor)),
        };
        if !multiple {
            checker.invalid(path, number.clone(), &format!("should be a multiple of {}", go_float(factor)));
        }
    }
    if let Some(limit) = limits.minimum {
        let below = match integer {
            Some(value) => below(value, limit as i64, limits.exclusive_minimum),
            None => float < limit || (limits.exclusive_minimum && float <= limit),
        };
        if below {
            let than = if limits.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            checker.invalid(path, number.clone(), &format!("should be {than} {}", shown(limit, integer)));
        }
    }
    if let Some(limit) = limits.maximum {
        let above = match integer {
            Some(value) => below(limit as i64, value, limits.exclusive_maximum),
            None => float > limit || (limits.exclusive_maximum && float >= limit),
        };
        if above {
            let than = if limits.exclusive_maximum { "less than" } else { "less than or equal to" };
            checker.invalid(path, number.clone(), &format!("should be {than} {}", shown(limit, integer)));
        }
    }
}

fn below(value: i64, limit: i64, exclusive: bool) -> bool {
    value < limit || (exclusive && value == limit)
}

fn shown(limit: f64, integer: Option<i64>) -> String {
    match integer {
        Some(_) => (limit as i64).to_string(),
        None => go_float(limit),
    }
}

/// The value must fit the number format it claims, whatever the other limits say.
fn check_range(checker: &mut Checker<'_>, node: &Node, number: &Number, path: &Path<'_>) {
    let format = node.format.as_deref().unwrap_or("");
    if node.types == Types::INTEGER {
        let value = number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() < 9.2e18).then_some(float as i64)
        });
        let fits = match (value, format) {
            (Some(value), "int32") => i32::try_from(value).is_ok(),
            (Some(_), _) => true,
            (None, _) => false,
        };
        if !fits {
            let with = match format {
                "int32" | "int64" => format!("with format {format}"),
                _ => "(default format)".to_string(),
            };
            checker.whole(format!("Checked value must be of type integer {with} in {}", path.dotted()));
        }
    } else if node.types == Types::NUMBER && format == "float" {
        let fits = number.as_f64().is_some_and(|v| v.abs() <= f64::from(f32::MAX));
        if !fits {
            checker.whole(format!("Checked value must be of type number with format float in {}", path.dotted()));
        }
    }
}
