//! Leader election with a Lease.
//!
//! Leadership permits a process to start its work, but it proves nothing: a process that was suspended for a minute
//! still believes that it holds the Lease. Writes that must not happen twice are guarded by resource versions.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Shutdown must not hang because the API is unreachable.
const RELEASE: Duration = Duration::from_secs(3);

/// The settings of an election.
#[derive(Clone, Debug)]
pub struct Election {
    pub namespace: String,
    pub lease: String,
    /// Unique among the candidates; usually the name of the pod.
    pub identity: String,
    /// How long the Lease of a leader that vanished stays valid.
    pub duration: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot take part in the election by Lease {namespace}/{lease}")]
pub struct Error {
    namespace: String,
    lease: String,
    #[source]
    source: LeaseManagerError,
}

/// A process's candidacy, or its permission to lead without an election.
pub struct Leadership(Option<Lease>);

struct Lease {
    leads: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

/// Why leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process was asked to stop.
    Stopped,
    /// Another process took the Lease. This process should exit, so that it restarts as a standby with no state in
    /// memory.
    Deposed,
}

/// Starts taking part in the election.
pub async fn elect(client: Client, election: &Election) -> Result<Leadership, Error> {
    let seconds = election.duration.as_secs().max(3);
    let fail = |source| Error { namespace: election.namespace.clone(), lease: election.lease.clone(), source };
    let manager = LeaseManagerBuilder::new(client, &election.lease)
        .with_namespace(&election.namespace)
        .with_identity(&election.identity)
        .with_duration(seconds)
        // Renewing well before the Lease expires tolerates a server that is slow or restarts.
        .with_grace((seconds * 2 / 3).max(1))
        .build()
        .await
        .map_err(fail)?;
    let (leads, task) = manager.watch().await;
    Ok(Leadership(Some(Lease { leads, task })))
}

/// Resumes the panic of a task. Never returns otherwise.
async fn panicked(tasks: &mut JoinSet<()>) -> Infallible {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "a task of this process panicked");
            std::panic::resume_unwind(error.into_panic());
        }
    }
    std::future::pending().await
}

impl Leadership {
    /// Leads immediately and forever, for setups with a single process.
    #[must_use]
    pub fn unopposed() -> Self {
        Self(None)
    }

    /// Waits for leadership, calls `begin` to start the work, and runs until `stop` or until another process leads.
    ///
    /// `tasks` may contain work that does not need leadership. All of it is stopped at the end.
    ///
    /// # Panics
    /// If one of the tasks panics: a leader that does half of its work would keep others from doing all of it.
    pub async fn run(
        mut self,
        mut tasks: JoinSet<()>,
        begin: impl FnOnce(&mut JoinSet<()>),
        stop: impl Future<Output = ()>,
    ) -> End {
        tokio::pin!(stop);
        tokio::select! {
            () = self.won() => {}
            () = &mut stop => {
                self.release().await;
                return End::Stopped;
            }
        }
        begin(&mut tasks);
        tokio::select! {
            () = self.lost() => End::Deposed,
            never = panicked(&mut tasks) => match never {},
            () = &mut stop => {
                // Nothing may be written after the Lease is released.
                tasks.shutdown().await;
                self.release().await;
                End::Stopped
            }
        }
    }

    /// Returns once this process leads.
    async fn won(&mut self) {
        if let Self(Some(lease)) = self {
            let _ = lease.leads.wait_for(|leads| *leads).await;
        }
    }

    /// Returns once this process no longer leads.
    async fn lost(&mut self) {
        match self {
            Self(Some(lease)) => {
                let _ = lease.leads.wait_for(|leads| !*leads).await;
            }
            Self(None) => std::future::pending().await,
        }
    }

    /// Releases the Lease, so that the next leader need not wait until it expires.
    async fn release(self) {
        let Self(Some(lease)) = self else { return };
        drop(lease.leads);
        // Only the waiting is bounded: if the server is unreachable, the Lease expires by itself.
        let _ = tokio::time::timeout(RELEASE, lease.task).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_leader_with_a_panicking_task_stops_leading() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        let begin = |tasks: &mut JoinSet<()>| {
            tasks.spawn(async { panic!("a bug") });
        };
        let led = tokio::spawn(Leadership::unopposed().run(tasks, begin, std::future::pending()));
        let led = tokio::time::timeout(Duration::from_secs(20), led).await;
        assert!(led.is_ok_and(|led| led.is_err_and(|error| error.is_panic())), "it leads on");
    }
}
