//! Keeps rendered configs that are in use and removes those that nobody uses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::labels;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::machinist::RenderedProvenance;
use api::names::RENDERED_PREFIX;
use cluster::error::if_found;
use cluster::events::Severity;
use cluster::write;
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, ObjectMeta};

use super::{Error, Render, Work};

/// How many rendered configs of a pool are kept although nobody uses them, to go back to.
const KEPT: usize = 5;

/// Rendered configs as they were before somebody deleted or edited them.
#[derive(Default)]
pub(super) struct Lost {
    configs: HashMap<String, MachineConfig>,
}

impl Lost {
    pub(super) fn keep(&mut self, config: &MachineConfig) {
        let metadata = ObjectMeta {
            name: config.metadata.name.clone(),
            labels: config.metadata.labels.clone(),
            annotations: config.metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        let name = config.metadata.name.clone().unwrap_or_default();
        // What was lost first is the original; a second edit must not overwrite it.
        self.configs.entry(name).or_insert_with(|| MachineConfig { metadata, spec: config.spec.clone() });
    }
}

/// When somebody was last seen to move on from a config. What a pool ran a moment ago is what people go back to, however long
/// ago it was rendered. After a restart the times of creation have to do.
#[derive(Default)]
pub(super) struct LetGo(HashMap<String, Timestamp>);

impl LetGo {
    pub(super) fn note(&mut self, config: &str, now: Timestamp) {
        self.0.insert(config.to_owned(), now);
    }

    /// Of configs that nobody uses, those that were used or made longest ago, all but `kept`.
    fn expired(&self, mut unused: Vec<Arc<MachineConfig>>, kept: usize) -> Vec<Arc<MachineConfig>> {
        let made = |config: &MachineConfig| config.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let let_go = |config: &MachineConfig| self.0.get(config.metadata.name.as_deref()?).copied();
        unused.sort_by_key(|config| Reverse(made(config).max(let_go(config))));
        unused.into_iter().skip(kept).collect()
    }
}

impl Render {
    /// Queues every config that is referred to and does not exist: it was deleted while nobody watched.
    pub(super) fn queue_missing(&self) {
        for name in self.used() {
            if self.context.world.configs.named(&name).is_none() {
                self.queue.add(Work::Restore(name));
            }
        }
    }

    /// Every config that a pool or a node refers to. It is asked for only when a config may go or has gone.
    fn used(&self) -> BTreeSet<String> {
        let world = &self.context.world;
        let (pools, nodes) = (world.pools.all(), world.nodes.all());
        let nodes = nodes.iter().flat_map(|node| [node.current.clone(), node.desired.clone()]).flatten();
        pools.iter().flat_map(|pool| configs_of_pool(pool)).chain(nodes).collect()
    }

    /// Puts a rendered config back as it was: from what the watch last saw, or from the archive beside its provenance.
    pub(super) async fn restore(&self, name: &str) -> Result<(), Error> {
        if !self.used().contains(name) {
            self.lost.lock().configs.remove(name);
            return Ok(());
        }
        let present = self.context.world.configs.named(name);
        let Some(original) = self.original(name).await? else {
            if present.is_none() {
                tracing::error!(config = name, "a rendered config in use is gone and there is no archive of it");
                let message =
                    format!("{name} is in use, was deleted, and cannot be made again: no archive of it is left");
                self.events.publish::<MachineConfig>(name, None, Severity::Warning, "RenderedConfigLost", &message);
            }
            return Ok(());
        };
        if present.as_ref().is_none_or(|present| present.spec != original.spec) {
            self.put_config(&original).await?;
            tracing::info!(config = name, "put a rendered config back");
            let message = match present {
                None => format!("{name} is in use and was put back as it was"),
                Some(_) => format!("{name} was changed by somebody and put back; {}", self.where_to_change(name)),
            };
            self.events.publish::<MachineConfig>(name, None, Severity::Normal, "RenderedConfigRestored", &message);
        }
        self.lost.lock().configs.remove(name);
        Ok(())
    }

    /// Says what to edit instead of a rendered config: the MachineConfigs it was made from.
    fn where_to_change(&self, name: &str) -> String {
        let pools = self.context.world.pools.all();
        let configurations = pools.iter().filter_map(|pool| pool.spec.configuration.clone());
        let made = configurations.into_iter().find(|configuration| configuration.name.as_deref() == Some(name));
        let sources = made.map(|made| made.source.into_iter().filter_map(|source| source.name)).into_iter().flatten();
        match sources.collect::<Vec<_>>().as_slice() {
            [] => "change a MachineConfig of its pool instead".to_owned(),
            sources => format!("change one of the MachineConfigs it is made from instead: {}", sources.join(", ")),
        }
    }

    async fn original(&self, name: &str) -> Result<Option<MachineConfig>, Error> {
        let lost = self.lost.lock().configs.get(name).cloned();
        let proves =
            |config: &MachineConfig| pool_of(config).is_some_and(|pool| render::name(&pool, &config.spec) == name);
        if let Some(config) = lost.as_ref().filter(|config| proves(config)) {
            return Ok(Some(config.clone()));
        }
        let api: Api<RenderedProvenance> = Api::all(self.context.world.client.clone());
        let read = if_found(write::in_time(api.get(name)).await);
        let provenance = read.map_err(|source| Error::ReadProvenance { name: name.to_owned(), source })?;
        let Some((pool, archive)) = provenance.and_then(|it| Some((it.spec.pool, it.spec.archive?))) else {
            // Rendered by somebody else, so its name proves nothing: what was deleted is the best there is.
            return Ok(lost.filter(|_| self.context.world.configs.named(name).is_none()));
        };
        match render::restore(&archive, &pool, name) {
            Ok(config) => Ok(Some(config)),
            Err(error) => {
                tracing::error!(config = name, %error, "the archive of a rendered config cannot be used");
                Ok(None)
            }
        }
    }

    /// Removes what nobody uses, except for those few of a pool that still exists that were used or made last. Whether anybody does is asked only
    /// while pools and nodes are known.
    pub(super) async fn collect(&self, pool: &str) -> Result<(), Error> {
        let (world, now) = (&self.context.world, Timestamp::now());
        world.pools.contact().fresh("machineconfigpools", now)?;
        world.nodes.contact().fresh("nodes", now)?;
        let mut unused = world.configs.fresh("machineconfigs")?;
        let used = self.used();
        unused.retain(|config| {
            let name = config.metadata.name.as_deref().unwrap_or_default();
            pool_of(config).as_deref() == Some(pool) && !used.contains(name)
        });
        let kept = if self.context.world.pools.named(pool).is_some() { KEPT } else { 0 };
        let configs: Api<MachineConfig> = Api::all(self.context.world.client.clone());
        let provenances: Api<RenderedProvenance> = Api::all(self.context.world.client.clone());
        let expired = self.let_go.lock().expired(unused, kept);
        for config in expired {
            let name = config.metadata.name.clone().unwrap_or_default();
            let fail = |source| Error::Delete { name: name.clone(), source };
            let parameters = DeleteParams::default();
            if_found(write::in_time(configs.delete(&name, &parameters)).await).map_err(fail)?;
            if_found(write::in_time(provenances.delete(&name, &parameters)).await).map_err(fail)?;
            self.let_go.lock().0.remove(&name);
            tracing::info!(config = name, "removed a rendered config that nobody uses");
        }
        Ok(())
    }
}

/// The configs that a pool refers to: what it wants, and what all its nodes last had.
pub(super) fn configs_of_pool(pool: &MachineConfigPool) -> Vec<String> {
    let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    pool.spec.configuration.iter().chain(status).filter_map(|configuration| configuration.name.clone()).collect()
}

/// The pool that we rendered a config for.
pub(crate) fn pool_of(config: &MachineConfig) -> Option<String> {
    config.metadata.labels.as_ref()?.get(labels::RENDERED_FOR).cloned()
}

/// Whether a MachineConfig is a pool's sum and not a fragment. Upstream's are known by their owner.
pub(super) fn is_rendered(config: &MachineConfig) -> bool {
    let owners = config.metadata.owner_references.iter().flatten();
    let of_pool = owners.into_iter().any(|owner| owner.kind == "MachineConfigPool");
    let named = config.metadata.name.as_deref().is_some_and(|name| name.starts_with(RENDERED_PREFIX));
    named && (of_pool || pool_of(config).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_let_go_last_is_kept_however_old_it_is() {
        let config = |name: &str, made: &str| {
            let config = json!({"metadata": {"name": name, "creationTimestamp": made}, "spec": {}});
            Arc::new(serde_json::from_value(config).expect("a MachineConfig"))
        };
        let unused = || {
            vec![
                config("old", "2026-01-01T00:00:00Z"),
                config("new", "2026-01-03T00:00:00Z"),
                config("newer", "2026-01-04T00:00:00Z"),
            ]
        };
        let names = |configs: Vec<Arc<MachineConfig>>| {
            configs.into_iter().filter_map(|it| it.metadata.name.clone()).collect::<Vec<_>>()
        };
        let mut let_go = LetGo::default();
        assert_eq!(names(let_go.expired(unused(), 1)), ["new", "old"]);
        let_go.note("old", "2026-01-05T00:00:00Z".parse().expect("a time"));
        assert_eq!(names(let_go.expired(unused(), 1)), ["newer", "new"]);
    }
}
