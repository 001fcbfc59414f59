//! Renders pools: gathers a pool's fragments, has them composed, writes the rendered config and points the pool at it.
//!
//! How fragments are merged and named is decided in the crate `render`. Here a folder of manifests becomes one rendering,
//! a rendered config that is in use is put back when somebody deletes it, and those that nobody uses are collected.

mod compose;
mod fetch;
mod keeping;

use std::sync::Arc;
use std::time::Duration;

use api::known::Unread;
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::{RenderedProvenance, RenderedProvenanceSpec};
use api::names;
use change::reconcilable::Allowances;
use cluster::error::if_found;
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::{Change, Events, Outcome, Queue, Store, write};
use jiff::Timestamp;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use render::{Fetched, Rendered, Settings};
use rollout::NodeFacts;
use serde_json::json;

use crate::access::Access;
use crate::context::Context;
use crate::world::RenderChanges;
use compose::{Composed, Input, compose};
use fetch::Fetcher;
pub(crate) use keeping::pool_of;
use keeping::{LetGo, Lost, configs_of_pool, is_rendered};

/// `kubectl apply` of a folder writes one object after the other; rendering waits for this much quiet.
const QUIET: Duration = Duration::from_millis(200);

/// Somebody who never stops writing still gets a rendering.
const LONGEST: Duration = Duration::from_secs(2);

/// Collecting is never urgent, and a rollout moves many nodes at once.
const COLLECT: Duration = Duration::from_secs(5);

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
    lost: Mutex<Lost>,
    let_go: Mutex<LetGo>,
    access: Arc<Access>,
    fetcher: Fetcher,
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
    #[error("cannot write provenance {name}")]
    WriteProvenance {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot read provenance {name}")]
    ReadProvenance {
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
    #[error("cannot delete {name}, which nobody uses")]
    Delete {
        name: String,
        #[source]
        source: kube::Error,
    },
    /// Told in the pool's status; the retry is all that is left to do.
    #[error("cannot fetch remote content of pool {pool}")]
    Fetch { pool: String },
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl Render {
    pub(crate) fn new(context: Arc<Context>, rollout: Queue<String>, access: Arc<Access>) -> Self {
        let events = Events::start(context.world.client.clone(), COMPONENT, &context.settings.namespace);
        let (lost, let_go, fetcher) = (Mutex::default(), Mutex::default(), Fetcher::default());
        Self { context, queue: Queue::default(), rollout, lost, let_go, access, fetcher, events }
    }

    /// Works for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        self.queue_missing();
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
                Some(change) = changes.nodes.recv() => self.node_changed(&change),
                Some(change) = changes.controller_configs.recv() => self.controller_config_changed(&change),
                Some(_) = changes.cluster_settings.recv() => self.queue_all(),
                Some(change) = changes.machine_configurations.recv() => {
                    let enforcement = change.new.as_ref().and_then(|it| it.spec.boot_image_skew_enforcement.as_ref());
                    let is_off = enforcement.is_some_and(|it| it.mode == "None");
                    self.context.metrics.skew_unenforced.set(is_off.into());
                    self.queue_all();
                }
                else => return,
            }
        }
    }

    fn pool_changed(&self, change: &Change<MachineConfigPool>) {
        let before = change.old.iter().flat_map(|pool| configs_of_pool(pool));
        before.for_each(|config| self.queue_collection(&config));
        match (&change.old, &change.new) {
            // A status that changes is no reason to render.
            (Some(old), Some(new)) if old.spec == new.spec && old.metadata.labels == new.metadata.labels => {}
            (_, Some(_)) => self.queue_pool(&change.key.name),
            (_, None) => self.context.forget_rendering(&change.key.name),
        }
    }

    /// A node that moved on may have been the last user of a config.
    fn node_changed(&self, change: &Change<NodeFacts>) {
        let Some(old) = &change.old else { return };
        let same = |new: &Arc<NodeFacts>| new.current == old.current && new.desired == old.desired;
        if !change.new.as_ref().is_some_and(same) {
            [&old.current, &old.desired].into_iter().flatten().for_each(|config| self.queue_collection(config));
        }
    }

    fn config_changed(&self, change: &Change<MachineConfig>) {
        let name = &change.key.name;
        if change.new.iter().chain(&change.old).any(|config| is_rendered(config)) {
            match (&change.old, &change.new) {
                (Some(old), Some(new)) if old.spec == new.spec => {}
                (None, Some(_)) => self.queue_collection(name),
                (Some(old), _) => {
                    self.lost.lock().keep(old);
                    self.queue.add(Work::Restore(name.clone()));
                }
                (None, None) => {}
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
            let either = change.old.iter().chain(&change.new).map(|config| &**config);
            // A selector that cannot be read is told when the pool is rendered.
            if render::select(&pool, either).is_ok_and(|chosen| !chosen.is_empty()) {
                self.queue_pool(pool.metadata.name.as_deref().unwrap_or_default());
            }
        }
    }

    /// Certificates and other status come and go; only what ends up in a rendered config matters here.
    fn controller_config_changed(&self, change: &Change<ControllerConfig>) {
        let relevant = |config: &ControllerConfig| {
            let spec = &config.spec;
            (spec.base_os_container_image.clone(), spec.base_os_extensions_container_image.clone())
        };
        if change.old.as_deref().map(relevant) != change.new.as_deref().map(relevant) {
            self.queue_all();
        }
    }

    fn queue_all(&self) {
        for pool in self.context.world.pools.all() {
            self.queue_pool(pool.metadata.name.as_deref().unwrap_or_default());
        }
    }

    fn queue_pool(&self, pool: &str) {
        self.queue.add_quiet(Work::Pool(pool.to_owned()), QUIET, LONGEST);
    }

    fn queue_collection(&self, rendered: &str) {
        if let Some(config) = self.context.world.configs.named(rendered)
            && let Some(pool) = pool_of(&config)
        {
            self.let_go.lock().note(rendered, Timestamp::now());
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
                tracing::warn!(?work, error = &error as &dyn std::error::Error, "will try again");
                Outcome::Retry
            }
        }
    }

    async fn render(&self, name: &str) -> Result<(), Error> {
        let input = match self.gather(name, Timestamp::now()) {
            Ok(Some(input)) => input,
            Ok(None) => return Ok(()),
            // Rendered without what cannot be read, the config would be another one, and nodes would reboot for it.
            Err(unread) => {
                self.report(name, Some(unread.to_string()));
                return Err(unread.into());
            }
        };
        let mut composed = compose(&input, &Fetched::default());
        let mut fetch_failed = false;
        if let Composed::Needs(needs) = composed {
            composed = match self.fetch(&input, &needs).await {
                Ok(fetched) => compose(&input, &fetched),
                Err(message) => {
                    fetch_failed = true;
                    Composed::Failed(message)
                }
            };
        }
        let failure = match composed {
            Composed::Rendered(rendered, configuration) => {
                self.write(&input, *rendered, &configuration).await?;
                None
            }
            Composed::Nothing => None,
            Composed::Needs(needs) => {
                let sources: Vec<_> = needs.iter().map(|need| need.source.as_str()).collect();
                Some(format!("remote content leads to more remote content: {}", sources.join(", ")))
            }
            Composed::Failed(message) => Some(message),
        };
        self.report(name, failure);
        if fetch_failed { Err(Error::Fetch { pool: name.to_owned() }) } else { Ok(()) }
    }

    /// Everything that the pool's rendering depends on; nothing when there is no such pool.
    fn gather(&self, name: &str, now: Timestamp) -> Result<Option<Input>, Unread> {
        let world = &self.context.world;
        let pool = world.pools.fresh_one("machineconfigpools", &Key::cluster(name))?;
        let Some(pool) = pool else { return Ok(None) };
        world.configs.contact().fresh("machineconfigs", now)?;
        let present = pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.as_deref());
        let present = present.and_then(|present| world.configs.named(present));
        let fragments = world.configs.all().into_iter().filter(|config| !is_rendered(config)).collect();
        let hosts = optional(&world.cluster_settings, "clustersettings", names::CLUSTER, now)?;
        let hosts =
            hosts.as_ref().map_or_else(change::policy::Settings::default, |settings| change::policy::Settings {
                admin_user: settings.spec.admin_user().to_owned(),
                runtime_service: settings.spec.runtime_service().to_owned(),
            });
        let (settings, allowances) = (self.settings(now)?, self.allowances(now)?);
        Ok(Some(Input { pool, fragments, present, settings, hosts, allowances }))
    }

    fn settings(&self, now: Timestamp) -> Result<Settings, Unread> {
        let configs = &self.context.world.controller_configs;
        let controller_config = optional(configs, "controllerconfigs", names::CONTROLLER_CONFIG, now)?;
        let mut settings = Settings {
            controller_version: self.context.settings.version.clone(),
            form: self.context.settings.form,
            ..Settings::default()
        };
        if let Some(config) = controller_config {
            settings.os_image.clone_from(&config.spec.base_os_container_image);
            settings.extensions_image = config.spec.base_os_extensions_container_image.clone().unwrap_or_default();
            let notes = config.metadata.annotations.as_ref();
            let release = notes.and_then(|notes| notes.get(api::annotations::RELEASE_IMAGE_VERSION));
            settings.release_version = release.cloned().unwrap_or_default();
        }
        Ok(settings)
    }

    fn allowances(&self, now: Timestamp) -> Result<Allowances, Unread> {
        let configurations = &self.context.world.machine_configurations;
        let configuration = optional(configurations, "machineconfigurations", names::CLUSTER, now)?;
        let overrides = configuration.as_ref().and_then(|it| it.spec.irreconcilable_validation_overrides.as_ref());
        // The API refuses other words; should one get past it, nothing is allowed that the user may not have meant.
        Ok(overrides.and_then(|overrides| Allowances::try_from(overrides).ok()).unwrap_or_default())
    }

    /// Passes on what rendering came to; the rollout controller writes it into the pool's conditions.
    fn report(&self, pool: &str, failure: Option<String>) {
        let failure = failure.map(|why| format!("Failed to render configuration for pool {pool}: {why}"));
        if self.context.rendered(pool, failure.clone()) {
            if let Some(message) = failure {
                tracing::warn!(pool, message, "cannot render");
                self.events.publish::<MachineConfigPool>(pool, None, Severity::Warning, "RenderFailed", &message);
            }
            self.rollout.add(pool.to_owned());
        }
    }

    /// Provenance, then the rendered config, then the pool: a pool must never point at something that is not there, and
    /// a config must never be there without what is needed to make it again.
    async fn write(
        &self,
        input: &Input,
        rendered: Rendered,
        configuration: &api::machineconfiguration::MachineConfigPoolConfiguration,
    ) -> Result<(), Error> {
        let pool = input.pool.metadata.name.clone().unwrap_or_default();
        let name = rendered.machine_config.metadata.name.clone().unwrap_or_default();
        let overridden = rendered.machine_config.spec.os_image_url.as_deref() != Some(&input.settings.os_image)
            && !input.settings.os_image.is_empty();
        self.context.metrics.os_image_overridden.get_or_create(&crate::metrics::pool(&pool)).set(overridden.into());
        let known = self.context.world.configs.named(&name);
        let is_new = known.is_none_or(|known| !render::is_same_content(&known.spec, &rendered.machine_config.spec));
        if is_new || self.context.world.provenances.named(&name).is_none() {
            self.put_provenance(&name, &rendered).await?;
        }
        if is_new {
            self.put_config(&rendered.machine_config).await?;
            self.tell_generated(input, &name, &rendered);
        }
        if input.pool.spec.configuration.as_ref() == Some(configuration) {
            return Ok(());
        }
        // A daemon that is refused asks again, so a right that cannot be given now holds up nothing.
        if let Err(error) = self.access.grant(&pool, &name).await {
            tracing::warn!(pool, config = name, error = &error as &dyn std::error::Error, "nodes cannot read it yet");
        }
        let api: Api<MachineConfigPool> = Api::all(self.context.world.client.clone());
        let object = json!({
            "apiVersion": format!("{}/{}", api::machineconfiguration::GROUP, api::machineconfiguration::VERSION),
            "kind": "MachineConfigPool",
            "metadata": { "name": pool },
            "spec": { "configuration": configuration },
        });
        let written = write::apply(&api, MANAGER, &pool, &object).await;
        written.map_err(|source| Error::WritePool { pool: pool.clone(), source })?;
        self.context.metrics.wrote("MachineConfigPool");
        self.context.metrics.worked(COMPONENT, "Sync Machine Config Pool", &pool);
        tracing::info!(pool, config = name, "rendered");
        Ok(())
    }

    fn tell_generated(&self, input: &Input, name: &str, rendered: &Rendered) {
        let pool = input.pool.metadata.name.as_deref().unwrap_or_default();
        let tell = |severity, reason: &str, message: &str| {
            let uid = input.pool.metadata.uid.as_deref();
            self.events.publish::<MachineConfigPool>(pool, uid, severity, reason, message);
        };
        let versions = (&input.settings.release_version, &input.settings.controller_version);
        let message = format!(
            "{name} successfully generated (release version: {}, controller version: {})",
            versions.0, versions.1
        );
        tell(Severity::Normal, "RenderedConfigGenerated", &message);
        for warning in &rendered.warnings {
            tell(Severity::Warning, "RenderWarning", &warning.to_string());
        }
    }

    async fn put_provenance(&self, name: &str, rendered: &Rendered) -> Result<(), Error> {
        let archive = Some(render::archive(&rendered.machine_config));
        let spec = RenderedProvenanceSpec { archive, ..rendered.provenance.clone() };
        let api: Api<RenderedProvenance> = Api::all(self.context.world.client.clone());
        let written = write::apply(&api, MANAGER, name, &RenderedProvenance::new(name, spec)).await;
        written.map_err(|source| Error::WriteProvenance { name: name.to_owned(), source })?;
        self.context.metrics.wrote("RenderedProvenance");
        Ok(())
    }

    /// Writes the whole object: a rendered config is ours alone, and what somebody added to it has to go.
    async fn put_config(&self, config: &MachineConfig) -> Result<(), Error> {
        let name = config.metadata.name.clone().unwrap_or_default();
        self.try_put(&name, config).await.map_err(|source| Error::WriteConfig { name, source })?;
        self.context.metrics.wrote("MachineConfig");
        Ok(())
    }

    async fn try_put(&self, name: &str, config: &MachineConfig) -> Result<(), kube::Error> {
        let api: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let Some(present) = if_found(write::in_time(api.get(name)).await)? else {
            return write::in_time(api.create(&parameters, config)).await.map(drop);
        };
        let mut config = config.clone();
        config.metadata.resource_version = present.metadata.resource_version;
        write::in_time(api.replace(name, &parameters, &config)).await.map(drop)
    }
}

/// One object of a kind that a cluster may do without.
fn optional<T>(store: &Store<T>, what: &str, name: &str, now: Timestamp) -> Result<Option<Arc<T>>, Unread> {
    let reading = store.reading_of(&Key::cluster(name));
    Ok(reading.fresh_or_none(what, now)?.and_then(|object| object.into_inner().clone()))
}
