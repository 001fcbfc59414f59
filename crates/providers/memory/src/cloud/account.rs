//! The account: every instance of the simulated cloud, and every token whose instance is gone.
//!
//! Only bookkeeping: no clock, no file, no machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use machine::provider::{Mark, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One instance.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) provider_id: String,
    pub(crate) mark: Mark,
    /// The token of the creation, or what stands for it on an adopted instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The spec it was made from, in the simulated cloud's own words.
    pub(crate) spec: Value,
    #[serde(default, with = "text", skip_serializing_if = "Vec::is_empty")]
    pub(crate) user_data: Vec<u8>,
    pub(crate) life: Life,
    pub(crate) created: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Life {
    Pending,
    Running,
    /// It was running when it was adopted, and is not ours to start.
    Adopted,
    Deleting,
}

/// One change of the account, as the journal keeps it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Entry {
    Put(Box<Record>),
    Gone {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
}

#[derive(Default)]
pub(crate) struct Account {
    records: BTreeMap<String, Record>,
    by_provider_id: HashMap<String, String>,
    by_token: HashMap<String, String>,
    by_uid: HashMap<String, BTreeSet<String>>,
    /// Tokens whose instance is gone, with its id.
    spent: BTreeMap<String, String>,
    /// The number of the next instance.
    next: u64,
}

impl Account {
    /// The account after these changes.
    pub(crate) fn replay(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut account = Self::default();
        entries.into_iter().for_each(|entry| account.apply(entry));
        account
    }

    pub(crate) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Put(record) => {
                self.count(&record.id);
                self.forget(&record.id);
                self.by_provider_id.insert(record.provider_id.clone(), record.id.clone());
                self.by_token.extend(record.token.clone().map(|token| (token, record.id.clone())));
                self.by_uid.entry(record.mark.uid.clone()).or_default().insert(record.id.clone());
                self.records.insert(record.id.clone(), *record);
            }
            Entry::Gone { id, token } => {
                self.count(&id);
                self.forget(&id);
                self.spent.extend(token.map(|token| (token, id)));
            }
        }
    }

    fn count(&mut self, id: &str) {
        let number = id.strip_prefix("i-").and_then(|number| number.parse::<u64>().ok());
        self.next = self.next.max(number.map_or(0, |number| number + 1));
    }

    fn forget(&mut self, id: &str) {
        let Some(record) = self.records.remove(id) else { return };
        self.by_provider_id.remove(&record.provider_id);
        record.token.iter().for_each(|token| drop(self.by_token.remove(token)));
        if let Some(ids) = self.by_uid.get_mut(&record.mark.uid) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_uid.remove(&record.mark.uid);
            }
        }
    }

    /// The shortest list of changes that leads here.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let gone = self.spent.iter().map(|(token, id)| Entry::Gone { id: id.clone(), token: Some(token.clone()) });
        gone.chain(self.records.values().cloned().map(Box::new).map(Entry::Put))
    }

    pub(crate) fn next_id(&self) -> String {
        format!("i-{:06}", self.next)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Record> {
        self.records.get(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    pub(crate) fn with_provider_id(&self, id: &str) -> Option<&Record> {
        self.records.get(self.by_provider_id.get(id)?)
    }

    pub(crate) fn with_token(&self, token: &str) -> Option<&Record> {
        self.records.get(self.by_token.get(token)?)
    }

    /// The id of the instance that a token once made, if it is gone.
    pub(crate) fn spent(&self, token: &str) -> Option<&str> {
        self.spent.get(token).map(String::as_str)
    }

    /// Every instance of a Machine: by provider id, intent and mark. One that carries another Machine's mark is not its.
    pub(crate) fn of<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Record> {
        let by_id = request.provider_id.as_deref().and_then(|id| self.with_provider_id(id));
        let by_token = request.intent.as_ref().and_then(|intent| self.with_token(&intent.token));
        let by_mark = self.by_uid.get(&request.mark.uid).into_iter().flatten().map(String::as_str);
        let ids: BTreeSet<&str> = by_id.into_iter().chain(by_token).map(|it| it.id.as_str()).chain(by_mark).collect();
        let found = ids.into_iter().filter_map(|id| self.records.get(id));
        found.filter(|record| record.mark.uid == request.mark.uid)
    }
}

/// User data is JSON text almost always; what is not is kept as a list of bytes.
mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Kept {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.serialize(serializer),
            Err(_) => bytes.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Ok(match Kept::deserialize(deserializer)? {
            Kept::Text(text) => text.into_bytes(),
            Kept::Bytes(bytes) => bytes,
        })
    }
}
