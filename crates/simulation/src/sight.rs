//! A controller's store of an optional kind: etcd pods, DaemonSets, disruption budgets, the pods of a node.
//!
//! The service starts once these are listed or their list has failed. A failed list is a reading that is unknown, and a
//! broken watch is one that grows old: planners see both, as [`Reading`]s.

use api::known::Reading;
use jiff::{SignedDuration, Timestamp};

/// The store of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight<T> {
    records: T,
    state: State,
    /// When the watch last told anything.
    heard: Timestamp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Following,
    /// The first list failed and is being retried.
    Unlisted,
    /// The watch broke and is being retried.
    Broken,
}

impl<T: Clone + Default> Sight<T> {
    /// A store that was just started.
    pub(crate) fn start(state: State) -> Self {
        Self { records: T::default(), state, heard: Timestamp::UNIX_EPOCH }
    }

    /// Updates the records if the watch works.
    pub(crate) fn follow(&mut self, now: Timestamp, truth: impl FnOnce() -> T) {
        if self.state == State::Following {
            self.heard = now;
            self.records = truth();
        }
    }

    /// The contents of the store, right or wrong.
    pub(crate) fn records(&self) -> &T {
        &self.records
    }

    /// When the watch last told anything.
    pub(crate) fn heard(&self) -> Timestamp {
        self.heard
    }

    /// What a reader is told whose clock may be wrong. Silence is measured by a clock that nobody can set, as in the service.
    pub(crate) fn reading_at(&self, now: Timestamp, clock: SignedDuration) -> Reading<T> {
        match self.reading() {
            Reading::Known { value, as_of } => Reading::known(value, now + clock - now.duration_since(as_of)),
            other @ (Reading::NotInstalled | Reading::Unknown(_)) => other,
        }
    }

    /// What the store's reader is told.
    pub(crate) fn reading(&self) -> Reading<T> {
        match self.state {
            State::Unlisted => Reading::Unknown("the list failed".to_owned()),
            State::Following | State::Broken => Reading::known(self.records.clone(), self.heard),
        }
    }

    pub(crate) fn lose(&mut self) {
        if self.state == State::Following {
            self.state = State::Broken;
        }
    }

    pub(crate) fn mend(&mut self) {
        self.state = State::Following;
    }

    /// Why the contents may be wrong.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        match self.state {
            State::Following => None,
            State::Unlisted => Some("their list had failed"),
            State::Broken => Some("their watch had broken"),
        }
    }
}
