//! `machinist operator`: makes what a cluster needs to run Machinist, keeps it so, and says how it is.
//!
//! It gathers, asks `operate` what should be, writes exactly that and reports. A hand-edited or deleted object is put
//! back when its watch tells; while the operator's own Deployment is scaled to 0 nothing is written at all.

mod approve;
mod context;
mod credentials;
mod gather;
mod keep;
pub mod machine_api;
mod metrics;
mod policies;
mod prepare;
mod report;
mod roles;
mod settings;
mod sign;
mod tokens;
pub mod uninstall;
mod user_data;
mod world;

use std::sync::Arc;
use std::time::Duration;

pub use cluster::leader::End;
use cluster::leader::{self, Election, Leadership};
use health::Health;
use kube::Client;
use tokio::task::JoinSet;

use context::Context;
use metrics::Metrics;
pub use operate::{Images, Installation};
pub use roles::{DAEMON_ROLES, MACHINE_API_ROLES, ROLES, access, machine_access};
pub use settings::Settings;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot prepare namespace {name}")]
    Namespace {
        name: String,
        #[source]
        source: cluster::connect::Error,
    },
    #[error(transparent)]
    Listen(#[from] health::ListenError),
    #[error(transparent)]
    Election(#[from] leader::Error),
}

/// How long it waits before it tries again to prepare a cluster that refuses it.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until `stop` or until another process leads.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) -> Result<End, Error> {
    let metrics = Arc::new(Metrics::default());
    let rendered = metrics.clone();
    let health = Health::new(move || rendered.render());
    let mut tasks = JoinSet::new();
    health.serve_in(&mut tasks, settings.listen).await?;
    let leadership = match settings.lease {
        Some(duration) => {
            let namespace = settings.installation.namespace.clone();
            let fail = |source| Error::Namespace { name: namespace.clone(), source };
            cluster::ensure_namespace(&client, &namespace).await.map_err(fail)?;
            leader::elect(client.clone(), &election(&settings, duration)).await?
        }
        None => Leadership::unopposed(),
    };
    let begin = |tasks: &mut JoinSet<()>| {
        tracing::info!(identity = settings.identity, "leading");
        tasks.spawn(lead(Arc::new(Context::new(client, settings, metrics, health))));
    };
    Ok(leadership.run(tasks, begin, stop).await)
}

/// Prepares the cluster, then follows it.
async fn lead(context: Arc<Context>) {
    while !prepare::prepare(&context).await {
        report::report_early(&context).await;
        tokio::time::sleep(AGAIN).await;
    }
    let mut tasks = JoinSet::new();
    let (world, changes) = world::World::start(&context, &mut tasks);
    tasks.spawn(changes.follow(context.clone()));
    world.settled().await;
    let context = Arc::new(context::Leading { context, world });
    context.begin();
    let queue = context.queue.clone();
    // One worker: objects are few, and two that write at once could overtake each other.
    queue.run(1, |work| context.clone().handle(work)).await;
}

fn election(settings: &Settings, duration: Duration) -> Election {
    Election {
        namespace: settings.installation.namespace.clone(),
        lease: api::names::LEASE_OPERATOR.to_owned(),
        identity: settings.identity.clone(),
        duration,
    }
}
