//! Domains as the last lookup saw them, so that updating a fleet at rest asks nothing.

use std::collections::HashMap;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::client::Described;

#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<(String, Uuid), Described>>);

impl Seen {
    pub(super) fn remember(&self, uri: &str, domain: &Described) {
        self.0.lock().insert((uri.to_owned(), domain.uuid), domain.clone());
    }

    pub(super) fn recall(&self, uri: &str, uuid: Uuid) -> Option<Described> {
        self.0.lock().get(&(uri.to_owned(), uuid)).cloned()
    }

    pub(super) fn forget(&self, uri: &str, uuid: Uuid) {
        self.0.lock().remove(&(uri.to_owned(), uuid));
    }
}
