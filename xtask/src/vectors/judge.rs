//! Judges one case: compares our result with upstream's, after applying the rules that cover the input.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::case::{Answer, Case};
use super::same;

/// Judges one file of vectors.
pub(crate) trait Judge: Sync {
    /// The file's name without extensions.
    fn file(&self) -> &'static str;

    /// Returns our result in the format of the vector's output, or the text of our refusal.
    fn answer(&self, input: &Value) -> Result<Value, String>;

    /// Intended differences.
    fn rules(&self) -> &'static [Rule] {
        &[]
    }

    /// Returns why two outputs differ, if they do. Missing, `null` and `{}` are equal unless overridden.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::difference(expected, ours)
    }

    /// Returns phrases of which our refusal must contain one if upstream refused with this text.
    fn phrases(&self, error: &str) -> Vec<String> {
        same::phrases(error)
    }
}

/// An intended difference: a name, the inputs it covers, and how our result follows from upstream's.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) covers: fn(&Value) -> bool,
    /// Maps the input and the expected result so far to our expected result.
    pub(crate) answer: fn(&Value, Expected) -> Expected,
}

/// The expected result of a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expected {
    Output(Value),
    /// A refusal that contains one of these phrases.
    Refusal(Vec<String>),
    /// A result that a check of the rule accepts, for cases without a usable result of upstream.
    Checked(Check),
}

/// Returns what is wrong with our result for an input, if anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) fn(&Value, &Value) -> Option<String>);

impl PartialEq for Check {
    /// Only used to see whether a rule changed an expectation; two checks for one case do not occur.
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// The outcome for one file.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<String>,
    pub(crate) rules: BTreeMap<&'static str, usize>,
}

pub(crate) fn judge_all(judge: &dyn Judge, cases: &[Case]) -> Tally {
    let mut tally = Tally { rules: judge.rules().iter().map(|rule| (rule.name, 0)).collect(), ..Tally::default() };
    for case in cases {
        let expected = expected(judge, case, &mut tally);
        match failure(judge, case, &expected) {
            None => tally.passed += 1,
            Some(why) => tally.failures.push(format!("{}: {why}", case.name)),
        }
    }
    tally
}

/// Fails unless our result for an input equals upstream's, after the rules that cover the input.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_agrees(judge: &dyn Judge, input: Value, upstream: Result<Value, &str>) {
    let answer = upstream.map_or_else(|error| Answer::Error(error.to_owned()), Answer::Output);
    let tally = judge_all(judge, &[Case { name: "this case".to_owned(), input, answer }]);
    assert_eq!(tally.failures, Vec::<String>::new());
}

/// Returns upstream's result after all rules that cover the input. A rule that changes nothing is not counted.
fn expected(judge: &dyn Judge, case: &Case, tally: &mut Tally) -> Expected {
    let mut expected = match &case.answer {
        Answer::Output(output) => Expected::Output(output.clone()),
        Answer::Error(error) => Expected::Refusal(judge.phrases(error)),
    };
    for rule in judge.rules().iter().filter(|rule| (rule.covers)(&case.input)) {
        let ours = (rule.answer)(&case.input, expected.clone());
        let decided = match (&expected, &ours) {
            (Expected::Output(before), Expected::Output(after)) => judge.difference(before, after).is_some(),
            _ => ours != expected,
        };
        if decided {
            *tally.rules.entry(rule.name).or_default() += 1;
            expected = ours;
        }
    }
    expected
}

fn failure(judge: &dyn Judge, case: &Case, expected: &Expected) -> Option<String> {
    let ours = match catch_unwind(AssertUnwindSafe(|| judge.answer(&case.input))) {
        Ok(ours) => ours,
        Err(_) => return Some("our code panicked".to_owned()),
    };
    match (expected, ours) {
        (Expected::Output(expected), Ok(ours)) => judge.difference(expected, &ours),
        (Expected::Checked(check), Ok(ours)) => (check.0)(&case.input, &ours),
        (Expected::Output(_) | Expected::Checked(_), Err(error)) => {
            Some(format!("refused with {error:?}, expected an answer"))
        }
        (Expected::Refusal(phrases), Err(error)) => {
            let found = phrases.is_empty() || phrases.iter().any(|phrase| error.contains(phrase.as_str()));
            (!found).then(|| format!("refused with {error:?}, expected one of {phrases:?} in it"))
        }
        (Expected::Refusal(phrases), Ok(_)) => Some(format!("answered, expected a refusal with one of {phrases:?}")),
    }
}
