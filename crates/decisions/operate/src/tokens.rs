//! Decides when a machine's token that has ended is taken away.
//!
//! It opens nothing any more, but for a while it still says who used it, and a machine that fetched its config with it may
//! still tell how its first boot went.

use api::machinist::BootstrapToken;
use jiff::{SignedDuration, Timestamp};

/// A week: longer than any first boot, and long enough to look into what happened over the weekend.
pub const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It stays; `next` is when it is worth another look.
    Keep {
        next: Option<Timestamp>,
    },
    Delete,
}

pub fn plan(token: &BootstrapToken, now: Timestamp) -> Plan {
    let Some(ended) = end(token) else { return Plan::Keep { next: None } };
    let due = ended.saturating_add(KEPT).unwrap_or(Timestamp::MAX);
    if due <= now { Plan::Delete } else { Plan::Keep { next: Some(due) } }
}

/// When the token opens its pool for the last time, as far as that is known.
fn end(token: &BootstrapToken) -> Option<Timestamp> {
    let expires = token.spec.expires.as_ref().map(|time| time.0);
    let status = token.status.as_ref();
    let is_used_up = token.spec.max_uses.is_some_and(|most| status.is_some_and(|status| status.uses >= most));
    let used_up = status.and_then(|status| status.last_used.as_ref()).filter(|_| is_used_up).map(|time| time.0);
    expires.into_iter().chain(used_up).min()
}

#[cfg(test)]
mod tests {
    use api::machinist::{BootstrapTokenSpec, BootstrapTokenStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-31T00:00:00Z".parse().expect("a time")
    }

    fn ago(hours: i64) -> Option<Time> {
        Some(Time(now() - SignedDuration::from_hours(hours)))
    }

    #[track_caller]
    fn check(expires: Option<Time>, max_uses: Option<i64>, used: (i64, Option<Time>), expected: Plan) {
        let spec = BootstrapTokenSpec { expires, max_uses, ..BootstrapTokenSpec::default() };
        let mut token = BootstrapToken::new("one", spec);
        token.status = Some(BootstrapTokenStatus { uses: used.0, last_used: used.1, ..Default::default() });
        assert_eq!(plan(&token, now()), expected);
    }

    fn keep(hours: i64) -> Plan {
        Plan::Keep { next: Some(now() + SignedDuration::from_hours(hours)) }
    }

    #[test]
    fn a_token_goes_a_week_after_it_expired() {
        check(ago(7 * 24), None, (0, None), Plan::Delete);
        check(ago(7 * 24 - 1), None, (0, None), keep(1));
        check(ago(-24), None, (5, ago(1000)), keep(8 * 24));
    }

    #[test]
    fn a_token_goes_a_week_after_its_last_use() {
        check(None, Some(2), (2, ago(7 * 24)), Plan::Delete);
        check(ago(-9999), Some(2), (2, ago(7 * 24)), Plan::Delete);
        check(None, Some(2), (1, ago(9999)), Plan::Keep { next: None });
    }

    #[test]
    fn a_token_without_an_end_stays() {
        check(None, None, (7, ago(9999)), Plan::Keep { next: None });
    }
}
