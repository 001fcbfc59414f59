//! What was just created or deleted and does not show in the watch yet.
//!
//! A plan that is made before it shows would count wrongly, and delete or replace others. Losing this memory costs nothing:
//! a process that starts lists everything first.

use std::collections::HashMap;
use std::time::Duration;

use api::machine::Machine;
use cluster::Store;
use cluster::watch::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

/// A watch shows a write within milliseconds. What has not shown up after this time is not waited for any more.
const LONGEST: Duration = Duration::from_secs(10);

/// How soon to look again; what arrives brings the object back by itself.
const AGAIN: Duration = Duration::from_millis(100);

/// Expected changes of Machines, by the object whose plan caused them.
#[derive(Default)]
pub(crate) struct Expectations(Mutex<HashMap<Key, HashMap<Key, Expected>>>);

struct Expected {
    since: Instant,
    what: What,
}

enum What {
    Creation,
    /// Of the Machine with this uid.
    Deletion(String),
}

impl Expectations {
    pub(crate) fn created(&self, by: &Key, machine: Key) {
        self.add(by, machine, What::Creation);
    }

    pub(crate) fn deleted(&self, by: &Key, machine: Key, uid: &str) {
        self.add(by, machine, What::Deletion(uid.to_owned()));
    }

    fn add(&self, by: &Key, machine: Key, what: What) {
        let expected = Expected { since: Instant::now(), what };
        self.0.lock().entry(by.clone()).or_default().insert(machine, expected);
    }

    /// It will not happen.
    pub(crate) fn met(&self, by: &Key, machine: &Key) {
        if let Some(open) = self.0.lock().get_mut(by) {
            open.remove(machine);
        }
    }

    /// When to look again, if anything does not show yet.
    pub(crate) fn open(&self, by: &Key, machines: &Store<Machine>) -> Option<Duration> {
        let mut all = self.0.lock();
        let open = all.get_mut(by)?;
        open.retain(|key, Expected { since, what }| {
            let machine = machines.get(key);
            let shows = match what {
                What::Creation => machine.is_some(),
                What::Deletion(uid) => machine.is_none_or(|machine| {
                    machine.metadata.uid.as_ref() != Some(uid) || machine.metadata.deletion_timestamp.is_some()
                }),
            };
            !shows && since.elapsed() < LONGEST
        });
        if open.is_empty() {
            all.remove(by);
            return None;
        }
        Some(AGAIN)
    }

    pub(crate) fn forget(&self, by: &Key) {
        self.0.lock().remove(by);
    }
}
