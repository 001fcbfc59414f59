//! Reads `maxUnavailable`: how many nodes of a pool may be down at once.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Why a `maxUnavailable` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error("maxUnavailable: invalid value for IntOrString: invalid type: string is not a percentage: {0:?}")]
    NotAPercentage(String),
    #[error("maxUnavailable: invalid value for IntOrString: invalid value {0:?}: not a whole number before the %")]
    NotANumber(String),
    #[error("maxUnavailable: {0} is negative")]
    Negative(String),
}

/// The number that `maxUnavailable` means for a pool of `nodes` nodes.
///
/// Percentages are rounded down, and what comes out as 0 becomes 1: a pool that shall stand still is paused instead.
pub fn limit(max_unavailable: Option<&IntOrString>, nodes: usize) -> Result<usize, BudgetError> {
    let number = match max_unavailable {
        None => 1,
        Some(IntOrString::Int(number)) => {
            usize::try_from(*number).map_err(|_| BudgetError::Negative(number.to_string()))?
        }
        Some(IntOrString::String(text)) => {
            let digits = text.strip_suffix('%').ok_or_else(|| BudgetError::NotAPercentage(text.clone()))?;
            let percent: i64 = digits.parse().map_err(|_| BudgetError::NotANumber(text.clone()))?;
            let percent = u128::try_from(percent).map_err(|_| BudgetError::Negative(text.clone()))?;
            usize::try_from(percent * nodes as u128 / 100).unwrap_or(usize::MAX)
        }
    };
    Ok(number.max(1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(max_unavailable: IntOrString, nodes: usize, expected: Expect) {
        let answer = limit(Some(&max_unavailable), nodes);
        expected.assert_eq(&answer.map_or_else(|error| error.to_string(), |limit| limit.to_string()));
    }

    #[test]
    fn percentages_round_down_but_never_to_nothing() {
        check(IntOrString::String("50%".into()), 5, expect!["2"]);
        check(IntOrString::String("10%".into()), 5, expect!["1"]);
        check(IntOrString::String("0%".into()), 5, expect!["1"]);
        check(IntOrString::Int(0), 5, expect!["1"]);
        check(IntOrString::String("150%".into()), 4, expect!["6"]);
    }

    #[test]
    fn nonsense_is_refused_with_the_value() {
        check(IntOrString::Int(-3), 5, expect!["maxUnavailable: -3 is negative"]);
        check(IntOrString::String("-5%".into()), 5, expect!["maxUnavailable: -5% is negative"]);
        check(
            IntOrString::String("5".into()),
            5,
            expect![[
                r#"maxUnavailable: invalid value for IntOrString: invalid type: string is not a percentage: "5""#
            ]],
        );
        check(
            IntOrString::String("half%".into()),
            5,
            expect![[
                r#"maxUnavailable: invalid value for IntOrString: invalid value "half%": not a whole number before the %"#
            ]],
        );
    }
}
