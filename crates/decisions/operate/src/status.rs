//! How the operator's state reads: the status of `ClusterOperator/machine-config`.
//!
//! Progressing follows rollouts, so that it tells whether nodes are being changed. One trouble never hides another.

use api::config::{ClusterOperatorCondition, ClusterOperatorRelatedObject, ClusterOperatorStatus, OperandVersion};
use api::labels;
use api::machineconfiguration::MachineConfigPool;
use api::names::{self, pool_condition, status};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::objects::Step;
use crate::trouble::{Trouble, Workload};

/// What the status is made from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub now: Timestamp,
    pub namespace: String,
    pub version: String,
    pub image: String,
    pub present: ClusterOperatorStatus,
    /// Everything was written at least once.
    pub synced: bool,
    pub troubles: Vec<Trouble>,
    pub workloads: Vec<Workload>,
    pub pools: Vec<MachineConfigPool>,
}

pub fn plan(snapshot: &Snapshot) -> ClusterOperatorStatus {
    let mut troubles = snapshot.troubles.clone();
    troubles.extend(snapshot.workloads.iter().filter_map(stuck));
    troubles.extend(snapshot.pools.iter().filter_map(degraded_pool));
    troubles.sort();
    troubles.dedup();
    let deployed = snapshot.synced && waiting_for(snapshot).is_none();
    let progressing = progressing(snapshot, &troubles, deployed);
    let keeps_version = progressing.status == status::TRUE && !troubles.is_empty();
    // A first installation replaces no older version, so its own need not wait for the first rollout.
    let is_first = snapshot.present.versions.is_empty() && snapshot.synced && all_run(snapshot);
    let is_reached = (deployed && !keeps_version) || is_first;
    let versions = if is_reached { own_versions(snapshot) } else { snapshot.present.versions.clone() };
    let conditions =
        vec![available(snapshot, &versions), progressing, degraded(snapshot, &troubles), upgradeable(snapshot)];
    ClusterOperatorStatus {
        extension: Some(extension(snapshot, &troubles, &conditions)),
        conditions: conditions.into_iter().map(|condition| timed(condition, &snapshot.present, snapshot.now)).collect(),
        related_objects: related(&snapshot.namespace),
        versions,
    }
}

fn own_versions(snapshot: &Snapshot) -> Vec<OperandVersion> {
    let version = |name: &str, version: &str| OperandVersion { name: name.to_owned(), version: version.to_owned() };
    vec![version("operator", &snapshot.version), version("operator-image", &snapshot.image)]
}

fn all_run(snapshot: &Snapshot) -> bool {
    !snapshot.workloads.is_empty() && snapshot.workloads.iter().all(Workload::is_ready)
}

/// What has to happen before this version counts as deployed.
fn waiting_for(snapshot: &Snapshot) -> Option<String> {
    let workload = snapshot.workloads.iter().find(|workload| !workload.is_ready()).map(Workload::describe);
    workload.or_else(|| snapshot.pools.iter().find_map(required_pool))
}

/// A required pool that is not at its newest config, in upstream's words.
fn required_pool(pool: &MachineConfigPool) -> Option<String> {
    if !has_label(pool, labels::REQUIRED_FOR_UPGRADE) {
        return None;
    }
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let [total, ready, updated, unavailable, degraded] = counts(pool);
    // Without a MachineConfig for it there is nothing that its nodes could be brought to.
    if total == 0 || is(pool, pool_condition::UPDATED) || target(pool).is_empty() {
        return None;
    }
    if pool.spec.paused == Some(true) {
        return Some(format!("required MachineConfigPool {name} is paused and cannot sync until it is unpaused"));
    }
    Some(format!(
        "required MachineConfigPool {name} is not ready, retrying. Status: (total: {total}, ready {ready}, updated: {updated}, \
         unavailable: {unavailable}, degraded: {degraded})"
    ))
}

fn stuck(workload: &Workload) -> Option<Trouble> {
    let why = workload.stuck.as_ref()?;
    (!workload.is_ready()).then(|| Trouble::new(workload.step, format!("{}: {why}", workload.describe())))
}

fn degraded_pool(pool: &MachineConfigPool) -> Option<Trouble> {
    if !is(pool, pool_condition::DEGRADED) {
        return None;
    }
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let [total, ready, updated, unavailable, _] = counts(pool);
    let reason = message(pool, pool_condition::DEGRADED);
    let reason = if reason.is_empty() { message(pool, pool_condition::NODE_DEGRADED) } else { reason };
    Some(Trouble::new(
        Step::RequiredPools,
        format!(
            "MachineConfigPool {name} is not ready, retrying. Status: (pool degraded: true total: {total}, ready {ready}, \
             updated: {updated}, unavailable: {unavailable}, reason: {reason})"
        ),
    ))
}

fn available(snapshot: &Snapshot, versions: &[OperandVersion]) -> ClusterOperatorCondition {
    let was = snapshot.present.conditions.iter().any(|one| one.type_ == "Available" && one.status == status::TRUE);
    if !snapshot.synced && !was {
        return condition("Available", false, "NotYetDeployed", "the objects of machine configuration are being made");
    }
    let list: Vec<String> = versions.iter().map(|one| format!("{{{} {}}}", one.name, one.version)).collect();
    let list = if list.is_empty() { snapshot.version.clone() } else { format!("[{}]", list.join(" ")) };
    let absent = snapshot.workloads.iter().find_map(absent_server).unwrap_or_default();
    condition("Available", true, "AsExpected", format!("Cluster has deployed {list}{absent}"))
}

/// A config server that no node takes is no fault of the installation, but whoever makes machines has to know.
fn absent_server(workload: &Workload) -> Option<String> {
    let is_absent = workload.id.name == crate::workloads::SERVER && workload.observed && workload.wanted == 0;
    is_absent.then(|| {
        format!(
            "; {} runs on no node, because none has the label {} or {}, so new machines cannot fetch their config here",
            workload.id.name,
            labels::NODE_ROLE_CONTROL_PLANE,
            labels::NODE_ROLE_MASTER
        )
    })
}

fn progressing(snapshot: &Snapshot, troubles: &[Trouble], deployed: bool) -> ClusterOperatorCondition {
    let version = &snapshot.version;
    let reported = snapshot.present.versions.iter().find(|one| one.name == "operator").map(|one| &one.version);
    let is_new = reported != Some(version) && !(deployed && troubles.is_empty());
    if is_new && !troubles.is_empty() {
        return condition("Progressing", true, "UnableToApply", format!("Unable to apply {version}"));
    }
    if is_new {
        let verb = if reported.is_none() { "Cluster is bootstrapping" } else { "Working towards" };
        let what = waiting_for(snapshot).map(|what| format!(": {what}")).unwrap_or_default();
        return condition("Progressing", true, "WorkingTowards", format!("{verb} {version}{what}"));
    }
    let rolling: Vec<String> = snapshot
        .pools
        .iter()
        .filter(|pool| is(pool, pool_condition::UPDATING))
        .map(|pool| format!("pool {}: {}", pool.metadata.name.as_deref().unwrap_or_default(), describe(pool)))
        .collect();
    if !rolling.is_empty() {
        return condition("Progressing", true, "PoolsUpdating", rolling.join("; "));
    }
    if let Some(waiting) = snapshot.workloads.iter().find(|workload| !workload.is_ready()) {
        return condition("Progressing", true, "WorkloadsUpdating", waiting.describe());
    }
    if troubles.is_empty() {
        condition("Progressing", false, "AsExpected", format!("Cluster version is {version}"))
    } else {
        condition("Progressing", false, "AsExpected", format!("Error while reconciling {version}"))
    }
}

fn degraded(snapshot: &Snapshot, troubles: &[Trouble]) -> ClusterOperatorCondition {
    let Some(first) = troubles.first() else {
        return condition("Degraded", false, "AsExpected", "");
    };
    let version = &snapshot.version;
    let is_reported = snapshot.present.versions.iter().any(|one| one.name == "operator" && one.version == *version);
    let all: Vec<&str> = troubles.iter().map(|trouble| trouble.message.as_str()).collect();
    let all = all.join("; ");
    let text = if is_reported {
        format!("Failed to resync {version} because: {all}")
    } else {
        format!("Unable to apply {version}: {all}")
    };
    condition("Degraded", true, &format!("{}Failed", first.step), text)
}

/// A custom pool that is degraded stops nobody from upgrading the cluster; the built-in ones do.
fn upgradeable(snapshot: &Snapshot) -> ClusterOperatorCondition {
    let is_built_in = |pool: &&MachineConfigPool| {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        has_label(pool, labels::MCO_BUILT_IN) || [names::POOL_MASTER, names::POOL_WORKER].contains(&name)
    };
    let degraded: Vec<&str> = snapshot
        .pools
        .iter()
        .filter(is_built_in)
        .filter(|pool| is(pool, pool_condition::DEGRADED))
        .filter_map(|pool| pool.metadata.name.as_deref())
        .collect();
    if degraded.is_empty() {
        return condition("Upgradeable", true, "AsExpected", "");
    }
    let text = format!(
        "One or more machine config pools are degraded, please see `oc get mcp` for further details and resolve before \
         upgrading: {}",
        degraded.join(", ")
    );
    condition("Upgradeable", false, "DegradedPool", text)
}

pub(crate) fn condition(
    type_: &str,
    is_true: bool,
    reason: &str,
    message: impl Into<String>,
) -> ClusterOperatorCondition {
    let message = message.into();
    ClusterOperatorCondition {
        type_: type_.to_owned(),
        status: if is_true { status::TRUE } else { status::FALSE }.to_owned(),
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then_some(message),
        last_transition_time: None,
    }
}

/// A condition's time moves only with its status.
pub(crate) fn timed(
    mut condition: ClusterOperatorCondition,
    present: &ClusterOperatorStatus,
    now: Timestamp,
) -> ClusterOperatorCondition {
    let old = present.conditions.iter().find(|old| old.type_ == condition.type_ && old.status == condition.status);
    let since = old.and_then(|old| old.last_transition_time.clone());
    condition.last_transition_time = since.or(Some(Time(now)));
    condition
}

fn extension(snapshot: &Snapshot, troubles: &[Trouble], conditions: &[ClusterOperatorCondition]) -> Value {
    let mut map = Map::new();
    if let Some(message) = headline(conditions) {
        map.insert("message".to_owned(), message.into());
    }
    for pool in &snapshot.pools {
        map.insert(pool.metadata.name.clone().unwrap_or_default(), describe(pool).into());
    }
    if let Some(first) = troubles.first() {
        map.insert("lastSyncError".to_owned(), first.message.clone().into());
    }
    Value::Object(map)
}

/// What the column MESSAGE shows: what is wrong, or else what is going on. Nothing while all is well.
pub(crate) fn headline(conditions: &[ClusterOperatorCondition]) -> Option<String> {
    let find = |type_: &str, status: &str| {
        conditions.iter().find(|one| one.type_ == type_ && one.status == status).and_then(|one| one.message.clone())
    };
    find("Degraded", status::TRUE)
        .or_else(|| find("Available", status::FALSE))
        .or_else(|| find("Progressing", status::TRUE))
}

/// Where a pool stands, in upstream's words.
pub fn describe(pool: &MachineConfigPool) -> String {
    let target = target(pool);
    let [total, ready, updated, ..] = counts(pool);
    if is(pool, pool_condition::RENDER_DEGRADED) {
        let (reason, text) =
            (reason(pool, pool_condition::RENDER_DEGRADED), message(pool, pool_condition::RENDER_DEGRADED));
        format!("pool is degraded because rendering fails with \"{reason}\": \"{text}\"")
    } else if is(pool, pool_condition::NODE_DEGRADED) || is(pool, pool_condition::DEGRADED) {
        let (reason, text) =
            (reason(pool, pool_condition::NODE_DEGRADED), message(pool, pool_condition::NODE_DEGRADED));
        format!("pool is degraded because nodes fail with \"{reason}\": \"{text}\"")
    } else if is(pool, pool_condition::UPDATED) {
        format!("all {total} nodes are at latest configuration {target}")
    } else if is(pool, pool_condition::UPDATING) {
        format!("{updated} (ready {ready}) out of {total} nodes are updating to latest configuration {target}")
    } else {
        "<unknown>".to_owned()
    }
}

fn target(pool: &MachineConfigPool) -> &str {
    pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.as_deref()).unwrap_or_default()
}

fn counts(pool: &MachineConfigPool) -> [i32; 5] {
    let Some(status) = &pool.status else { return [0; 5] };
    [
        status.machine_count,
        status.ready_machine_count,
        status.updated_machine_count,
        status.unavailable_machine_count,
        status.degraded_machine_count,
    ]
    .map(|count| count.unwrap_or(0))
}

fn has_label(pool: &MachineConfigPool, label: &str) -> bool {
    pool.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label))
}

fn is(pool: &MachineConfigPool, type_: &str) -> bool {
    found(pool, type_).is_some_and(|condition| condition.status == status::TRUE)
}

fn reason(pool: &MachineConfigPool, type_: &str) -> String {
    found(pool, type_).map(|condition| condition.reason.clone()).unwrap_or_default()
}

/// The beginning of a condition's message: a pool says more of its nodes than belongs into the operator's status, which
/// speaks of all pools.
fn message(pool: &MachineConfigPool, type_: &str) -> String {
    const MOST: usize = 1_000;
    let message = found(pool, type_).map(|condition| condition.message.as_str()).unwrap_or_default();
    match message.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

fn found<'a>(
    pool: &'a MachineConfigPool,
    type_: &str,
) -> Option<&'a api::machineconfiguration::MachineConfigPoolCondition> {
    pool.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
}

/// What to look at when something is wrong; `must-gather` and its kin collect it.
fn related(namespace: &str) -> Vec<ClusterOperatorRelatedObject> {
    let object = |group: &str, resource: &str, name: &str| ClusterOperatorRelatedObject {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    let mco = "machineconfiguration.openshift.io";
    let rbac = "rbac.authorization.k8s.io";
    let mut all = vec![
        object("", "namespaces", namespace),
        object(mco, "machineconfigpools", ""),
        object(mco, "controllerconfigs", ""),
        object(mco, "kubeletconfigs", ""),
        object(mco, "containerruntimeconfigs", ""),
        object(mco, "machineconfigs", ""),
        object(mco, "machineconfignodes", ""),
        object("operator.openshift.io", "machineconfigurations", ""),
        object("machinist.dev", "poolledgers", ""),
        object("", "nodes", ""),
    ];
    for name in
        [crate::workloads::OPERATOR, crate::workloads::CONTROLLER, crate::workloads::SERVER, crate::workloads::DAEMON]
    {
        all.push(object(rbac, "clusterroles", name));
        all.push(object(rbac, "clusterrolebindings", name));
    }
    all
}

/// The object that the status belongs to.
pub fn object() -> Value {
    named(names::CLUSTER_OPERATOR)
}

pub(crate) fn named(name: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": name, "labels": {labels::PART_OF: labels::PART_OF_MACHINIST}},
        "spec": {},
    })
}
