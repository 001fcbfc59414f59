//! The pause of a pool: who asked for it, why, and until when. Read here in one place; ending it is decided elsewhere.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::annotations;
use crate::machineconfiguration::MachineConfigPool;
use crate::managed::{self, last_writer};

/// The longest text of a person that is repeated, in characters. It ends up in conditions and tables.
const LONGEST: usize = 200;

/// A pause of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Who asked for it, as the pool's annotation says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The client that wrote `spec.paused`, where the object still has its records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub until: Until,
    /// When `spec.paused` was last written, by the same records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// When a pause ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Never: a person ends it.
    #[default]
    Open,
    At(Timestamp),
    /// Never, because this is no time.
    Unreadable(String),
}

impl Pause {
    /// The pause of a pool; nothing while it is not paused.
    pub fn of(pool: &MachineConfigPool) -> Option<Self> {
        if pool.spec.paused != Some(true) {
            return None;
        }
        let note = |key: &str| {
            let text = pool.metadata.annotations.as_ref()?.get(key)?.trim();
            (!text.is_empty()).then(|| one_line(text))
        };
        let writer = last_writer(&pool.metadata, managed::PAUSED);
        let since = writer.as_ref().and_then(|writer| writer.at);
        Some(Self {
            by: note(annotations::PAUSE_BY),
            writer: writer.map(|writer| writer.manager),
            reason: note(annotations::PAUSE_REASON),
            until: note(annotations::PAUSE_UNTIL).map_or(Until::Open, |text| Until::parse(&text)),
            since,
        })
    }

    /// What its author says about it; nothing where they say nothing.
    pub fn noted(&self) -> Option<String> {
        let said = Self { writer: None, ..self.clone() }.to_string();
        (!said.is_empty()).then_some(said)
    }
}

impl Until {
    fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Unreadable(text.to_owned()), Self::At)
    }

    /// Whether this time has come. What cannot be read never comes.
    pub fn is_over(&self, now: Timestamp) -> bool {
        matches!(self, Self::At(at) if *at <= now)
    }
}

impl fmt::Display for Pause {
    /// Follows "the pool is paused": ` by anna until 2026-11-16T18:00:00Z: a test of the new kernel`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(by) = self.by.as_ref().or(self.writer.as_ref()) {
            write!(f, " by {by}")?;
        }
        if let Until::At(at) = &self.until {
            write!(f, " until {at}")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, ": {reason}")?;
        }
        if let Until::Unreadable(text) = &self.until {
            let key = annotations::PAUSE_UNTIL;
            write!(
                f,
                "; it does not end by itself, because {key} is {text:?} and no time such as 2030-01-31T18:00:00Z"
            )?;
        }
        Ok(())
    }
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn said(paused: bool, notes: Value) -> Option<String> {
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker", "annotations": notes, "managedFields": [{
                "manager": "kubectl-patch", "operation": "Update", "time": "2026-11-16T16:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}}},
            }]},
            "spec": {"paused": paused},
        });
        Pause::of(&serde_json::from_value(pool).unwrap()).map(|pause| format!("paused{pause}"))
    }

    #[test]
    fn a_pause_tells_who_until_when_and_why_as_far_as_it_is_known() {
        assert_eq!(said(true, json!({})).unwrap(), "paused by kubectl-patch");
        let notes = json!({
            "machinist.dev/pause-by": "anna", "machinist.dev/pause-reason": " a test\nof the kernel ",
            "machinist.dev/pause-until": "2026-11-16T20:00:00+02:00",
        });
        assert_eq!(
            said(true, notes.clone()).unwrap(),
            "paused by anna until 2026-11-16T18:00:00Z: a test of the kernel"
        );
        assert_eq!(said(false, notes), None, "leftovers on a pool that is not paused say nothing");
    }

    #[test]
    fn a_time_that_cannot_be_read_is_told_and_never_comes() {
        let words = said(true, json!({"machinist.dev/pause-until": "tomorrow"})).unwrap();
        assert!(words.contains("does not end by itself, because machinist.dev/pause-until is \"tomorrow\""), "{words}");
        for text in ["tomorrow", "2026-11-16", "18:00", "99999-01-01T00:00:00Z", "-1"] {
            assert!(!Until::parse(text).is_over(Timestamp::MAX), "{text}");
        }
        assert!(!Until::Open.is_over(Timestamp::MAX));
        let at = Until::parse("2026-11-16T18:00:00Z");
        assert!(at.is_over("2026-11-16T18:00:00Z".parse().unwrap()));
        assert!(!at.is_over("2026-11-16T17:59:59Z".parse().unwrap()));
    }
}
