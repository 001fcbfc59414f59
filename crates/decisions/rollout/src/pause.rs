//! Decides when the pause of a pool ends by itself.
//!
//! Only a time that can be read and was set for this very pause ends it. Anything doubtful is told and leaves the pool
//! paused: a pause that lasts too long costs time, one that ends too soon costs nodes.

use api::machineconfiguration::MachineConfigPool;
use api::pause::{Pause, Until};
use jiff::{SignedDuration, Timestamp};

/// What to do about a pool's pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is not paused, or a person ends it.
    Nothing,
    /// It ends in this time.
    Wait(SignedDuration),
    /// It is over. The sentence tells whose it was.
    End(String),
    /// It does not end as somebody meant it to. The sentence says why.
    Warn(String),
}

/// The next step for a pool's pause.
pub fn plan(pool: &MachineConfigPool, now: Timestamp) -> Step {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let Some(pause) = Pause::of(pool) else { return Step::Nothing };
    match &pause.until {
        Until::Open => Step::Nothing,
        Until::Unreadable(_) => Step::Warn(format!("pool {name} is paused{pause}")),
        Until::At(at) if *at > now => Step::Wait(at.duration_since(now)),
        // A time that was over when the pause began is a leftover of an earlier one.
        Until::At(at) if pause.since.is_some_and(|since| since > *at) => Step::Warn(format!(
            "pool {name} was paused after {at}, the time in {}, so it does not end by itself; set a later time, or end it with `machinist resume {name}`",
            api::annotations::PAUSE_UNTIL
        )),
        Until::At(_) => {
            Step::End(format!("the time of pool {name}'s pause is over, its updates go on: it was paused{pause}"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(until: Option<&str>, now: &str, expected: Expect) {
        let mut pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker", "annotations": {"machinist.dev/pause-by": "anna"}, "managedFields": [{
                "manager": "machinist", "operation": "Update", "time": "2026-11-16T16:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}}},
            }]},
            "spec": {"paused": true},
        });
        if let Some(until) = until {
            pool["metadata"]["annotations"]["machinist.dev/pause-until"] = json!(until);
        }
        expected.assert_eq(&format!("{:?}", plan(&serde_json::from_value(pool).unwrap(), now.parse().unwrap())));
    }

    #[test]
    fn a_pause_ends_at_its_time_and_not_before() {
        check(None, "2030-01-01T00:00:00Z", expect!["Nothing"]);
        check(Some("2026-11-16T18:00:00Z"), "2026-11-16T17:59:00Z", expect!["Wait(1m)"]);
        check(
            Some("2026-11-16T18:00:00Z"),
            "2026-11-16T18:00:00Z",
            expect![[
                r#"End("the time of pool worker's pause is over, its updates go on: it was paused by anna until 2026-11-16T18:00:00Z")"#
            ]],
        );
    }

    #[test]
    fn what_is_no_time_or_a_leftover_is_told_and_ends_nothing() {
        check(
            Some("next week"),
            "2030-01-01T00:00:00Z",
            expect![[
                r#"Warn("pool worker is paused by anna; it does not end by itself, because machinist.dev/pause-until is \"next week\" and no time such as 2030-01-31T18:00:00Z")"#
            ]],
        );
        check(
            Some("2026-11-16T15:00:00Z"),
            "2030-01-01T00:00:00Z",
            expect![[
                r#"Warn("pool worker was paused after 2026-11-16T15:00:00Z, the time in machinist.dev/pause-until, so it does not end by itself; set a later time, or end it with `machinist resume worker`")"#
            ]],
        );
    }
}
