//! What became of a typed configuration, in the conditions that users and scripts look at.
//!
//! A status is returned only when it says something new, so that a settled cluster is written no more.

use api::machineconfiguration::{ContainerRuntimeConfigStatus, KubeletConfigStatus, MachineConfigPoolCondition};
use api::names::status::{FALSE, TRUE};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub const ACCEPTED: &str = "Accepted";
pub const SUCCESS: &str = "Success";
pub const FAILURE: &str = "Failure";

/// How many outcomes are remembered.
const HISTORY: usize = 3;

/// What became of one object: accepted, or why not.
pub type Outcome = Result<(), String>;

/// The message of an outcome, in upstream's form.
pub fn message(outcome: &Outcome) -> String {
    match outcome {
        Ok(()) => SUCCESS.to_owned(),
        Err(why) => format!("Error: {why}"),
    }
}

/// Whether the last word about an object was that it is in force.
pub fn succeeded(conditions: &[MachineConfigPoolCondition]) -> bool {
    let last = conditions.iter().rfind(|it| is_ours(it));
    last.is_some_and(|last| last.type_ == SUCCESS || last.type_ == ACCEPTED && last.status == TRUE)
}

/// The status of a KubeletConfig: a short history of `Accepted`, then `Success` or `Failure` as older scripts want it.
pub fn of_kubelet_config(
    current: Option<&KubeletConfigStatus>,
    generation: Option<i64>,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<KubeletConfigStatus> {
    let known = current.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let (known, others): (Vec<_>, Vec<_>) = known.iter().cloned().partition(is_ours);
    let said = message(outcome);
    let is_said = |condition: &MachineConfigPoolCondition| condition.message == said;
    let has_both = known.last().is_some_and(|last| is_said(last) && last.type_ == legacy(outcome))
        && known.iter().rfind(|condition| condition.type_ == ACCEPTED).is_some_and(is_said);
    if has_both && current.and_then(|status| status.observed_generation) == generation {
        return None;
    }
    let mut conditions: Vec<_> = known.iter().filter(|it| it.type_ == ACCEPTED).cloned().collect();
    if !conditions.last().is_some_and(is_said) {
        conditions.push(condition(ACCEPTED, if outcome.is_ok() { TRUE } else { FALSE }, &said, now));
    }
    conditions.drain(..conditions.len().saturating_sub(HISTORY));
    conditions.push(condition(legacy(outcome), TRUE, &said, now));
    Some(KubeletConfigStatus { conditions: [others, conditions].concat(), observed_generation: generation })
}

/// The status of a ContainerRuntimeConfig: a short history of `Success` and `Failure`.
pub fn of_runtime_config(
    current: Option<&ContainerRuntimeConfigStatus>,
    generation: Option<i64>,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<ContainerRuntimeConfigStatus> {
    let said = message(outcome);
    let known = current.map(|status| status.conditions.clone()).unwrap_or_default();
    let (mut conditions, others): (Vec<_>, Vec<_>) = known.into_iter().partition(is_ours);
    let is_said = conditions.last().is_some_and(|last| last.message == said && last.type_ == legacy(outcome));
    if is_said && current.and_then(|status| status.observed_generation) == generation {
        return None;
    }
    if !is_said {
        conditions.push(condition(legacy(outcome), TRUE, &said, now));
    }
    conditions.drain(..conditions.len().saturating_sub(HISTORY));
    Some(ContainerRuntimeConfigStatus { conditions: [others, conditions].concat(), observed_generation: generation })
}

/// Whether a condition is one that this module writes. The list is written whole, so others' are kept in it.
fn is_ours(condition: &MachineConfigPoolCondition) -> bool {
    [ACCEPTED, SUCCESS, FAILURE].contains(&condition.type_.as_str())
}

fn legacy(outcome: &Outcome) -> &'static str {
    if outcome.is_ok() { SUCCESS } else { FAILURE }
}

fn condition(type_: &str, status: &str, message: &str, now: Timestamp) -> MachineConfigPoolCondition {
    MachineConfigPoolCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(Time(now)),
        reason: String::new(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn shown(status: &KubeletConfigStatus) -> String {
        let conditions = status.conditions.iter().map(|it| format!("{}={} {}", it.type_, it.status, it.message));
        format!("{:?}: {}", status.observed_generation, conditions.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn accepted_has_a_history_and_the_older_word_comes_last() {
        let now = Timestamp::UNIX_EPOCH;
        let good = of_kubelet_config(None, Some(1), &Ok(()), now).expect("it is new");
        expect!["Some(1): Accepted=True Success, Success=True Success"].assert_eq(&shown(&good));
        let bad = of_kubelet_config(Some(&good), Some(2), &Err("maxPods".into()), now).expect("it is new");
        expect!["Some(2): Accepted=True Success, Accepted=False Error: maxPods, Failure=True Error: maxPods"]
            .assert_eq(&shown(&bad));
        assert!(succeeded(&good.conditions) && !succeeded(&bad.conditions));
    }

    #[test]
    fn an_outcome_that_was_told_is_not_told_again() {
        let now = Timestamp::UNIX_EPOCH;
        let good = of_kubelet_config(None, Some(1), &Ok(()), now).expect("it is new");
        assert_eq!(of_kubelet_config(Some(&good), Some(1), &Ok(()), now), None);
        assert!(of_kubelet_config(Some(&good), Some(2), &Ok(()), now).is_some(), "the generation is new");
    }

    #[test]
    fn conditions_of_others_stay_and_do_not_count() {
        let now = Timestamp::UNIX_EPOCH;
        let theirs = || condition("Theirs", TRUE, "", now);
        let mut kubelet = of_kubelet_config(None, Some(1), &Ok(()), now).expect("it is new");
        kubelet.conditions.push(theirs());
        assert_eq!(of_kubelet_config(Some(&kubelet), Some(1), &Ok(()), now), None);
        assert!(succeeded(&kubelet.conditions));
        let kubelet = of_kubelet_config(Some(&kubelet), Some(2), &Err("maxPods".into()), now).expect("it is new");
        assert!(kubelet.conditions.contains(&theirs()));
        let mut runtime = of_runtime_config(None, Some(1), &Ok(()), now).expect("it is new");
        runtime.conditions.push(theirs());
        assert_eq!(of_runtime_config(Some(&runtime), Some(1), &Ok(()), now), None);
        for turn in 2..9 {
            let next = of_runtime_config(Some(&runtime), Some(turn), &Err(format!("turn {turn}")), now);
            runtime = next.expect("it is new");
        }
        assert!(runtime.conditions.contains(&theirs()));
    }

    #[test]
    fn histories_do_not_grow() {
        let now = Timestamp::UNIX_EPOCH;
        let (mut kubelet, mut runtime) = (None, None);
        for turn in 0..20 {
            let outcome = if turn % 2 == 0 { Ok(()) } else { Err(format!("turn {turn}")) };
            kubelet = of_kubelet_config(kubelet.as_ref(), Some(turn), &outcome, now);
            runtime = of_runtime_config(runtime.as_ref(), Some(turn), &outcome, now);
        }
        assert_eq!(kubelet.map(|status| status.conditions.len()), Some(HISTORY + 1));
        assert_eq!(runtime.map(|status| status.conditions.len()), Some(HISTORY));
    }
}
