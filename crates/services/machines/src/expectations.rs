//! What was just created or deleted and does not show in the watch yet.
//!
//! A plan that is made before it shows would count wrongly, and delete or replace others. Losing this memory costs nothing:
//! a process that starts lists everything first.

use std::collections::HashMap;
use std::time::Duration;

use api::machine::Machine;
use cluster::watch::Key;
use cluster::{Problem, Store, problem};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A watch shows a write within milliseconds. What a watch has not shown that told something else so much later will not
/// show: it came and went. A watch that is silent may be a connection that died, and then nothing is given up.
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

    /// A write failed. One that was refused will not show; one that was not answered may have happened.
    pub(crate) fn failed(&self, by: &Key, machine: &Key, error: &kube::Error) {
        if problem(error) == Problem::Unreachable {
            return;
        }
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
            !shows && machines.heard().is_none_or(|heard| heard < *since + LONGEST)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use cluster::Watch;
    use kube::core::Status;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_given_up_while_the_watch_is_silent() {
        let (expectations, machines) = (Expectations::default(), Watch::<Machine>::default().store());
        let (by, machine) = (Key::in_namespace("ns", "set"), Key::in_namespace("ns", "m"));
        expectations.created(&by, machine.clone());
        tokio::time::advance(LONGEST * 6).await;
        assert_eq!(expectations.open(&by, &machines), Some(AGAIN));
        let unanswered = kube::Error::Api(Status::failure("timeout", "Timeout").with_code(504).boxed());
        expectations.failed(&by, &machine, &unanswered);
        assert_eq!(expectations.open(&by, &machines), Some(AGAIN), "it may have happened");
        let refused = kube::Error::Api(Status::failure("no", "Forbidden").with_code(403).boxed());
        expectations.failed(&by, &machine, &refused);
        assert_eq!(expectations.open(&by, &machines), None);
    }
}
