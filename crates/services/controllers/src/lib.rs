//! `machinist controller`: generates fragments from typed configuration, renders pools, rolls their configs out, drains
//! nodes and ends pauses.
//!
//! Each controller gathers what it needs, asks a decision crate for a plan, applies it and reports. The rules are in
//! `typed`, `render`, `rollout` and `drain`; nothing here decides about pools or nodes.

mod access;
mod context;
mod drain;
mod generate;
pub mod metrics;
mod pause;
mod render;
mod roles;
mod rollout;
mod settings;
mod world;

use std::sync::Arc;
use std::time::Duration;

use cluster::Events;
pub use cluster::leader::End;
use cluster::leader::{self, Election, Leadership};
use health::{Health, Readiness};
use kube::Client;
use tokio::task::JoinSet;

use context::Context;
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
    #[error(transparent)]
    Listen(#[from] health::ListenError),
    #[error(transparent)]
    Election(#[from] leader::Error),
}

/// Runs every controller until `stop` or until another process leads.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) -> Result<End, Error> {
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
        tracing::info!(identity = settings.identity, "leading");
        lead(&client, settings, metrics, &health, tasks);
    };
    Ok(leadership.run(tasks, begin, stop).await)
}

fn election(settings: &Settings, duration: Duration) -> Election {
    Election {
        namespace: settings.namespace.clone(),
        lease: api::names::LEASE_CONTROLLER.to_owned(),
        identity: settings.identity.clone(),
        duration,
    }
}

/// Starts the watches and, once they have listed, the controllers.
fn lead(client: &Client, settings: Settings, metrics: Arc<Metrics>, health: &Health, tasks: &mut JoinSet<()>) {
    let (world, changes) = World::start(client, tasks);
    let namespace = settings.namespace.clone();
    let context = Arc::new(Context::new(world.clone(), settings, metrics));
    let pools = cluster::Queue::default();
    let access = Arc::new(access::Access::new(context.clone()));
    let rendering = Arc::new(render::Render::new(context.clone(), pools.clone(), access.clone()));
    let rollout = Arc::new(rollout::Rollout::new(context.clone(), pools));
    let states = Arc::downgrade(&rollout);
    context.metrics.states_from(move || states.upgrade().map(|rollout| rollout.states()).unwrap_or_default());
    let (blocked, blocks) = tokio::sync::mpsc::unbounded_channel();
    let generating = Arc::new(generate::Generate::new(context.clone()));
    let pauses = Arc::new(pause::Pauses::new(context.clone()));
    let drain = Arc::new(drain::Drain::new(context, blocked));
    let events = Events::start(client.clone(), "machineconfigcontroller", &namespace);
    let (watched, health) = (world.clone(), health.clone());
    let missing = move |missing: Vec<String>| {
        health.set(if missing.is_empty() { Readiness::Leading } else { Readiness::Hindered(missing) });
    };
    tasks.spawn(cluster::readiness::follow(move || watched.troubles(), missing, events, namespace));
    tasks.spawn(rendering.clone().follow(changes.render));
    tasks.spawn(rollout.clone().follow(changes.rollout, blocks));
    tasks.spawn(drain.clone().follow(changes.drain));
    tasks.spawn(access.clone().follow(changes.access));
    tasks.spawn(generating.clone().follow(changes.typed));
    tasks.spawn(pauses.clone().follow(changes.pauses));
    tasks.spawn(async move {
        world.synced().await;
        tokio::join!(generating.run(), rendering.run(), rollout.run(), drain.run(), pauses.run(), access.run());
    });
}
