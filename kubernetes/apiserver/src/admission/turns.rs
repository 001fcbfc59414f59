//! Who is asked about a write for the second time.
//!
//! Mutating policies are asked first and mutating webhooks after them. Those that want to know what others made of the
//! object are asked once more, all others are not.

use std::collections::BTreeSet;

use serde_json::Value;

/// The turns of policies, or of webhooks.
#[derive(Default)]
pub(super) struct Turns<Key> {
    is_second: bool,
    /// Who was asked and may be asked again.
    asked: BTreeSet<Key>,
    again: BTreeSet<Key>,
    /// The object as the last turn left it.
    left: Option<Value>,
    /// Whether anything happened that calls for a second turn.
    repeats: bool,
}

impl<Key: Ord> Turns<Key> {
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    pub(super) fn begin_second(&mut self) {
        self.is_second = true;
    }

    /// Begins a turn on an object, which others may have changed since the last one.
    pub(super) fn begin(&mut self, object: Option<&Value>) {
        if self.is_second && self.left.as_ref() != object {
            self.ask_again();
        }
    }

    pub(super) fn end(&mut self, object: Option<&Value>) {
        self.left = object.cloned();
    }

    pub(super) fn passes_over(&self, key: &Key) -> bool {
        self.is_second && !self.again.contains(key)
    }

    /// Notes that the object has changed.
    pub(super) fn changed(&mut self) {
        self.ask_again();
        self.repeats = true;
    }

    /// Notes who wants to be asked again if anything changes.
    pub(super) fn may_ask_again(&mut self, key: Key) {
        self.asked.insert(key);
    }

    fn ask_again(&mut self) {
        self.again.append(&mut self.asked);
    }
}
