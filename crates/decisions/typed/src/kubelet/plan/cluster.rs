//! `97-<pool>-generated-kubelet` and `98-<pool>-generated-kubelet`: what the Node config and the feature gates of the
//! cluster say.
//!
//! Custom pools that select the workers' configs get these with them; for other custom pools they are made as for workers.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::names::status::{FALSE, TRUE};
use api::names::{POOL_ARBITER, POOL_MASTER, POOL_WORKER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value, json};

use super::{Snapshot, dropin, inherits, name_of, place, reached, too_old};
use crate::conditions::ACCEPTED;
use crate::defaults;
use crate::duration;
use crate::fragment::{File, Fragment};
use crate::kubelet::gates::fault;
use crate::kubelet::{self, CONFIGURATION, Configured, apply_latency};
use crate::names;
use crate::plan::{Existing, Object, Plan, Standing, Update, note, seal, standing};
use crate::pools::template_role;
use crate::templates::profile::{Kubelet, Profile};
use crate::yaml;

/// Kernel arguments of the only version of control groups that is supported.
const CGROUPS: [&str; 2] = ["systemd.unified_cgroup_hierarchy=1", "cgroup_no_v1=\"all\""];

const MEDIUM: &str = "MediumUpdateAverageReaction";
const SLOW: &str = "LowUpdateSlowReaction";

/// What a pool's KubeletConfigs are put over: the template with gates and latency, or what workers have.
pub(super) fn base(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    results: &BTreeMap<String, Configured>,
) -> Result<Configured, String> {
    let is_known = |workers: &&Configured| inherits(pool) && !workers.configuration.is_empty();
    if let Some(workers) = results.get(POOL_WORKER).filter(is_known) {
        return Ok(workers.clone());
    }
    let mut configuration = template(snapshot, pool)?;
    add_known_gates(snapshot, pool, &mut configuration)?;
    if name_of(pool) == POOL_WORKER {
        apply_latency(&mut configuration, latency(snapshot).unwrap_or_default());
    }
    Ok(Configured { configuration, ..Configured::default() })
}

fn template(snapshot: &Snapshot, pool: &MachineConfigPool) -> Result<Map<String, Value>, String> {
    if !matches!(place(snapshot)?, Kubelet::Whole) {
        let head = json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"});
        return Ok(head.as_object().cloned().unwrap_or_default());
    }
    let role = template_role(pool);
    match snapshot.bases.get(&role) {
        Some(base) => base.clone(),
        None => Err(format!("there is no template for role {role}")),
    }
}

fn add_known_gates(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    configuration: &mut Map<String, Value>,
) -> Result<(), String> {
    let Some(gates) = known_gates(snapshot, pool).filter(|gates| !gates.is_empty()) else { return Ok(()) };
    let known = configuration.entry("featureGates").or_insert_with(|| json!({}));
    let Value::Object(known) = known else {
        return Err(format!("featureGates of the template must be a map of gates, but is {known}"));
    };
    known.extend(gates.iter().map(|(gate, is_on)| (gate.clone(), (*is_on).into())));
    Ok(())
}

/// The gates of the cluster that all kubelets take which would get them; nothing where it has no FeatureGate.
fn known_gates(snapshot: &Snapshot, pool: &MachineConfigPool) -> Option<BTreeMap<String, bool>> {
    let gates = kubelet::gates(snapshot.feature_gate.as_ref()?);
    let refused = refused_gates(snapshot, pool, &gates);
    Some(gates.into_iter().filter(|(gate, _)| !refused.contains_key(gate)).collect())
}

/// The gates that a kubelet which would get them exits on, each with the reason.
pub(super) fn refused_gates(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    gates: &BTreeMap<String, bool>,
) -> BTreeMap<String, String> {
    let minors =
        reached(snapshot, &[pool]).into_iter().filter_map(|pool| snapshot.strict.get(&name_of(pool))).flatten();
    let minors: BTreeSet<u64> = minors.copied().collect();
    let first_fault = |gate: &str, on: bool| minors.iter().find_map(|minor| fault(gate, on, *minor));
    gates.iter().filter_map(|(gate, on)| Some((gate.clone(), first_fault(gate, *on)?))).collect()
}

/// The profile in force. A jump over the middle one would mark every worker as lost before it has slowed down.
fn latency(snapshot: &Snapshot) -> Option<&str> {
    let asked = snapshot.node.as_ref()?.spec.worker_latency_profile.as_deref().unwrap_or_default();
    match present_latency(snapshot) {
        Some(present) if jumps(present, asked) => Some(present),
        Some(_) | None => Some(asked),
    }
}

/// Where a kubelet reads what these MachineConfigs say.
fn path(snapshot: &Snapshot, number: &str) -> String {
    match snapshot.profile.kubelet() {
        Kubelet::Dropin { folder, .. } => format!("{folder}/{number}-machinist.conf"),
        Kubelet::Whole | Kubelet::Unknown => CONFIGURATION.to_owned(),
    }
}

fn files(snapshot: &Snapshot, number: &str, content: &Map<String, Value>) -> Vec<File> {
    let file = File::new(path(snapshot, number), yaml::write(content));
    match snapshot.profile.kubelet() {
        Kubelet::Dropin { unit, .. } => dropin(unit, file),
        Kubelet::Whole | Kubelet::Unknown => vec![file],
    }
}

fn jumps(present: &str, asked: &str) -> bool {
    let is_default = |profile: &str| profile.is_empty() || profile == "Default";
    present == SLOW && is_default(asked) || is_default(present) && asked == SLOW
}

/// The profile that the workers' MachineConfig has now.
fn present_latency(snapshot: &Snapshot) -> Option<&'static str> {
    let name = names::node_config(POOL_WORKER);
    let live = snapshot.machine_configs.iter().find(|config| config.metadata.name.as_deref() == Some(&name))?;
    match note(live, annotations::ACCEPTED_SETTINGS) {
        Some(MEDIUM) => Some(MEDIUM),
        Some(SLOW) => Some(SLOW),
        Some(_) => Some("Default"),
        None => latency_of_file(&defaults::content(live, &path(snapshot, "97"))?),
    }
}

/// The profile that a kubelet's configuration was made for. Another controller notes none.
fn latency_of_file(text: &str) -> Option<&'static str> {
    let configuration: Map<String, Value> = serde_saphyr::from_str(text).ok()?;
    match duration::parse(configuration.get("nodeStatusUpdateFrequency")?.as_str()?)? / 1_000_000_000 {
        10 => Some("Default"),
        20 => Some(MEDIUM),
        60 => Some(SLOW),
        _ => None,
    }
}

/// Adds the two MachineConfigs of a pool to `wanted`.
pub(super) fn add(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    base: &Configured,
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
    plan: &mut Plan,
) {
    if inherits(pool) {
        return;
    }
    add_gates(snapshot, pool, base, existing, wanted, plan);
    add_node_config(snapshot, pool, base, existing, wanted, plan);
}

fn add_gates(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    base: &Configured,
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
    plan: &mut Plan,
) {
    let name = name_of(pool);
    let is_whole = matches!(place(snapshot), Ok(Kubelet::Whole));
    let Some(gates) = known_gates(snapshot, pool).filter(|gates| is_whole || !gates.is_empty()) else { return };
    if too_old(snapshot, pool).is_some() {
        return keep(names::features(&name), existing, wanted);
    }
    let mut content = base.configuration.clone();
    if !is_whole {
        content.insert("featureGates".to_owned(), json!(gates));
        content.remove("nodeStatusUpdateFrequency");
    }
    let fragment = Fragment::of_files(files(snapshot, "98", &content));
    put(snapshot, names::features(&name), &name, "FeatureGate cluster", "", &fragment, existing, wanted, plan);
}

fn add_node_config(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    base: &Configured,
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
    plan: &mut Plan,
) {
    let (name, config_name) = (name_of(pool), names::node_config(&name_of(pool)));
    let is_whole = matches!(place(snapshot), Ok(Kubelet::Whole));
    let Some(node) = &snapshot.node else { return };
    let latency = latency(snapshot).unwrap_or_default();
    if name == POOL_WORKER {
        tell_jump(snapshot, latency, plan);
    }
    let slows = name == POOL_WORKER && !latency.is_empty();
    let mut fragment = Fragment::default();
    if is_whole || slows {
        fragment = Fragment::of_files(files(snapshot, "97", &base.configuration));
    }
    let is_built_in = [POOL_MASTER, POOL_WORKER, POOL_ARBITER].contains(&name.as_str());
    let asks_groups = node.spec.cgroup_mode.as_deref().is_some_and(|mode| !mode.is_empty());
    if is_built_in && (snapshot.profile == Profile::OpenShift || asks_groups) {
        fragment.kernel_arguments = CGROUPS.map(str::to_owned).to_vec();
    }
    if slows && too_old(snapshot, pool).is_some() {
        if existing.standing(&config_name) == Standing::Ours {
            return keep(config_name, existing, wanted);
        }
        fragment.files.clear();
    }
    if !fragment.is_empty() {
        put(snapshot, config_name, &name, "Node cluster", latency, &fragment, existing, wanted, plan);
    }
}

/// Leaves the two MachineConfigs of a pool as they are, while nobody can say what they should be.
pub(super) fn hold(pool: &MachineConfigPool, existing: &Existing<'_>, wanted: &mut BTreeMap<String, MachineConfig>) {
    let name = name_of(pool);
    for name in [names::features(&name), names::node_config(&name)] {
        keep(name, existing, wanted);
    }
}

fn keep(name: String, existing: &Existing<'_>, wanted: &mut BTreeMap<String, MachineConfig>) {
    if let Some(live) = existing.get(&name).filter(|live| standing(live) == Standing::Ours) {
        wanted.insert(name, live.clone());
    }
}

/// Says on the Node config whether it is in force.
fn tell_jump(snapshot: &Snapshot, in_force: &str, plan: &mut Plan) {
    let Some(node) = &snapshot.node else { return };
    let asked = node.spec.worker_latency_profile.as_deref().unwrap_or_default();
    let problem = jumps(in_force, asked).then(|| {
        format!(
            "Skipping the Update Node event, name: cluster, transition not allowed from old WorkerLatencyProfile: {in_force:?} to new WorkerLatencyProfile: {asked:?}; go over MediumUpdateAverageReaction"
        )
    });
    let known = node.status.iter().flat_map(|status| &status.conditions).find(|it| it.type_ == ACCEPTED);
    let (status, reason) = if problem.is_some() { (FALSE, "ActionProhibited") } else { (TRUE, "AsExpected") };
    let message = problem.clone().unwrap_or_default();
    if known.is_some_and(|it| it.status == status && it.message == message) || known.is_none() && problem.is_none() {
        return;
    }
    let object = Object::new("Node", "cluster");
    if let Some(problem) = problem {
        plan.warn(object.clone(), "ActionProhibited", problem);
    }
    let others = node.status.iter().flat_map(|status| &status.conditions).filter(|it| it.type_ != ACCEPTED);
    let condition = Condition {
        type_: ACCEPTED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(snapshot.now),
        observed_generation: node.metadata.generation,
    };
    plan.update(Update {
        object,
        annotations: BTreeMap::new(),
        finalizers: None,
        // The list is written whole, so it has to keep what others wrote.
        status: Some(json!({"conditions": others.chain([&condition]).collect::<Vec<_>>()})),
    });
}

#[allow(clippy::too_many_arguments, reason = "what a MachineConfig is made of")]
fn put(
    snapshot: &Snapshot,
    name: String,
    pool: &str,
    from: &str,
    settings: &str,
    fragment: &Fragment,
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
    plan: &mut Plan,
) {
    let replaces = match existing.standing(&name) {
        Standing::Missing | Standing::Ours => true,
        Standing::Users => {
            let noted = existing.get(&name).map(|live| plan.stand_aside(live, from));
            wanted.extend(noted.map(|noted| (name.clone(), noted)));
            false
        }
        Standing::Foreign if snapshot.adopt.contains(&name) => true,
        Standing::Foreign => {
            let gates = snapshot.feature_gate.as_ref().map(kubelet::gates);
            let inputs = json!([snapshot.node.as_ref().map(|node| &node.spec), gates]);
            plan.has_changed(&name, &inputs, &snapshot.inputs)
        }
    };
    if !replaces {
        return;
    }
    let mut config = fragment.machine_config(&name, pool, &snapshot.version, None);
    let notes = config.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::ACCEPTED_SETTINGS.to_owned(), settings.to_owned());
    wanted.insert(name, seal(config, from));
}
