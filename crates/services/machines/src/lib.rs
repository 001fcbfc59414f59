//! `machinist machines`: Machines, MachineSets, MachineDeployments, the control plane's set, health checks and links to
//! nodes.
//!
//! Each controller gathers what it needs, asks a planner of the crate `machine`, applies the answer and reports. The rules
//! are in that crate and in the provider; nothing here decides about machines, and no cloud is named here.

mod capacity;
mod claim;
mod context;
mod control_plane;
mod delete;
mod deployment;
mod expectations;
mod follow;
mod health;
mod index;
mod life;
mod link;
mod metrics;
mod owners;
mod roles;
mod set;
mod settings;
pub mod webhook;
mod world;
mod write;

use std::sync::Arc;
use std::time::Duration;

use ::health::{Health, Readiness};
use cluster::Events;
pub use cluster::leader::End;
use cluster::leader::{self, Election, Leadership};
use kube::Client;
use machine::provider::Provider;
use tokio::task::JoinSet;

use context::Context;
use follow::Controllers;
use metrics::Metrics;
pub use roles::ROLES;
pub use settings::{Orphans, Settings};
use world::World;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot prepare namespace {name}")]
    Namespace {
        name: String,
        #[source]
        source: cluster::connect::Error,
    },
    #[error(transparent)]
    Listen(#[from] ::health::ListenError),
    #[error(transparent)]
    Election(#[from] leader::Error),
}

/// Name of the Lease by which the machine controllers elect their leader.
pub const LEASE: &str = "machine-api-controllers";

/// Runs every controller until `stop` or until another process leads.
pub async fn run(
    client: Client,
    settings: Settings,
    provider: Arc<dyn Provider>,
    stop: impl Future<Output = ()>,
) -> Result<End, Error> {
    let metrics = Arc::new(Metrics::default());
    let rendered = metrics.clone();
    let health = Health::new(move || rendered.render());
    let mut tasks = JoinSet::new();
    health.serve_in(&mut tasks, settings.listen).await?;
    let namespace = settings.namespace.clone();
    let fail = |source| Error::Namespace { name: namespace.clone(), source };
    cluster::ensure_namespace(&client, &namespace).await.map_err(fail)?;

    let leadership = match settings.lease {
        Some(duration) => leader::elect(client.clone(), &election(&settings, duration)).await?,
        None => Leadership::unopposed(),
    };
    let begin = |tasks: &mut JoinSet<()>| {
        tracing::info!(identity = settings.identity, provider = provider.name(), "leading");
        lead(&client, settings, provider, metrics, &health, tasks);
    };
    Ok(leadership.run(tasks, begin, stop).await)
}

fn election(settings: &Settings, duration: Duration) -> Election {
    Election {
        namespace: settings.namespace.clone(),
        lease: LEASE.to_owned(),
        identity: settings.identity.clone(),
        duration,
    }
}

/// Starts the watches and, once they have listed, the controllers.
fn lead(
    client: &Client,
    settings: Settings,
    provider: Arc<dyn Provider>,
    metrics: Arc<Metrics>,
    health: &Health,
    tasks: &mut JoinSet<()>,
) {
    let (world, changes) = World::start(client, tasks);
    metrics.objects_from(&world);
    let namespace = settings.namespace.clone();
    let context = Arc::new(Context::new(world.clone(), settings, provider, metrics));
    let controllers = Arc::new(Controllers::new(context));
    let events = Events::start(client.clone(), LEASE, &namespace);
    let (watched, health) = (world.clone(), health.clone());
    let missing = move |missing: Vec<String>| {
        health.set(if missing.is_empty() { Readiness::Leading } else { Readiness::Hindered(missing) });
    };
    tasks.spawn(cluster::readiness::follow(move || watched.troubles(), missing, events, namespace));
    tasks.spawn(controllers.clone().follow(changes));
    tasks.spawn(async move {
        world.synced().await;
        controllers.run().await;
    });
}
