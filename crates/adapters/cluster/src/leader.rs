//! Leader election by a Lease.
//!
//! Leading is a permission to begin, never a proof: a process that was stopped for a minute still believes in its Lease.
//! What must not happen twice is guarded by resource versions where it is written.

use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;

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

/// Takes part from now on; the value tells whether this process leads. It ends with the task when the receiver is dropped.
pub async fn elect(client: Client, election: &Election) -> Result<watch::Receiver<bool>, Error> {
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
    let (leads, _task) = manager.watch().await;
    Ok(leads)
}
