//! The intent as it is kept on a Machine, and the token that identifies an attempt.

use api::machine::{Machine, annotation};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Draft;
use crate::provider::Intent;

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

    /// The record with which a provider is asked next.
    pub(super) fn next_try(machine: &Machine, draft: &Draft, now: Timestamp) -> Self {
        match Self::of(machine) {
            Some(record) => Self { tries: record.tries.saturating_add(1), last_try: now, ..record },
            None => Self { intent: Self::intent(machine, draft, 1, now), tries: 1, last_try: now },
        }
    }

    /// The record of the next attempt, after one that the cloud gave up on.
    pub(super) fn next_attempt(machine: &Machine, draft: &Draft, now: Timestamp) -> Self {
        let old = Self::of(machine);
        let (attempt, tries) = old.map_or((1, 1), |old| (old.intent.attempt, old.tries.max(1)));
        Self { intent: Self::intent(machine, draft, attempt.saturating_add(1), now), tries, last_try: now }
    }

    fn intent(machine: &Machine, draft: &Draft, attempt: u32, now: Timestamp) -> Intent {
        let Draft { children, place } = draft.clone();
        Intent { token: token(uid(machine), attempt), attempt, children, place, recorded: now }
    }
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
