//! Leader election by a Lease.
//!
//! Leading is a permission to begin, never a proof: a process that was stopped for a minute still believes in its Lease.
//! What must not happen twice is guarded by resource versions where it is written.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A process that ends must not hang because the API is away.
const RELEASE: Duration = Duration::from_secs(3);

/// How a process takes part in an election.
#[derive(Clone, Debug)]
pub struct Election {
    pub namespace: String,
    pub lease: String,
    /// Unique among the candidates; a pod's name, usually.
    pub identity: String,
    /// How long a leader that vanished still counts.
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

/// A process's part in an election, or its right to lead without one.
pub struct Leadership(Option<Lease>);

struct Lease {
    leads: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

/// How leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to stop.
    Stopped,
    /// Another process took the Lease. The process ends, so that it starts again as a standby with nothing in memory.
    Deposed,
}

/// Takes part from now on.
pub async fn elect(client: Client, election: &Election) -> Result<Leadership, Error> {
    let seconds = election.duration.as_secs().max(3);
    let fail = |source| Error { namespace: election.namespace.clone(), lease: election.lease.clone(), source };
    let manager = LeaseManagerBuilder::new(client, &election.lease)
        .with_namespace(&election.namespace)
        .with_identity(&election.identity)
        .with_duration(seconds)
        // Renewing well before the end leaves room for a server that is slow or restarts.
        .with_grace((seconds * 2 / 3).max(1))
        .build()
        .await
        .map_err(fail)?;
    let (leads, task) = manager.watch().await;
    Ok(Leadership(Some(Lease { leads, task })))
}

/// Goes on with the panic of a task, if there is one.
async fn panicked(tasks: &mut JoinSet<()>) -> Infallible {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "a part of this process panicked");
            std::panic::resume_unwind(error.into_panic());
        }
    }
    std::future::pending().await
}

impl Leadership {
    /// Leads at once and for ever, where there is nobody to compete with.
    #[must_use]
    pub fn unopposed() -> Self {
        Self(None)
    }

    /// Waits for its turn, lets `begin` start the work, and goes on until `stop` or until another process leads.
    ///
    /// `tasks` may hold work that does not need to lead. All of it ends with this.
    ///
    /// # Panics
    /// When one of the tasks does: a leader that does half of its work would keep others from doing all of it.
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
                // Nothing may be written after the Lease is given back.
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

    /// Returns once this process leads no longer.
    async fn lost(&mut self) {
        match self {
            Self(Some(lease)) => {
                let _ = lease.leads.wait_for(|leads| !*leads).await;
            }
            Self(None) => std::future::pending().await,
        }
    }

    /// Gives the Lease back, so that the next leader need not wait for its end.
    async fn release(self) {
        let Self(Some(lease)) = self else { return };
        drop(lease.leads);
        // Only the wait is bounded: a server that is away frees the Lease by time.
        let _ = tokio::time::timeout(RELEASE, lease.task).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_leader_whose_part_panics_leads_no_longer() {
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
