//! `machinist machines`: Machines, MachineSets, MachineDeployments, the control plane's set, health checks and links to
//! nodes.
//!
//! Each controller gathers what it needs, asks a planner of the crate `machine`, applies the answer and reports. The rules
//! are in that crate and in the provider; nothing here decides about machines, and no cloud is named here.

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
mod world;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::health::{Health, Readiness};
use cluster::events::Severity;
pub use cluster::leader::End;
use cluster::leader::{self, Election, Leadership};
use cluster::watch::Trouble;
use cluster::{Events, Problem};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use machine::provider::Provider;
use tokio::task::JoinSet;

use context::Context;
use follow::Controllers;
use metrics::Metrics;
pub use roles::ROLES;
pub use settings::Settings;
use world::World;

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

/// Name of the Lease by which the machine controllers elect their leader.
pub const LEASE: &str = "machine-api-controllers";

/// How often a leader looks at what is missing, for `/readyz`.
const LOOK: Duration = Duration::from_secs(1);

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
    if let Some(address) = settings.listen {
        let (bound, serve) = health.serve(address).await.map_err(|source| Error::Listen { address, source })?;
        tracing::info!(%bound, "serving health and metrics");
        tasks.spawn(serve);
    }
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
    tasks.spawn(report_readiness(world.clone(), health.clone(), events, namespace));
    tasks.spawn(controllers.clone().follow(changes));
    tasks.spawn(async move {
        world.synced().await;
        controllers.run().await;
    });
}

/// Tells by `/readyz`, the log and events which kinds cannot be watched, and what to do about it.
async fn report_readiness(world: World, health: Health, events: Events, namespace: String) {
    let mut said = Vec::new();
    loop {
        let troubles = world.troubles();
        let told: Vec<String> =
            troubles.iter().filter_map(|(kind, trouble)| Some(advise(kind, trouble.as_ref()?))).collect();
        for trouble in told.iter().filter(|trouble| !said.contains(*trouble)) {
            tracing::warn!("{trouble}");
            events.publish::<Namespace>(&namespace, None, Severity::Warning, "CannotWatch", trouble);
        }
        said = told;
        let missing: Vec<String> = troubles
            .iter()
            .map(|(kind, trouble)| match trouble {
                Some(trouble) => advise(kind, trouble),
                None => format!("{kind} are being listed"),
            })
            .collect();
        health.set(if missing.is_empty() { Readiness::Leading } else { Readiness::Hindered(missing) });
        tokio::time::sleep(LOOK).await;
    }
}

fn advise(kind: &str, trouble: &Trouble) -> String {
    let fix = match trouble.problem {
        Problem::NotFound => "; install our kinds with `machinist crds | kubectl apply --server-side -f -`",
        Problem::Forbidden => "; let this process list and watch them with a ClusterRole",
        Problem::Conflict | Problem::TooManyRequests | Problem::Invalid | Problem::Unreachable => "",
    };
    format!("cannot watch {kind}: {}{fix}", trouble.text)
}
