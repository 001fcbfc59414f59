//! The handshake with the drain controller: empty this node before the first write, and let pods return at the end.

use std::time::Duration;

use cluster::events::Severity;
use protocol::DrainRequest;
use tokio::time::Instant;

use super::report::RETRY;
use super::{Daemon, Next, Problem};
use crate::prepare::Ready;

/// Upstream's patience for a drain before it complains; draining goes on meanwhile.
const DRAIN: Duration = Duration::from_secs(3600);
const UNCORDON: Duration = Duration::from_secs(600);

impl Daemon {
    /// Asks for a drain and waits for it. `None` when writing may begin.
    pub(super) async fn drain(&mut self, ready: &Ready, to: &str) -> Result<Option<Next>, Problem> {
        let view = self.view.clone().unwrap_or_default();
        let wanted = DrainRequest::Drain(to.into()).to_string();
        if !ready.drain || view.topology == "SingleReplica" || view.last_applied_drain == wanted {
            self.waiting_since = None;
            return Ok(None);
        }
        if self.report.desired_drain != wanted {
            self.event(Severity::Normal, "Drain", "Draining node to update config.");
        }
        self.report.desired_drain = wanted;
        let is_told = self.publish().await;
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= DRAIN {
            let name = self.node.name();
            return Err(Problem::degraded(format!(
                "failed to drain node: {name} after 1 hour. Please see machine-config-controller logs for more information"
            )));
        }
        Ok(Some(Next::After(if is_told { DRAIN } else { RETRY })))
    }

    /// Asks for the node to be opened again and waits for it.
    pub(super) async fn release(&mut self, wanted: &str) -> Result<Next, Problem> {
        self.report.post_action.clear();
        wanted.clone_into(&mut self.report.desired_drain);
        let next = self.publish_or_retry().await;
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if self.view.as_ref().is_some_and(|view| view.last_applied_drain == wanted) {
            self.waiting_since = None;
            return Ok(Next::Again);
        }
        if since.elapsed() >= UNCORDON {
            let name = self.node.name();
            return Err(Problem::degraded(format!(
                "failed to uncordon node: {name} after 10 minutes. Please see machine-config-controller logs for more information"
            )));
        }
        Ok(if next == Next::OnChange { Next::After(UNCORDON) } else { next })
    }
}
