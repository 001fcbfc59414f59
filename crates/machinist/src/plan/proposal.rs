//! What a change comes to: the pools it renders anew, the nodes it reaches, the pods it moves.
//!
//! The same functions decide here as in the controllers and the daemon; only the world is one that is not there yet.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use api::known::Reading;
use api::labels::ROLE;
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::ClusterSettings;
use api::names::RENDERED_PREFIX;
use api::operator::MachineConfiguration;
use api::pause::Pause;
use change::disruption::Class;
use drain::PodFacts;
use futures::StreamExt as _;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use render::Fetched;
use serde::Serialize;
use serde_json::Value;

use super::generated;
use super::waves::{self, Reach};
use crate::diff::Comparison;
use crate::gather::{self, Depth, World};
use crate::inputs::Inputs;
use crate::manifests::{Manifest, Origin};

/// Evictions that are tried at once.
const AT_ONCE: usize = 16;

/// What a user would do.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) deletes: Vec<String>,
}

impl Change {
    pub(crate) fn new(manifests: Vec<Manifest>, deletes: Vec<String>) -> anyhow::Result<Self> {
        for manifest in &manifests {
            let known = ["MachineConfig", "MachineConfigPool", "MachineConfiguration", "ClusterSettings"];
            if !known.contains(&manifest.kind.as_str()) && !generated::is_typed(manifest) {
                let typed = generated::KINDS.map(|(_, kind)| kind);
                bail!(
                    "{}: {} {:?} cannot be planned; plan takes {}",
                    manifest.origin,
                    manifest.kind,
                    manifest.name,
                    [&known[..], &typed[..]].concat().join(", ")
                );
            }
        }
        Ok(Self { manifests, deletes })
    }
}

/// What the change would do. The same words for people and for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub(crate) pools: Vec<PoolPlan>,
    /// How long it takes, if nothing gets in its way.
    pub(crate) estimate_seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolPlan {
    pub(crate) pool: String,
    /// The rendered config that the pool wants now, and the one it would want.
    pub(crate) from: Option<String>,
    pub(crate) to: String,
    /// The pool is paused: nothing moves until it is not.
    pub(crate) paused: bool,
    /// Who paused it, why and until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<Pause>,
    /// Why no running node could make the change; nothing would be rolled out then.
    pub(crate) obstacles: Vec<String>,
    pub(crate) nodes: Vec<NodePlan>,
    /// Which nodes go together, in order.
    pub(crate) waves: Vec<Vec<String>>,
    /// Nodes that would not be reached, and why.
    pub(crate) left: Vec<Left>,
    pub(crate) estimate_seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePlan {
    pub(crate) node: String,
    pub(crate) from: Option<String>,
    pub(crate) files: Vec<String>,
    pub(crate) units: Vec<String>,
    pub(crate) other: Vec<String>,
    pub(crate) disruption: Class,
    pub(crate) actions: Vec<String>,
    pub(crate) drains: bool,
    /// Pods that would move, as `namespace/name`; absent where pods could not be read.
    pub(crate) pods: Option<Vec<String>>,
    /// Pods whose budget would hold the drain now.
    pub(crate) blocked: Vec<BlockedPod>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BlockedPod {
    pub(crate) pod: String,
    pub(crate) why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Left {
    pub(crate) node: String,
    pub(crate) why: String,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }
}

/// A plan, and what it was made from.
pub(crate) struct Proposal {
    pub(crate) plan: Plan,
    pub(crate) world: World,
    /// Every MachineConfig of the cluster.
    pub(crate) configs: Vec<MachineConfig>,
    /// For each pool of the plan, the change from what most of its nodes run.
    pub(crate) comparisons: BTreeMap<String, Comparison>,
    pub(crate) notes: Vec<String>,
}

impl Proposal {
    pub(crate) async fn compute(client: &Client, change: &Change, reboot: SignedDuration) -> anyhow::Result<Self> {
        let world = gather::world(client, Depth::Fleet).await?;
        let configs: Vec<MachineConfig> = gather::list(client).await?;
        let generated = match change.manifests.iter().any(generated::is_typed) {
            true => generated::plan(client, &world, &configs, &change.manifests).await?,
            false => Vec::new(),
        };
        Self::with_generated(client, world, configs, change, &generated, reboot).await
    }

    /// The same where it is known already what would be generated.
    pub(crate) async fn with_generated(
        client: &Client,
        mut world: World,
        configs: Vec<MachineConfig>,
        change: &Change,
        generated: &[typed::plan::Plan],
        reboot: SignedDuration,
    ) -> anyhow::Result<Self> {
        let mut notes = std::mem::take(&mut world.notes);
        notes.extend(generated::refusals(generated));
        let inputs = after(client, &world, &configs, change, generated).await?;
        notes.extend(inputs.warnings.iter().cloned());
        let mut changed = Vec::new();
        let mut comparisons = BTreeMap::new();
        for pool in &inputs.pools {
            // Pools that exist nowhere are only assumed when somebody works offline.
            let known = world.objects.pools.iter().any(|it| it.name_any() == pool.name_any())
                || change.manifests.iter().any(|it| it.kind == "MachineConfigPool" && it.name == pool.name_any());
            if known && let Some(new) = render_pool(pool, &inputs, &configs, &mut notes)? {
                changed.push((pool.clone(), new));
            }
        }
        let pods = if changed.is_empty() {
            Some(Vec::new())
        } else {
            gather::noted_list(client, &mut notes, "pods that would move").await
        };
        let daemon_sets = match pods.as_ref().is_none_or(Vec::is_empty) {
            true => Reading::default(),
            false => gather::daemon_sets(client, &mut notes).await,
        };
        let mut plan = Plan { pools: Vec::new(), estimate_seconds: 0 };
        for (pool, new) in changed {
            let draft = Draft {
                world: &world,
                inputs: &inputs,
                configs: &configs,
                pods: pods.as_deref(),
                daemon_sets: &daemon_sets,
                pool: &pool,
                new: &new,
                reboot,
            };
            if let Some((planned, comparison)) = draft.plan()? {
                comparisons.insert(planned.pool.clone(), comparison);
                plan.pools.push(planned);
            }
        }
        rehearse(client, &mut plan, &mut notes).await;
        plan.estimate_seconds = plan.pools.iter().map(|pool| pool.estimate_seconds).max().unwrap_or(0);
        Ok(Self { plan, world, configs, comparisons, notes })
    }
}

/// The world after the change: the cluster's objects, with the user's laid over them.
async fn after(
    client: &Client,
    world: &World,
    configs: &[MachineConfig],
    change: &Change,
    generated: &[typed::plan::Plan],
) -> anyhow::Result<Inputs> {
    let mut objects: Vec<Manifest> = Vec::new();
    let has_role =
        |config: &&MachineConfig| config.labels().contains_key(ROLE) && !config.name_any().starts_with(RENDERED_PREFIX);
    for config in configs.iter().filter(has_role).filter(|config| !change.deletes.contains(&config.name_any())) {
        objects.push(manifest_of(config)?);
    }
    if let Some(name) = change.deletes.iter().find(|name| !configs.iter().any(|config| config.name_any() == **name)) {
        bail!("there is no MachineConfig {name} to delete");
    }
    for pool in &world.objects.pools {
        objects.push(manifest_of(pool)?);
    }
    // Without these another config would be rendered, or another disruption foretold, than there will be.
    for object in gather::list_if_installed::<ControllerConfig>(client).await? {
        objects.push(manifest_of(&object)?);
    }
    for object in gather::list_if_installed::<ClusterSettings>(client).await? {
        objects.push(manifest_of(&object)?);
    }
    for object in gather::list_if_installed::<MachineConfiguration>(client).await? {
        objects.push(manifest_of(&object)?);
    }
    // What is generated from a manifest counts, and not the manifest itself.
    for plan in generated {
        objects.retain(|old| old.kind != "MachineConfig" || !plan.delete.contains(&old.name));
        for config in &plan.apply {
            let new = manifest_of(config)?;
            objects.retain(|old| old.kind != "MachineConfig" || old.name != new.name);
            objects.push(new);
        }
    }
    for new in change.manifests.iter().filter(|new| !generated::is_typed(new)) {
        let same = |old: &Manifest| old.kind == new.kind && old.name == new.name;
        match objects.iter_mut().find(|old| same(old)) {
            Some(old) => *old = Manifest { value: laid_over(&old.value, &new.value), ..new.clone() },
            None => objects.push(new.clone()),
        }
    }
    Ok(Inputs::sort(objects, false)?)
}

pub(crate) fn manifest_of<K>(object: &K) -> anyhow::Result<Manifest>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut value = serde_json::to_value(object)?;
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    Ok(Manifest {
        origin: Origin { file: "the cluster".to_owned(), document: 1 },
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.meta().name.clone().unwrap_or_default(),
        value,
    })
}

/// An object as it would be: the user's spec in place of the old one, labels and annotations added to the old ones. What a
/// controller writes into a pool's spec stays.
pub(crate) fn laid_over(old: &Value, new: &Value) -> Value {
    let mut value = old.clone();
    for part in ["labels", "annotations"] {
        let Some(added) = new.pointer(&format!("/metadata/{part}")).and_then(Value::as_object) else { continue };
        if !value["metadata"][part].is_object() {
            value["metadata"][part] = Value::Object(serde_json::Map::new());
        }
        for (key, text) in added {
            value["metadata"][part][key] = text.clone();
        }
    }
    let configuration = old.pointer("/spec/configuration").cloned();
    value["spec"] = new.get("spec").cloned().unwrap_or_default();
    if let Some(configuration) = configuration.filter(|_| new["kind"] == "MachineConfigPool")
        && value["spec"].get("configuration").is_none()
    {
        value["spec"]["configuration"] = configuration;
    }
    value
}

/// What a pool would be given; nothing where it selects nothing.
fn render_pool(
    pool: &MachineConfigPool,
    inputs: &Inputs,
    configs: &[MachineConfig],
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<MachineConfig>> {
    let fragments = inputs.fragments.iter().map(|fragment| &fragment.config);
    if render::select(pool, fragments.clone())?.is_empty() {
        return Ok(None);
    }
    let settings = render::Settings {
        os_image: inputs.os_image.clone(),
        extensions_image: inputs.extensions_image.clone(),
        keep_remote: true,
        ..render::Settings::default()
    };
    let mut rendered = render::render(pool, fragments, &settings, &Fetched::default())?;
    notes.extend(rendered.warnings.iter().map(ToString::to_string));
    let present = pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.as_deref());
    if let Some(present) = present.and_then(|name| configs.iter().find(|config| config.name_any() == name)) {
        render::keep_name(&mut rendered, present);
    }
    Ok(Some(rendered.machine_config))
}

struct Draft<'a> {
    world: &'a World,
    inputs: &'a Inputs,
    configs: &'a [MachineConfig],
    /// Absent where they could not be read.
    pods: Option<&'a [Pod]>,
    daemon_sets: &'a Reading<BTreeSet<String>>,
    pool: &'a MachineConfigPool,
    new: &'a MachineConfig,
    reboot: SignedDuration,
}

impl Draft<'_> {
    /// The plan of one pool, and the change that most of its nodes would see; nothing if nothing is to do.
    fn plan(&self) -> anyhow::Result<Option<(PoolPlan, Comparison)>> {
        let (name, to) = (self.pool.name_any(), self.new.name_any());
        let from = self.pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.clone());
        let reach = waves::of(self.pool, &to, &self.world.objects, self.world.now);
        if from.as_deref() == Some(to.as_str()) && reach.waves.is_empty() && reach.left.is_empty() {
            return Ok(None);
        }
        let mut comparisons: BTreeMap<String, Comparison> = BTreeMap::new();
        let present = from.as_deref().and_then(|from| self.config(from));
        let main = crate::diff::compare_pair(
            Some(name.clone()),
            present.unwrap_or(&MachineConfig::default()),
            self.new,
            self.inputs,
        )?;
        let mut nodes = Vec::new();
        for node in reach.waves.iter().flatten().chain(reach.left.iter().map(|left| &left.node)) {
            let current = reach.current.get(node).cloned().flatten();
            let key = current.clone().unwrap_or_default();
            if !comparisons.contains_key(&key) {
                let old = current.as_deref().and_then(|current| self.config(current));
                let compared =
                    crate::diff::compare_pair(None, old.unwrap_or(&MachineConfig::default()), self.new, self.inputs)?;
                comparisons.insert(key.clone(), compared);
            }
            nodes.push(self.node(node, current, &comparisons[&key]));
        }
        let obstacles = main.obstacles.iter().map(ToString::to_string).collect();
        let Reach { waves, left, current: _ } = reach;
        let estimate_seconds = self.estimate(&waves, &nodes);
        let paused = self.pool.spec.paused.unwrap_or(false);
        let pause = Pause::of(self.pool);
        let plan = PoolPlan { pool: name, from, to, paused, pause, obstacles, nodes, waves, left, estimate_seconds };
        Ok(Some((plan, main)))
    }

    fn config(&self, name: &str) -> Option<&MachineConfig> {
        self.configs.iter().find(|config| config.name_any() == name)
    }

    fn node(&self, node: &str, from: Option<String>, comparison: &Comparison) -> NodePlan {
        let disruption = &comparison.disruption;
        let is_here = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
        let moved = |pods: &[Pod]| {
            let here = pods.iter().filter(is_here).map(PodFacts::from_object);
            let moved = here.filter(|pod| explain::decided::is_moved(pod, self.daemon_sets, self.world.now));
            moved.map(|pod| pod.full_name()).collect()
        };
        let pods = if disruption.drain { self.pods.map(moved) } else { Some(Vec::new()) };
        let (files, units, other) = comparison.subjects();
        NodePlan {
            node: node.to_owned(),
            from,
            files,
            units,
            other,
            disruption: disruption.class(),
            actions: disruption.actions.iter().map(ToString::to_string).collect(),
            drains: disruption.drain,
            pods,
            blocked: Vec::new(),
        }
    }

    /// Waves follow one another; within one the slowest node counts.
    fn estimate(&self, waves: &[Vec<String>], nodes: &[NodePlan]) -> i64 {
        let by_name: BTreeMap<&str, &NodePlan> = nodes.iter().map(|node| (node.node.as_str(), node)).collect();
        let of_node = |node: &String| by_name.get(node.as_str()).map_or(0, |node| self.seconds(node));
        waves.iter().map(|wave| wave.iter().map(of_node).max().unwrap_or(0)).sum()
    }

    fn seconds(&self, node: &NodePlan) -> i64 {
        let moved: BTreeSet<&str> = node.pods.iter().flatten().map(String::as_str).collect();
        let grace = self
            .pods
            .iter()
            .copied()
            .flatten()
            .filter(|pod| moved.contains(PodFacts::from_object(pod).full_name().as_str()));
        let grace = grace.filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds).max().unwrap_or(0);
        let act = match node.disruption {
            Class::None => 1,
            Class::DaemonReload | Class::Reload => 3,
            Class::Restart | Class::Drain => 10,
            Class::Reboot => self.reboot.as_secs(),
        };
        act + grace
    }
}

/// Tries every eviction without carrying it out.
async fn rehearse(client: &Client, plan: &mut Plan, notes: &mut Vec<String>) {
    let pods: BTreeSet<String> =
        plan.pools.iter().flat_map(|pool| &pool.nodes).flat_map(|node| node.pods.iter().flatten().cloned()).collect();
    let tries = futures::stream::iter(pods).map(|full| async move {
        let (namespace, name) = full.split_once('/').unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let evicted = api.evict(name, &EvictParams { post_options: dry, ..EvictParams::default() }).await;
        (full, evicted.err())
    });
    let refused: Vec<_> =
        tries.buffer_unordered(AT_ONCE).filter_map(|(pod, error)| async { Some((pod, error?)) }).collect().await;
    let mut why: BTreeMap<String, String> = BTreeMap::new();
    for (pod, error) in refused {
        match cluster::problem(&error) {
            cluster::Problem::NotFound => {}
            cluster::Problem::Forbidden => {
                let note = format!("budgets not rehearsed: {}", gather::right("create", "pods/eviction"));
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            _ => {
                why.insert(pod, message(&error));
            }
        }
    }
    for node in plan.pools.iter_mut().flat_map(|pool| &mut pool.nodes) {
        let held = node
            .pods
            .iter()
            .flatten()
            .filter_map(|pod| Some(BlockedPod { pod: pod.clone(), why: why.get(pod)?.clone() }));
        node.blocked = held.collect();
    }
}

fn message(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return error.to_string() };
    let causes = status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.message.as_str());
    let causes: Vec<_> = causes.filter(|cause| !status.message.contains(cause)).collect();
    if causes.is_empty() { status.message.clone() } else { format!("{} {}", status.message, causes.join(" ")) }
}
