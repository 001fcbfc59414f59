//! Virtual machines as the last lookup saw them, so that updating a fleet at rest asks nothing.

use std::collections::HashMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::lookup::Vm;

/// By uid of the Machine.
#[derive(Default)]
pub(super) struct Seen {
    machines: Mutex<HashMap<String, Vm>>,
    /// Tags that this process has put on a machine.
    tags: Mutex<HashMap<String, Vec<String>>>,
    /// Since when this process has been asked to delete a machine.
    deletions: Mutex<HashMap<String, Timestamp>>,
}

impl Seen {
    pub(super) fn remember(&self, uid: &str, vm: &Vm) {
        self.machines.lock().insert(uid.to_owned(), vm.clone());
    }

    pub(super) fn recall(&self, uid: &str) -> Option<Vm> {
        self.machines.lock().get(uid).cloned()
    }

    pub(super) fn forget(&self, uid: &str) {
        self.machines.lock().remove(uid);
    }

    pub(super) fn has_tags(&self, uid: &str, tags: &[String]) -> bool {
        self.tags.lock().get(uid).is_some_and(|known| known == tags)
    }

    pub(super) fn remember_tags(&self, uid: &str, tags: &[String]) {
        self.tags.lock().insert(uid.to_owned(), tags.to_vec());
    }

    /// Since when a machine is being deleted, which is from now on if nobody asked before.
    pub(super) fn deleting_since(&self, uid: &str, now: Timestamp) -> Timestamp {
        *self.deletions.lock().entry(uid.to_owned()).or_insert(now)
    }

    /// Nobody asks for the machine again.
    pub(super) fn deleted(&self, uid: &str) {
        self.deletions.lock().remove(uid);
    }

    /// The machine is gone.
    pub(super) fn bury(&self, uid: &str) {
        self.forget(uid);
        self.tags.lock().remove(uid);
    }
}
