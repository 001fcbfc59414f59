//! Keeps what nodes may read: a role for each pool that names its rendered configs, bound to the pool's nodes, and the Secret
//! with the certificates of hosts.
//!
//! Where a node belongs is decided in `rollout` from its labels alone; how roles and bindings look, in `operate`. Rights are
//! only taken away on what is known: while nodes, pools or configs cannot be read, everything stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::known::Unread;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::names;
use cluster::events::{Events, Severity};
use cluster::{Change, Outcome, Queue, write};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Resource, ResourceExt};
use operate::node_access::{self, Pool};
use rollout::{NodeFacts, Pools};
use serde_json::{Value, json};

use crate::context::Context;
use crate::render::pool_of;
use crate::world::AccessChanges;

/// Nodes come in groups, and each write of a binding repeats all the nodes in it.
const QUIET: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(3);

/// The Secret of hosts is not watched, and somebody may delete it or empty it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

const MANAGER: &str = "machinist-access";
/// In whose name events are published.
const COMPONENT: &str = "machineconfigcontroller-accesscontroller";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    Pools,
    Credentials,
}

/// What a role or binding says: its pool, and its rules or subjects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grant {
    pub(crate) pool: String,
    pub(crate) says: Value,
}

pub(crate) struct Access {
    context: Arc<Context>,
    queue: Queue<Work>,
    events: Events,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot write {kind} {name}")]
    Write {
        kind: String,
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl Error {
    /// The API server has answered, and would answer the same again.
    fn is_refusal(&self) -> bool {
        let Self::Write { source: kube::Error::Api(status), .. } = self else { return false };
        (400..500).contains(&status.code) && ![409, 429].contains(&status.code)
    }
}

impl Access {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let events = Events::start(context.world.client.clone(), COMPONENT, &context.settings.namespace);
        Self { context, queue: Queue::default(), events }
    }

    /// Works for ever. To be called once everything was listed.
    pub(crate) async fn run(self: Arc<Self>) {
        self.queue.add(Work::Pools);
        self.queue.add(Work::Credentials);
        let queue = self.queue.clone();
        let look_again = async {
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                self.queue.add(Work::Credentials);
            }
        };
        tokio::select! {
            () = queue.run(2, |work| self.clone().handle(work)) => {}
            () = look_again => {}
        }
    }

    /// Takes in changes for ever and queues what they ask for.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: AccessChanges) {
        loop {
            let matters = tokio::select! {
                Some(change) = changes.pools.recv() => !same(&change, |pool| {
                    let selectors = (pool.spec.node_selector.clone(), pool.spec.machine_selector.clone());
                    (pool.metadata.uid.clone(), selectors, pool.spec.pinned_image_sets.clone())
                }),
                Some(change) = changes.nodes.recv() => !same(&change, |node: &NodeFacts| node.labels.clone()),
                Some(change) = changes.configs.recv() => !same(&change, rendered_for),
                Some(_) = changes.roles.recv() => true,
                Some(_) = changes.bindings.recv() => true,
                Some(_) = changes.controller_configs.recv() => {
                    self.queue.add(Work::Credentials);
                    false
                }
                else => return,
            };
            if matters {
                self.queue.add_quiet(Work::Pools, QUIET, LONGEST);
            }
        }
    }

    async fn handle(self: Arc<Self>, work: Work) -> Outcome {
        let done = match work {
            Work::Pools => self.keep_pools().await,
            Work::Credentials => self.keep_credentials().await,
        };
        match done {
            Ok(()) => Outcome::Done,
            Err(error) => {
                tracing::warn!(?work, error = &error as &dyn std::error::Error, "will try again");
                Outcome::Retry
            }
        }
    }

    /// Lets a pool's nodes read a config that was just rendered, before the pool points at it.
    pub(crate) async fn grant(&self, pool: &str, config: &str) -> Result<(), Error> {
        let pools = self.pools()?;
        let Some(mut pool) = pools.into_iter().find(|one| one.name == pool) else { return Ok(()) };
        pool.configs.insert(config.to_owned());
        self.put::<ClusterRole>(&pool.role(), "rules").await
    }

    /// A pool whose role or binding is refused is told of, and holds up no other. The first such error is returned.
    async fn keep_pools(&self) -> Result<(), Error> {
        let mut done = Ok(());
        for pool in self.pools()? {
            let kept = self.keep_pool(&pool).await;
            match &kept {
                Ok(()) => {}
                Err(error) if error.is_refusal() => self.tell(&pool, error),
                // The API is away, for the other pools as well.
                Err(_) => return kept,
            }
            done = done.and(kept);
        }
        done
    }

    fn tell(&self, pool: &Pool, error: &Error) {
        let message =
            format!("nodes of pool {} may not read all its configs: {}", pool.name, cluster::error::chain(error));
        let (name, uid) = (&pool.name, Some(pool.uid.as_str()));
        self.events.publish::<MachineConfigPool>(name, uid, Severity::Warning, "AccessFailed", &message);
    }

    async fn keep_pool(&self, pool: &Pool) -> Result<(), Error> {
        self.put::<ClusterRole>(&pool.role(), "rules").await?;
        let bindings = self.context.world.bindings.keys();
        let present = bindings.iter().map(|key| key.name.as_str());
        let present =
            present.filter(|name| self.context.world.bindings.named(name).is_some_and(|it| it.pool == pool.name));
        for binding in pool.bindings(present) {
            self.put::<ClusterRoleBinding>(&binding, "subjects").await?;
        }
        Ok(())
    }

    /// Every pool with its nodes and rendered configs.
    fn pools(&self) -> Result<Vec<Pool>, Unread> {
        let world = &self.context.world;
        let objects = world.pools.fresh("machineconfigpools")?;
        let (nodes, configs) = (world.nodes.fresh("nodes")?, world.configs.fresh("machineconfigs")?);
        world.roles.fresh("clusterroles")?;
        world.bindings.fresh("clusterrolebindings")?;
        let empty = |pool: &Arc<MachineConfigPool>| {
            let (name, uid) = (pool.name_any(), pool.uid().unwrap_or_default());
            let image_sets = pool.spec.pinned_image_sets.iter().map(|set| set.name.clone()).collect();
            (name.clone(), Pool { name, uid, image_sets, ..Pool::default() })
        };
        let mut pools: BTreeMap<String, Pool> = objects.iter().map(empty).collect();
        let selectors = Pools::from_objects(objects.iter().map(|pool| &**pool));
        for node in nodes {
            let membership = selectors.of_node(&node.name, &node.labels);
            if let Some(pool) = membership.primary().and_then(|primary| pools.get_mut(primary)) {
                pool.nodes.insert(node.name.clone());
            }
        }
        for config in configs {
            if let Some(pool) = rendered_for(&config).and_then(|pool| pools.get_mut(&pool)) {
                pool.configs.insert(config.name_any());
            }
        }
        Ok(pools.into_values().collect())
    }

    /// Writes a role or binding whose `part` says something else than it should.
    async fn put<K>(&self, object: &Value, part: &str) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let world = &self.context.world;
        let (kind, name) = (K::kind(&()).into_owned(), object["metadata"]["name"].as_str().unwrap_or_default());
        let present = if part == "rules" { world.roles.named(name) } else { world.bindings.named(name) };
        if present.is_some_and(|present| present.says == object[part]) {
            return Ok(());
        }
        let gvk = GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &kind);
        let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &kube::api::ApiResource::from_gvk(&gvk));
        let written = write::apply(&api, MANAGER, name, object).await;
        written.map_err(|source| Error::Write { kind: kind.clone(), name: name.to_owned(), source })?;
        self.context.metrics.wrote(&kind);
        Ok(())
    }

    /// Copies what hosts need of the ControllerConfig. Without one there is nothing to copy.
    async fn keep_credentials(&self) -> Result<(), Error> {
        let (world, namespace) = (&self.context.world, &self.context.settings.namespace);
        let Some(config) = world.controller_configs.named(names::CONTROLLER_CONFIG) else { return Ok(()) };
        let secret = node_access::credentials(&config, namespace);
        let api: Api<Secret> = Api::namespaced(world.client.clone(), namespace);
        let name = names::NODE_CREDENTIALS;
        // Where it cannot be read, the write tells what is wrong.
        let present = write::in_time(api.get_opt(name)).await.ok().flatten();
        if present.is_some_and(|present| node_access::is_filled_in(&present, &secret)) {
            return Ok(());
        }
        let written = write::apply(&api, MANAGER, name, &secret).await;
        written.map_err(|source| Error::Write { kind: "Secret".to_owned(), name: name.to_owned(), source })?;
        self.context.metrics.wrote("Secret");
        Ok(())
    }
}

/// The pool that a config was rendered for, by us or by upstream, whose configs the pool owns.
fn rendered_for(config: &MachineConfig) -> Option<String> {
    let owners = config.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.kind == "MachineConfigPool").map(|owner| owner.name.clone());
    let is_rendered = config.metadata.name.as_deref().is_some_and(|name| name.starts_with(names::RENDERED_PREFIX));
    pool_of(config).or(owner).filter(|_| is_rendered)
}

/// Whether what matters of an object is as it was.
fn same<T, M: PartialEq>(change: &Change<T>, read: impl Fn(&T) -> M) -> bool {
    change.old.as_deref().map(&read) == change.new.as_deref().map(&read)
}

impl Grant {
    pub(crate) fn of_role(role: ClusterRole) -> Self {
        Self { pool: pool_label(&role), says: json!(role.rules.unwrap_or_default()) }
    }

    pub(crate) fn of_binding(binding: ClusterRoleBinding) -> Self {
        Self { pool: pool_label(&binding), says: json!(binding.subjects.unwrap_or_default()) }
    }
}

fn pool_label(object: &impl ResourceExt) -> String {
    object.labels().get(node_access::POOL).cloned().unwrap_or_default()
}
