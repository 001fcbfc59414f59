//! Drift: what changes on the host by other hands, seen by file events and told, or mended where the policy says so.

use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use cluster::events::Severity;
use host::watch::Watch;
use tokio::io::unix::AsyncFd;

use super::{Daemon, Problem, now};
use crate::engine;
use crate::store::{self, Store};
use crate::verify::Mismatch;
use crate::{repair, verify};

/// File events come in bursts: an editor truncates, writes and renames. Still well within a second.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(250);

/// The safe constructor is deprecated for types whose descriptor may change while it is registered; a `Watch` keeps its own.
#[allow(deprecated)]
pub(super) fn register(watch: Watch) -> Option<AsyncFd<Watch>> {
    AsyncFd::new(watch).ok()
}

/// Returns when a followed path may have changed.
pub(super) async fn file_event(watched: &mut Option<AsyncFd<Watch>>) {
    let Some(watch) = watched else { return std::future::pending().await };
    loop {
        let Ok(mut ready) = watch.readable_mut().await else { return std::future::pending().await };
        let matters = ready.get_inner_mut().drain();
        ready.clear_ready();
        if matters {
            return;
        }
    }
}

impl Daemon {
    /// Watches the paths of the config the host runs now.
    pub(super) async fn follow(&mut self, current: &str) {
        if self.followed == current || self.watched.is_none() {
            return;
        }
        let paths = self.blocking(|host| {
            let config = Store::new(host.files()).current()?.unwrap_or_default();
            let mut paths = verify::watched_paths(host, &engine::read(&config)?);
            // Whoever puts the force file there does not want to wait for the next retry.
            paths.push(store::known(store::FORCE));
            Ok::<_, engine::Error>(paths)
        });
        let (Ok(paths), Some(watched)) = (paths.await, self.watched.as_mut()) else { return };
        match watched.get_mut().follow(paths) {
            Ok(()) => current.clone_into(&mut self.followed),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "files cannot be watched for drift")
            }
        }
    }

    /// Compares the host with its config. Drift is mended where the policy says so, else it is the problem.
    pub(super) async fn compare(&mut self, current: &str, started: bool) -> Result<Option<Problem>, Problem> {
        let found = self.blocking(|host| {
            let config = Store::new(host.files()).current()?.unwrap_or_default();
            let target = engine::read(&config)?;
            Ok::<_, engine::Error>((verify::verify(host, &target), config))
        });
        let (mismatches, config) = found.await?;
        if mismatches.is_empty() {
            self.options.metrics.set_drift(0);
            return Ok(None);
        }
        self.options.metrics.set_drift(now());
        let details: Vec<&str> = mismatches.iter().filter_map(|mismatch| mismatch.detail.as_deref()).collect();
        tracing::warn!(config = current, details = details.join("\n"), "drift: {}", verify::list(&mismatches));
        // Without an answer nothing is written over: what differs is reported, and looked at again.
        let policy = self.policy(&config).await.unwrap_or_default();
        let mismatches = if policy.repairs_drift() { self.mend(mismatches, config).await? } else { mismatches };
        if mismatches.is_empty() {
            self.options.metrics.set_drift(0);
            return Ok(None);
        }
        let mut reason = verify::sentence(current, &mismatches);
        if started && !self.finalize_failure.is_empty() {
            reason = format!("{reason}; possible root cause: {}", self.finalize_failure);
        }
        self.event(Severity::Warning, "ConfigDriftDetected", &reason);
        Ok(Some(Problem::degraded(reason)))
    }

    /// Writes files, units and users again, and returns what still differs: an image, a kernel argument or a package comes
    /// back only with a reboot, which is not drift's to ask for.
    async fn mend(&self, found: Vec<Mismatch>, config: MachineConfig) -> Result<Vec<Mismatch>, Problem> {
        let left = self.blocking(move |host| {
            repair::repair(host, &config)?;
            Ok::<_, engine::Error>(verify::verify(host, &engine::read(&config)?))
        });
        let left = left.await?;
        let mended: Vec<Mismatch> = found.into_iter().filter(|mismatch| !left.contains(mismatch)).collect();
        if !mended.is_empty() {
            self.event(Severity::Warning, "ConfigDriftRepaired", &verify::list(&mended));
        }
        Ok(left)
    }
}
