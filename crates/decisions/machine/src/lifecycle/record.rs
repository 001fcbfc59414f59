//! The intent as it is kept on a Machine, and the token that identifies an attempt.

use std::collections::BTreeMap;

use api::machine::{Machine, MachineCondition, annotation, condition as types};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Draft;
use super::validation::provider_spec;
use crate::condition;
use crate::provider::{ErrorKind, Intent};

/// Clocks of two processes may differ by as much without anybody having to do something about it.
const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// What the annotation [`annotation::INSTANCE_INTENT`] holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    #[serde(flatten)]
    pub intent: Intent,
    /// How often the provider was asked, all attempts together. Pauses grow with it.
    #[serde(default)]
    pub tries: u32,
    /// When the provider was last asked, or is about to be.
    pub last_try: Timestamp,
}

impl Record {
    /// The record of this very Machine. One that was copied from another Machine, or cannot be read, is none: the token
    /// follows from the uid, so a lost record is made again with the same token.
    pub fn of(machine: &Machine) -> Option<Self> {
        let text = machine.metadata.annotations.as_ref()?.get(annotation::INSTANCE_INTENT)?;
        let record: Self = serde_json::from_str(text).ok()?;
        (record.intent.token == token(uid(machine), record.intent.attempt)).then_some(record)
    }

    /// Tells how often the provider was asked, in which attempt: another text after every time.
    pub fn count(machine: &Machine) -> Option<String> {
        Self::of(machine).map(|record| format!("{} {}", record.intent.token, record.tries))
    }

    /// The record with the present time, if it says that the provider was asked in the future. Whoever led then had a clock
    /// that is ahead of ours, and pauses that count from such a time would last until it has come.
    pub(super) fn from_the_future(machine: &Machine, now: Timestamp) -> Option<Self> {
        let record = Self::of(machine).filter(|record| record.last_try.duration_since(now) > SKEW)?;
        Some(Self { last_try: now, ..record })
    }

    /// The record with which a provider is asked next.
    pub(super) fn next_try(machine: &Machine, draft: &Draft, now: Timestamp) -> Self {
        match Self::of(machine) {
            Some(Self { intent, tries, last_try: _ }) => {
                let intent = Intent { children: joined(&intent, draft), ..intent };
                Self { intent, tries: tries.saturating_add(1), last_try: now }
            }
            None => Self { intent: Self::intent(machine, draft, 1, now), tries: 1, last_try: now },
        }
    }

    /// The record of the next attempt, after one that the cloud gave up on. What that one made is still to be removed, so
    /// its place and the names of its child resources stay.
    pub(super) fn next_attempt(machine: &Machine, draft: &Draft, now: Timestamp) -> Self {
        let Some(old) = Self::of(machine) else {
            return Self { intent: Self::intent(machine, draft, 2, now), tries: 1, last_try: now };
        };
        let attempt = old.intent.attempt.saturating_add(1);
        let children = joined(&old.intent, draft);
        let place = Some(old.intent.place).filter(|place| !place.is_null()).unwrap_or_else(|| draft.place.clone());
        let intent = Intent { token: token(uid(machine), attempt), attempt, children, place, recorded: now };
        Self { intent, tries: old.tries.max(1), last_try: now }
    }

    /// The record of the next attempt in the place that the spec names now, if that is another one. Only for when nothing is
    /// left in the old place.
    pub(super) fn in_new_place(machine: &Machine, draft: &Draft, now: Timestamp) -> Option<Self> {
        let old = Self::of(machine).filter(|old| old.has_moved(draft))?;
        let intent = Self::intent(machine, draft, old.intent.attempt.saturating_add(1), now);
        Some(Self { intent, ..old })
    }

    /// Whether the spec names another place than the one that was recorded.
    pub(super) fn has_moved(&self, draft: &Draft) -> bool {
        let recorded = &self.intent.place;
        !recorded.is_null() && !draft.place.is_null() && located(recorded) != located(&draft.place)
    }

    fn intent(machine: &Machine, draft: &Draft, attempt: u32, now: Timestamp) -> Intent {
        let Draft { children, place } = draft.clone();
        Intent { token: token(uid(machine), attempt), attempt, children, place, recorded: now }
    }
}

/// The names of a draft, and those of an earlier one that may still be in the cloud. A name that was replaced is kept under
/// a key of its own, where a removal finds it.
fn joined(old: &Intent, draft: &Draft) -> BTreeMap<String, String> {
    let mut children = draft.children.clone();
    for (key, name) in &old.children {
        match children.get(key) {
            None => children.insert(key.clone(), name.clone()),
            Some(other) if other != name => children.insert(format!("{key}@{}", old.attempt), name.clone()),
            Some(_) => None,
        };
    }
    children
}

/// The provider's spec as every call for a Machine gets it.
///
/// The place is the recorded one: a spec that was edited since then would have the provider look where the instance is not.
/// Only the place is left of a spec that the provider refused, or that the Machine has lost, so that its removal does not
/// depend on what is wrong with the rest.
pub fn request_spec(machine: &Machine) -> Option<Value> {
    let place = Record::of(machine).map(|record| record.intent.place).filter(|place| !place.is_null());
    let is_refused = machine.status.as_ref().is_some_and(|status| is_refused(&status.conditions));
    match (provider_spec(machine), place) {
        (Some(spec), None) => Some(spec.clone()),
        (Some(spec), Some(place)) if !is_refused => {
            let mut spec = spec.clone();
            lay(&mut spec, place);
            Some(spec)
        }
        (_, place) => place,
    }
}

fn is_refused(conditions: &[MachineCondition]) -> bool {
    let told = condition::find(conditions, types::INSTANCE_CREATED);
    told.is_some_and(|told| told.reason.as_deref() == Some(&ErrorKind::InvalidSpec.to_string()))
}

/// Members of a place that name Secrets. An account's Secret may be renamed; the instance is where it was.
const SECRETS: [&str; 2] = ["credentialsSecret", "cloudsSecret"];

/// Lays a place upon a spec: objects are joined, all else is replaced. Lists, such as load balancers, are what the instance
/// belongs to and not where it is: like names of Secrets they only fill in what the spec lacks.
fn lay(spec: &mut Value, place: Value) {
    match (spec, place) {
        (Value::Object(members), Value::Object(place)) => {
            for (key, part) in place {
                let is_own = members.get(&key).is_some_and(|own| !own.is_null());
                if !(is_own && (part.is_array() || SECRETS.contains(&key.as_str()))) {
                    lay(members.entry(key).or_insert(Value::Null), part);
                }
            }
        }
        (spec, place) => *spec = place,
    }
}

/// The part of a place that says where an instance is.
fn located(place: &Value) -> Value {
    let Value::Object(members) = place else { return place.clone() };
    let kept = members.iter().filter(|(key, part)| !part.is_array() && !SECRETS.contains(&key.as_str()));
    kept.map(|(key, part)| (key.clone(), located(part))).collect()
}

fn uid(machine: &Machine) -> &str {
    machine.metadata.uid.as_deref().unwrap_or_default()
}

/// The client token of an attempt: a UUID by its looks, because some clouds accept nothing else.
pub fn token(uid: &str, attempt: u32) -> String {
    let digest = Sha256::digest(format!("machinist instance {uid} {attempt}"));
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}
