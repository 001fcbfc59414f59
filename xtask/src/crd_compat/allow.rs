//! The list of intended differences, each with its reason.

use std::collections::BTreeMap;

use anyhow::bail;

/// Separates a difference from its reason.
const BECAUSE: &str = " # ";

/// Returns the differences that the list does not allow, and the lines of the list that are no longer a difference.
pub(super) fn judge(list: &str, found: &[String]) -> anyhow::Result<Vec<String>> {
    let allowed = parse(list)?;
    let mut problems: Vec<String> =
        found.iter().filter(|difference| !allowed.contains_key(difference.as_str())).cloned().collect();
    let stale = allowed.iter().filter(|(difference, _)| !found.iter().any(|line| line == *difference));
    problems.extend(stale.map(|(difference, line)| format!("line {line} of the allow-list is stale: {difference}")));
    Ok(problems)
}

/// Returns the differences with their line numbers.
fn parse(list: &str) -> anyhow::Result<BTreeMap<&str, usize>> {
    let mut allowed = BTreeMap::new();
    for (number, line) in (1..).zip(list.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(BECAUSE) {
            Some((difference, reason)) if !reason.trim().is_empty() => {
                allowed.insert(difference.trim_end(), number);
            }
            _ => bail!("line {number} gives no reason; write it after `{}`", BECAUSE.trim_start()),
        }
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_allowed_difference_is_no_problem() {
        assert!(judge("a: b  # because\n", &["a: b".to_owned()]).unwrap().is_empty());
    }

    #[test]
    fn a_difference_that_nobody_allowed_is_named() {
        assert_eq!(judge("# nothing yet\n", &["a: b".to_owned()]).unwrap(), ["a: b"]);
    }

    #[test]
    fn a_line_that_is_no_difference_any_more_is_named() {
        assert_eq!(judge("\na: b # because\n", &[]).unwrap(), ["line 2 of the allow-list is stale: a: b"]);
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert_eq!(judge("a: b\n", &[]).unwrap_err().to_string(), "line 1 gives no reason; write it after `# `");
    }
}
