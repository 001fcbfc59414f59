//! Renders pools: gathers a pool's fragments, has them composed, writes the rendered config and points the pool at it.
//!
//! How fragments are merged and named is decided in the crate `render`. Here a folder of manifests becomes one rendering,
//! a rendered config that is in use is put back when somebody deletes it, and those that nobody uses are collected.

mod compose;
mod references;

use std::sync::Arc;
use std::time::Duration;

use api::labels;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::names::RENDERED_PREFIX;
use cluster::events::Severity;
use cluster::{Change, Events, Outcome, Problem, Queue, problem, write};
use kube::api::{Api, DeleteParams};
use parking_lot::Mutex;
use serde_json::json;

use crate::context::Context;
use crate::world::RenderChanges;
use compose::Rendered;
use references::References;

/// `kubectl apply` of a folder writes one object after the other; rendering waits for this much quiet.
const QUIET: Duration = Duration::from_millis(200);

/// Somebody who never stops writing still gets a rendering.
const LONGEST: Duration = Duration::from_secs(2);

/// Collecting is never urgent, and a rollout moves many nodes at once.
const COLLECT: Duration = Duration::from_secs(5);

/// How many rendered configs of a pool are kept although nobody uses them, to go back to.
const KEPT: usize = 5;

const WORKERS: usize = 2;

pub(crate) const MANAGER: &str = "machinist-render";
const COMPONENT: &str = "machineconfigcontroller-rendercontroller";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    /// Render this pool.
    Pool(String),
    /// Put this rendered config back if it is in use.
    Restore(String),
    /// Remove rendered configs of this pool that nobody uses.
    Collect(String),
}

pub(crate) struct Render {
    context: Arc<Context>,
    queue: Queue<Work>,
    /// Pools whose status has to be written again because rendering came to something else.
    rollout: Queue<String>,
    references: Mutex<References>,
    events: Events,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write rendered config {name}")]
    WriteConfig {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write spec.configuration of pool {pool}")]
    WritePool {
        pool: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot delete rendered config {name}")]
    DeleteConfig {
        name: String,
        #[source]
        source: kube::Error,
    },
}

impl Render {
    pub(crate) fn new(context: Arc<Context>, rollout: Queue<String>) -> Self {
        let events = Events::start(context.world.client.clone(), COMPONENT, &context.settings.namespace);
        Self { context, queue: Queue::default(), rollout, references: Mutex::default(), events }
    }

    /// Works for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(WORKERS, |work| self.clone().handle(work)).await;
    }

    /// Takes in changes for ever and queues what they ask for.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: RenderChanges) {
        loop {
            tokio::select! {
                Some(change) = changes.pools.recv() => self.pool_changed(&change),
                Some(change) = changes.configs.recv() => self.config_changed(&change),
                Some(change) = changes.policies.recv() => self.queue_pool(&change.key.name),
                Some(change) = changes.nodes.recv() => {
                    let released = self.references.lock().node_changed(&change);
                    released.iter().for_each(|name| self.queue_collection(name));
                }
                else => return,
            }
        }
    }

    fn pool_changed(&self, change: &Change<MachineConfigPool>) {
        let released = self.references.lock().pool_changed(change);
        released.iter().for_each(|name| self.queue_collection(name));
        match (&change.old, &change.new) {
            // A status that changes is no reason to render.
            (Some(old), Some(new)) if old.spec == new.spec && old.metadata.labels == new.metadata.labels => {}
            (_, Some(_)) => self.queue_pool(&change.key.name),
            (_, None) => self.context.forget_rendering(&change.key.name),
        }
    }

    fn config_changed(&self, change: &Change<MachineConfig>) {
        let name = &change.key.name;
        if is_rendered(name, change.new.as_deref().or(change.old.as_deref())) {
            match (&change.old, &change.new) {
                (Some(old), Some(new)) if old.spec == new.spec => {}
                (None, Some(_)) => self.queue_collection(name),
                (_, _) => self.queue.add(Work::Restore(name.clone())),
            }
            return;
        }
        let unchanged = |(old, new): (&Arc<MachineConfig>, &Arc<MachineConfig>)| {
            old.spec == new.spec && old.metadata.labels == new.metadata.labels
        };
        if change.old.as_ref().zip(change.new.as_ref()).is_some_and(unchanged) {
            return;
        }
        for pool in self.context.world.pools.all() {
            let selects = |config: &Arc<MachineConfig>| compose::selects(&pool, config);
            if change.old.iter().chain(&change.new).any(selects) {
                self.queue_pool(pool.metadata.name.as_deref().unwrap_or_default());
            }
        }
    }

    fn queue_pool(&self, pool: &str) {
        self.queue.add_quiet(Work::Pool(pool.to_owned()), QUIET, LONGEST);
    }

    fn queue_collection(&self, rendered: &str) {
        if let Some(config) = self.context.world.configs.named(rendered)
            && let Some(pool) = pool_of(&config)
        {
            self.queue.add_after(Work::Collect(pool), COLLECT);
        }
    }

    async fn handle(self: Arc<Self>, work: Work) -> Outcome {
        let done = match &work {
            Work::Pool(pool) => self.render(pool).await,
            Work::Restore(name) => self.restore(name).await,
            Work::Collect(pool) => self.collect(pool).await,
        };
        match done {
            Ok(()) => Outcome::Done,
            Err(error) => {
                tracing::warn!(?work, error = &error as &dyn std::error::Error, "cannot render");
                Outcome::Retry
            }
        }
    }

    async fn render(&self, name: &str) -> Result<(), Error> {
        let Some(pool) = self.context.world.pools.named(name) else { return Ok(()) };
        let configs = self.context.world.configs.all();
        let failure = match compose::compose(&pool, &configs, &self.context.settings.version) {
            Ok(Some(rendered)) => {
                self.write(&pool, rendered).await?;
                None
            }
            Ok(None) => None,
            Err(message) => Some(format!("Failed to render configuration for pool {name}: {message}")),
        };
        if let Some(message) = &failure {
            tracing::warn!(pool = name, message, "cannot render");
        }
        if self.context.rendered(name, failure) {
            self.rollout.add(name.to_owned());
        }
        Ok(())
    }

    /// The rendered config first: a pool must never point at something that is not there.
    async fn write(&self, pool: &MachineConfigPool, rendered: Rendered) -> Result<(), Error> {
        let pool_name = pool.metadata.name.clone().unwrap_or_default();
        let name = rendered.config.metadata.name.clone().unwrap_or_default();
        let known = self.context.world.configs.named(&name);
        if known.is_none_or(|known| known.spec != rendered.config.spec) {
            self.put_config(&rendered.config).await?;
            let message = format!("{name} successfully generated");
            let uid = pool.metadata.uid.as_deref();
            self.events.publish::<MachineConfigPool>(
                &pool_name,
                uid,
                Severity::Normal,
                "RenderedConfigGenerated",
                &message,
            );
        }
        if pool.spec.configuration.as_ref() == Some(&rendered.configuration) {
            return Ok(());
        }
        let api: Api<MachineConfigPool> = Api::all(self.context.world.client.clone());
        let object = json!({
            "apiVersion": format!("{}/{}", api::machineconfiguration::GROUP, api::machineconfiguration::VERSION),
            "kind": "MachineConfigPool",
            "metadata": { "name": pool_name },
            "spec": { "configuration": rendered.configuration },
        });
        let written = write::apply(&api, MANAGER, &pool_name, &object).await;
        written.map_err(|source| Error::WritePool { pool: pool_name.clone(), source })?;
        self.context.metrics.wrote("MachineConfigPool");
        self.context.metrics.worked(COMPONENT, "Sync Machine Config Pool", &pool_name);
        tracing::info!(pool = pool_name, config = name, "rendered");
        Ok(())
    }

    async fn put_config(&self, config: &MachineConfig) -> Result<(), Error> {
        let api: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        let name = config.metadata.name.clone().unwrap_or_default();
        let written = write::apply(&api, MANAGER, &name, config).await;
        written.map_err(|source| Error::WriteConfig { name, source })?;
        self.context.metrics.wrote("MachineConfig");
        Ok(())
    }

    async fn restore(&self, name: &str) -> Result<(), Error> {
        if !self.references.lock().is_used(name) {
            return Ok(());
        }
        tracing::info!(config = name, "putting back a rendered config that is in use");
        Ok(())
    }

    /// Removes what nobody uses, except for the newest few.
    async fn collect(&self, pool: &str) -> Result<(), Error> {
        let mut unused: Vec<Arc<MachineConfig>> = self.context.world.configs.all();
        unused.retain(|config| pool_of(config).as_deref() == Some(pool) && !self.is_used(config));
        unused.sort_by_key(|config| std::cmp::Reverse(config.metadata.creation_timestamp.as_ref().map(|time| time.0)));
        let api: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        for config in unused.into_iter().skip(KEPT) {
            let name = config.metadata.name.clone().unwrap_or_default();
            let gone = write::in_time(api.delete(&name, &DeleteParams::default())).await;
            if let Err(source) = gone
                && problem(&source) != Problem::NotFound
            {
                return Err(Error::DeleteConfig { name, source });
            }
        }
        Ok(())
    }

    fn is_used(&self, config: &MachineConfig) -> bool {
        self.references.lock().is_used(config.metadata.name.as_deref().unwrap_or_default())
    }
}

/// The pool that a rendered config was made for.
fn pool_of(config: &MachineConfig) -> Option<String> {
    config.metadata.labels.as_ref()?.get(labels::RENDERED_FOR).cloned()
}

fn is_rendered(name: &str, config: Option<&MachineConfig>) -> bool {
    name.starts_with(RENDERED_PREFIX) && config.is_some_and(|config| pool_of(config).is_some())
}
