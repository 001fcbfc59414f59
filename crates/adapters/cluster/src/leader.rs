//! Leader election by a Lease.
//!
//! Leading is a permission to begin, never a proof: a process that was stopped for a minute still believes in its Lease.
//! What must not happen twice is guarded by resource versions where it is written.

use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

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

/// A process's part in an election.
pub struct Leadership {
    leads: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
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
    Ok(Leadership { leads, task })
}

impl Leadership {
    /// Returns once this process leads.
    pub async fn won(&mut self) {
        let _ = self.leads.wait_for(|leads| *leads).await;
    }

    /// Returns once this process leads no longer.
    pub async fn lost(&mut self) {
        let _ = self.leads.wait_for(|leads| !*leads).await;
    }

    /// Gives the Lease back, so that the next leader need not wait for its end.
    pub async fn release(self) {
        drop(self.leads);
        // Only the wait is bounded: a server that is away frees the Lease by time.
        let _ = tokio::time::timeout(RELEASE, self.task).await;
    }
}
