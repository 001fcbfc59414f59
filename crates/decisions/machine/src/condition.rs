//! Conditions of machine kinds: how they are set, and how they are found.
//!
//! The rule follows upstream: the transition time moves when status, reason, severity or message change, it is cut to whole
//! seconds, and the list is sorted by type.

use api::machine::MachineCondition;
use api::names::status;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A condition that is true and has nothing to add.
pub fn is_true(type_: &str) -> MachineCondition {
    MachineCondition { type_: type_.to_owned(), status: status::TRUE.to_owned(), ..MachineCondition::default() }
}

/// A condition that is false, with what follows from it.
pub fn is_false(type_: &str, severity: &str, reason: &str, message: impl Into<String>) -> MachineCondition {
    MachineCondition {
        type_: type_.to_owned(),
        status: status::FALSE.to_owned(),
        severity: Some(severity.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.into()),
        last_transition_time: None,
    }
}

/// A condition that nobody can answer just now.
pub fn is_unknown(type_: &str, reason: &str, message: impl Into<String>) -> MachineCondition {
    MachineCondition {
        type_: type_.to_owned(),
        status: status::UNKNOWN.to_owned(),
        severity: None,
        reason: Some(reason.to_owned()),
        message: Some(message.into()),
        last_transition_time: None,
    }
}

/// Puts a condition into a list that is sorted by type. Says whether anything changed.
pub fn set(conditions: &mut Vec<MachineCondition>, mut condition: MachineCondition, now: Timestamp) -> bool {
    let old = conditions.iter().position(|other| other.type_ == condition.type_);
    let same = |other: &MachineCondition| {
        let MachineCondition { last_transition_time: _, message, reason, severity, status, type_: _ } = other;
        *message == condition.message
            && *reason == condition.reason
            && *severity == condition.severity
            && *status == condition.status
    };
    if old.is_some_and(|index| same(&conditions[index])) {
        return false;
    }
    condition.last_transition_time.get_or_insert(whole_seconds(now));
    match old {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    true
}

/// Takes a condition out. Says whether it was there.
pub fn clear(conditions: &mut Vec<MachineCondition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() < before
}

pub fn find<'a>(conditions: &'a [MachineCondition], type_: &str) -> Option<&'a MachineCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition is there and true.
pub fn holds(conditions: &[MachineCondition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status::TRUE)
}

/// The time as objects carry it.
pub fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_message_and_not_without_a_change() {
        let [early, late] = ["2026-03-01T12:00:00.7Z", "2026-03-01T13:00:00Z"].map(|time| time.parse().unwrap());
        let mut conditions = vec![is_true("Z")];
        assert!(set(&mut conditions, is_false("A", "Warning", "R", "one"), early));
        assert_eq!(conditions[0].last_transition_time, Some(Time("2026-03-01T12:00:00Z".parse().unwrap())));
        assert!(!set(&mut conditions, is_false("A", "Warning", "R", "one"), late));
        assert_eq!(conditions[0].last_transition_time, Some(whole_seconds(early)));
        assert!(set(&mut conditions, is_false("A", "Warning", "R", "two"), late));
        assert_eq!(conditions[0].last_transition_time, Some(whole_seconds(late)));
        assert!(clear(&mut conditions, "A") && !clear(&mut conditions, "A"));
    }
}
