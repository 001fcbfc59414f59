//! Servers as the last lookup saw them, so that updating a fleet at rest asks nothing.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::services::wire::Server;

/// Marks that somebody takes away meanwhile are put right one look later.
const KEPT: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<String, (Instant, Server)>>);

impl Memory {
    pub(super) fn remember(&self, server: &Server) {
        let now = Instant::now();
        let mut servers = self.0.lock();
        servers.retain(|_, (since, _)| now.duration_since(*since) < KEPT);
        servers.insert(server.id.clone(), (now, server.clone()));
    }

    pub(super) fn recall(&self, id: &str) -> Option<Server> {
        let servers = self.0.lock();
        let (since, server) = servers.get(id)?;
        (since.elapsed() < KEPT).then(|| server.clone())
    }

    pub(super) fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }
}
