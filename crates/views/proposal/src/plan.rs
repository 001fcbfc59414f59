//! What a change comes to: the pools it renders anew, the nodes it reaches, the pods it moves.

use std::collections::{BTreeMap, BTreeSet};

use api::known::Reading;
use api::labels::ROLE;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::machinist::TrialPolicy;
use api::names::RENDERED_PREFIX;
use api::pause::Pause;
use change::disruption::Class;
use drain::{DisruptionBudget, PodFacts};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use render::Fetched;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::comparison::{self, Comparison};
use crate::generated;
use crate::inputs::Inputs;
use crate::manifest::{self, Manifest};
use crate::request::{Change, laid_over};
use crate::waves::{self, Reach};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no MachineConfig {0} to delete")]
    NothingToDelete(String),
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error(transparent)]
    Render(#[from] render::Error),
    #[error(transparent)]
    Compare(#[from] comparison::Error),
    #[error("cannot write an object of the cluster as JSON")]
    Write(#[from] serde_json::Error),
}

/// What the change would do. The same words for people and for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub pools: Vec<PoolPlan>,
    /// How long it takes, if nothing gets in its way.
    pub estimate_seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolPlan {
    pub pool: String,
    /// The rendered config that the pool wants now, and the one it would want.
    pub from: Option<String>,
    pub to: String,
    /// The pool is paused: nothing moves until it is not.
    pub paused: bool,
    /// Who paused it, why and until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// How long the target has to stay the same before a node gets it, where the pool's policy says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<i64>,
    /// What each node has to pass after the change beyond the built-in checks, where the pool's policy says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// Why no running node could make the change; nothing would be rolled out then.
    pub obstacles: Vec<String>,
    pub nodes: Vec<NodePlan>,
    /// Which nodes go together, in order.
    pub waves: Vec<Vec<String>>,
    /// Nodes that would not be reached, and why.
    pub left: Vec<Left>,
    pub estimate_seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePlan {
    pub node: String,
    pub from: Option<String>,
    pub files: Vec<String>,
    pub units: Vec<String>,
    pub other: Vec<String>,
    pub disruption: Class,
    pub actions: Vec<String>,
    pub drains: bool,
    /// Pods that would move, as `namespace/name`; absent where pods could not be read.
    pub pods: Option<Vec<String>>,
    /// Pods whose budget would hold the drain now.
    pub blocked: Vec<BlockedPod>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockedPod {
    pub pod: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Left {
    pub node: String,
    pub why: String,
}

impl Plan {
    /// Whether every pool stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Every pod that would move, as `namespace/name`.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<String> {
        let nodes = self.pools.iter().flat_map(|pool| &pool.nodes);
        nodes.flat_map(|node| node.pods.iter().flatten().cloned()).collect()
    }

    /// Notes why pods would not be evicted now.
    pub fn block(&mut self, why: &BTreeMap<String, String>) {
        for node in self.pools.iter_mut().flat_map(|pool| &mut pool.nodes) {
            let pods = node.pods.iter().flatten();
            let held = pods.filter_map(|pod| Some(BlockedPod { pod: pod.clone(), why: why.get(pod)?.clone() }));
            node.blocked = held.collect();
        }
    }
}

/// A plan, and what was found on the way to it.
pub struct Proposal {
    pub plan: Plan,
    /// For each pool of the plan, the change from what most of its nodes run.
    pub comparisons: BTreeMap<String, Comparison>,
    pub notes: Vec<String>,
    /// Nodes that are not what their pool wants now, whatever the plan is about.
    pub unwell: Vec<Left>,
}

/// What to say where no pool would change.
#[must_use]
pub fn nothing_to_do(unwell: &[Left]) -> String {
    let stays = "Nothing to do: every pool would stay as it is";
    match unwell {
        [] => format!("{stays}, and every node has what its pool wants."),
        [_] => format!("{stays}. 1 node is not what its pool wants, and `machinist why node` says what to do:"),
        more => {
            let count = more.len();
            format!("{stays}. {count} nodes are not what their pools want, and `machinist why node` says what to do:")
        }
    }
}

/// The pods that drains would be about, and what decides whether each of them goes.
#[derive(Default)]
pub struct Drains {
    /// Absent where they could not be read.
    pub pods: Option<Vec<Pod>>,
    pub daemon_sets: Reading<BTreeSet<String>>,
}

/// The configs that pools would be given. Whether pods have to be read for the plan is known only now.
pub struct Draft<'a> {
    cluster: &'a Cluster,
    inputs: Inputs,
    changed: Vec<(MachineConfigPool, MachineConfig)>,
    notes: Vec<String>,
}

impl<'a> Draft<'a> {
    /// Renders the world after the change; `generated` is what typed configuration would come to.
    ///
    /// # Errors
    /// When an object does not fit its kind, cannot be rendered, or is not there to be deleted.
    pub fn new(cluster: &'a Cluster, change: &Change, generated: &[typed::plan::Plan]) -> Result<Self, Error> {
        let mut notes = generated::refusals(generated);
        let inputs = after(cluster, change, generated)?;
        notes.extend(inputs.warnings.iter().cloned());
        let mut changed = Vec::new();
        for pool in &inputs.pools {
            // Pools that exist nowhere are only assumed when somebody works offline.
            let is_known = cluster.pools.iter().any(|it| it.name_any() == pool.name_any())
                || change.manifests.iter().any(|it| it.kind == "MachineConfigPool" && it.name == pool.name_any());
            if is_known && let Some(new) = render_pool(pool, &inputs, cluster, &mut notes)? {
                changed.push((pool.clone(), new));
            }
        }
        Ok(Self { cluster, inputs, changed, notes })
    }

    /// Whether no pool would have a config, so that no pod has to be looked at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// The plan; `reboot` is how long one reboot takes.
    ///
    /// # Errors
    /// When two configs cannot be compared.
    pub fn plan(self, drains: &Drains, reboot: SignedDuration) -> Result<Proposal, Error> {
        let mut comparisons = BTreeMap::new();
        let mut pools = Vec::new();
        for (pool, new) in &self.changed {
            let pool = PoolDraft { cluster: self.cluster, inputs: &self.inputs, drains, pool, new, reboot };
            if let Some((planned, comparison)) = pool.plan()? {
                comparisons.insert(planned.pool.clone(), comparison);
                pools.push(planned);
            }
        }
        let estimate_seconds = pools.iter().map(|pool| pool.estimate_seconds).max().unwrap_or(0);
        let plan = Plan { pools, estimate_seconds };
        Ok(Proposal { plan, comparisons, notes: self.notes, unwell: self.cluster.unwell() })
    }
}

/// Pods that their budgets would keep now, by `namespace/name`, with a sentence each. What evictions that are only tried would
/// say, for whoever may not try them.
#[must_use]
pub fn kept_by_budgets(pods: &[Pod], budgets: &[PodDisruptionBudget]) -> BTreeMap<String, String> {
    let budgets: Vec<_> = budgets.iter().map(DisruptionBudget::from_object).collect();
    let kept = pods.iter().map(PodFacts::from_object).filter_map(|pod| {
        let protecting: Vec<_> = budgets.iter().filter(|budget| budget.protects(&pod)).collect();
        let why = match protecting.as_slice() {
            [] => None,
            [budget] => (budget.disruptions_allowed < 1)
                .then(|| format!("its disruption budget {} lets no pod go now", budget.name)),
            several => {
                let names: Vec<_> = several.iter().map(|budget| budget.name.as_str()).collect();
                Some(format!(
                    "several disruption budgets protect it, and no eviction is allowed then: {}",
                    names.join(", ")
                ))
            }
        };
        Some((pod.full_name(), why?))
    });
    kept.collect()
}

/// The world after the change: the cluster's objects, with the user's laid over them.
fn after(cluster: &Cluster, change: &Change, generated: &[typed::plan::Plan]) -> Result<Inputs, Error> {
    let mut objects: Vec<Manifest> = Vec::new();
    let has_role =
        |config: &&MachineConfig| config.labels().contains_key(ROLE) && !config.name_any().starts_with(RENDERED_PREFIX);
    let kept = |config: &&MachineConfig| !change.deletes.contains(&config.name_any());
    for config in cluster.configs.iter().filter(has_role).filter(kept) {
        objects.push(Manifest::of(config)?);
    }
    if let Some(name) = change.deletes.iter().find(|name| cluster.config(name).is_none()) {
        return Err(Error::NothingToDelete(name.clone()));
    }
    for pool in &cluster.pools {
        objects.push(Manifest::of(pool)?);
    }
    for object in &cluster.controller_configs {
        objects.push(Manifest::of(object)?);
    }
    for object in &cluster.settings {
        objects.push(Manifest::of(object)?);
    }
    for object in &cluster.policies {
        objects.push(Manifest::of(object)?);
    }
    // What is generated from a manifest counts, and not the manifest itself.
    for plan in generated {
        objects.retain(|old| old.kind != "MachineConfig" || !plan.delete.contains(&old.name));
        for config in &plan.apply {
            let new = Manifest::of(config)?;
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

/// What a pool would be given; nothing where it selects nothing.
fn render_pool(
    pool: &MachineConfigPool,
    inputs: &Inputs,
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> Result<Option<MachineConfig>, Error> {
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
    if let Some(present) = present.and_then(|name| cluster.config(name)) {
        render::keep_name(&mut rendered, present);
    }
    Ok(Some(rendered.machine_config))
}

/// What a pool's policy demands of a node after a change.
fn trial(policy: &TrialPolicy) -> Option<String> {
    if policy.checks.is_empty() {
        return None;
    }
    let checks = policy.checks.iter().map(|check| {
        let what = [("unit", &check.unit), ("tcp", &check.tcp), ("http", &check.http)];
        let what = what.into_iter().find_map(|(kind, value)| Some(format!("{kind} {}", value.as_ref()?)));
        format!("{} ({})", check.name, what.unwrap_or_default())
    });
    let checks = checks.collect::<Vec<_>>().join(", ");
    let deadline = policy.deadline.as_deref().unwrap_or("10m");
    Some(format!("each node has {deadline} to pass its checks and {checks}, or goes back"))
}

/// One pool on the way to its plan.
struct PoolDraft<'a> {
    cluster: &'a Cluster,
    inputs: &'a Inputs,
    drains: &'a Drains,
    pool: &'a MachineConfigPool,
    new: &'a MachineConfig,
    reboot: SignedDuration,
}

impl PoolDraft<'_> {
    /// The plan of one pool, and the change that most of its nodes would see; nothing if nothing is to do.
    fn plan(&self) -> Result<Option<(PoolPlan, Comparison)>, Error> {
        let (name, to) = (self.pool.name_any(), self.new.name_any());
        let from = self.pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.clone());
        let reach = waves::of(self.pool, self.new, self.cluster);
        if from.as_deref() == Some(to.as_str()) && reach.waves.is_empty() && reach.left.is_empty() {
            return Ok(None);
        }
        let mut comparisons: BTreeMap<String, Comparison> = BTreeMap::new();
        let present = from.as_deref().and_then(|from| self.cluster.config(from));
        let none = MachineConfig::default();
        let main = Comparison::of(Some(name.clone()), present.unwrap_or(&none), self.new, self.inputs)?;
        let mut nodes = Vec::new();
        for node in reach.waves.iter().flatten().chain(reach.left.iter().map(|left| &left.node)) {
            let current = reach.current.get(node).cloned().flatten();
            let key = current.clone().unwrap_or_default();
            if !comparisons.contains_key(&key) {
                let old = current.as_deref().and_then(|current| self.cluster.config(current));
                let compared = Comparison::of(None, old.unwrap_or(&none), self.new, self.inputs)?;
                comparisons.insert(key.clone(), compared);
            }
            nodes.push(self.node(node, current, &comparisons[&key]));
        }
        let Reach { waves, left, refused, current: _ } = reach;
        let obstacles = main.obstacles.iter().map(ToString::to_string).chain(refused).collect();
        let policy = self.cluster.policy(&name);
        let settle_seconds =
            policy.and_then(rollout::snapshot::settle).map(|settle| settle.as_secs()).filter(|it| *it > 0);
        let trial = policy.and_then(|policy| policy.spec.trial.as_ref()).and_then(trial);
        let estimate_seconds =
            self.estimate(&waves, &nodes) + settle_seconds.filter(|_| !waves.is_empty()).unwrap_or(0);
        let paused = self.pool.spec.paused.unwrap_or(false);
        let pause = Pause::of(self.pool);
        let plan = PoolPlan {
            pool: name,
            from,
            to,
            paused,
            pause,
            settle_seconds,
            trial,
            obstacles,
            nodes,
            waves,
            left,
            estimate_seconds,
        };
        Ok(Some((plan, main)))
    }

    fn node(&self, node: &str, from: Option<String>, comparison: &Comparison) -> NodePlan {
        let disruption = &comparison.disruption;
        let is_here = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
        let moved = |pods: &[Pod]| {
            let here = pods.iter().filter(is_here).map(PodFacts::from_object);
            let moved = here.filter(|pod| drain::eviction::is_moved(pod, &self.drains.daemon_sets, self.cluster.now));
            moved.map(|pod| pod.full_name()).collect()
        };
        let pods = if disruption.drain { self.drains.pods.as_deref().map(moved) } else { Some(Vec::new()) };
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
            .drains
            .pods
            .iter()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_tells_how_long_the_policy_lets_a_target_settle_and_what_it_tries() {
        let kind = |kind: &str, name: &str| {
            let group =
                if kind == "PoolPolicy" { "machinist.dev/v1alpha1" } else { "machineconfiguration.openshift.io/v1" };
            json!({"apiVersion": group, "kind": kind, "metadata": {"name": name}})
        };
        let mut pool = kind("MachineConfigPool", "worker");
        pool["spec"] = json!({
            "nodeSelector": {"matchLabels": {"pool": "worker"}}, "machineConfigSelector": {"matchLabels": {ROLE: "worker"}},
        });
        let mut config = kind("MachineConfig", "50-motd");
        config["metadata"]["labels"] = json!({ROLE: "worker"});
        config["spec"] = json!({"config": {"ignition": {"version": "3.2.0"}}});
        let mut policy = kind("PoolPolicy", "worker");
        let checks = json!([{"name": "shop", "unit": "shop.service"}]);
        policy["spec"] = json!({"settle": "1m", "trial": {"deadline": "5m", "checks": checks}});
        let node = json!({"metadata": {"name": "one", "labels": {"pool": "worker"}, "resourceVersion": "5"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let cluster = Cluster {
            pools: vec![serde_json::from_value(pool).expect("a pool")],
            configs: vec![serde_json::from_value(config).expect("a config")],
            pool_policies: vec![serde_json::from_value(policy).expect("a policy")],
            nodes: vec![serde_json::from_value(node).expect("a node")],
            ..Cluster::default()
        };
        let change = Change::new(Vec::new(), Vec::new()).expect("a change");
        let draft = Draft::new(&cluster, &change, &[]).expect("a draft");
        let proposal = draft.plan(&Drains::default(), SignedDuration::from_secs(180)).expect("a plan");
        let plan = &proposal.plan.pools[0];
        assert_eq!(plan.waves, [["one"]]);
        assert_eq!(plan.settle_seconds, Some(60));
        assert!(plan.estimate_seconds >= 60, "{}", plan.estimate_seconds);
        let trial = "each node has 5m to pass its checks and shop (unit shop.service), or goes back";
        assert_eq!(plan.trial.as_deref(), Some(trial));
    }
}
