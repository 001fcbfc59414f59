//! `machinist machines`: Machines, MachineSets, MachineDeployments, health checks and links to nodes.
//!
//! Each controller gathers what it needs, asks a planner of the crate `machine`, applies the answer and reports. The rules
//! are in that crate and in the provider; nothing here decides about machines, and no cloud is named here.

mod settings;

use std::net::SocketAddr;
use std::sync::Arc;

pub use cluster::leader::End;
use cluster::leader::{self, Leadership};
use kube::Client;
use machine::provider::Provider;
use tokio::task::JoinSet;

pub use settings::Settings;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot prepare namespace {name}")]
    Namespace {
        name: String,
        #[source]
        source: cluster::connect::Error,
    },
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Election(#[from] leader::Error),
}

/// Runs every controller until `stop` or until another process leads.
pub async fn run(
    client: Client,
    settings: Settings,
    provider: Arc<dyn Provider>,
    stop: impl Future<Output = ()>,
) -> Result<End, Error> {
    let namespace = settings.namespace.clone();
    let fail = |source| Error::Namespace { name: namespace.clone(), source };
    cluster::ensure_namespace(&client, &namespace).await.map_err(fail)?;
    tracing::info!(provider = provider.name(), "starting");
    Ok(Leadership::unopposed().run(JoinSet::new(), |_| {}, stop).await)
}
