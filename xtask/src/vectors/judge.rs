//! How one case is judged: upstream's answer, changed by the rules that cover its input, against ours.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::case::{Answer, Case};
use super::same;

/// Judges one file of vectors.
pub(crate) trait Judge: Sync {
    /// The file's name without endings.
    fn file(&self) -> &'static str;

    /// What our code answers, in the shape of the vector's output, or the text of our refusal.
    fn answer(&self, input: &Value) -> Result<Value, String>;

    /// Where we differ on purpose.
    fn rules(&self) -> &'static [Rule] {
        &[]
    }

    /// Why two outputs are not the same, if they are not. Missing, `null` and `{}` are equal unless overridden.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::difference(expected, ours)
    }

    /// The phrases of which one must stand in our refusal when upstream refused with this text.
    fn phrases(&self, error: &str) -> Vec<String> {
        same::phrases(error)
    }
}

/// A difference on purpose: a name, the inputs it covers, and our answer made from upstream's.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) covers: fn(&Value) -> bool,
    /// From the input and what was expected so far to what we answer instead.
    pub(crate) answer: fn(&Value, Expected) -> Expected,
}

/// What a case asks of us.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expected {
    Output(Value),
    /// A refusal that carries one of these phrases.
    Refusal(Vec<String>),
    /// An answer that a check of the rule accepts, where upstream gave none to start from.
    Checked(Check),
}

/// What is wrong with our answer to an input, if anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) fn(&Value, &Value) -> Option<String>);

impl PartialEq for Check {
    /// Only ever compared to see whether a rule changed an expectation; two checks of one case do not occur.
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// How a file went.
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

/// Upstream's answer after every rule that covers the input; a rule that changes nothing has decided nothing.
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
