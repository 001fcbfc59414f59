//! Plans the MachineConfigs of all KubeletConfigs, of the feature gates and of the Node config.
//!
//! Every generated `99-<pool>-generated-kubelet[-n]` holds its own KubeletConfig and those generated before it, merged field
//! by field in the order of the KubeletConfigs' names; so the last one, which wins on the node, holds all of them. A custom
//! pool that selects the workers' configs starts from what workers have.
//!
//! A KubeletConfig that cannot be applied is told so and left out, or stays as it was accepted last. It stops nobody else.

mod cluster;
mod pool;
mod remarks;

use std::collections::{BTreeMap, BTreeSet};

use api::config::{ApiServer, FeatureGate, Node};
use api::machineconfiguration::{KubeletConfig, MachineConfig, MachineConfigPool, MachineConfigSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Configured, Error, Settings, limits};
use crate::claim::{self, Configuration, Subject};
use crate::conditions;
use crate::fragment::File;
use crate::names;
use crate::plan::{Existing, Plan};
use crate::pools::{self, inherits, name_of, ordered};
use crate::templates::profile::{Kubelet, Profile, UnitDropin};

const SUBJECT: Subject =
    Subject { kind: "KubeletConfig", names: names::Kind::Kubelet, no_name: "could not get kubelet config key" };

type Claim<'a> = claim::Claim<'a, Settings>;

/// What the planner looks at. All lists are complete.
#[derive(Clone)]
pub struct Snapshot {
    pub now: Timestamp,
    /// Version of the controller, which generated MachineConfigs are stamped with.
    pub version: String,
    pub profile: Profile,
    pub pools: Vec<MachineConfigPool>,
    pub kubelet_configs: Vec<KubeletConfig>,
    pub machine_configs: Vec<MachineConfig>,
    /// The template's configuration by role, or why there is none. Empty where the kubelet's file is not ours.
    pub bases: BTreeMap<String, Result<Map<String, Value>, String>>,
    /// The Node config named `cluster`.
    pub node: Option<Node>,
    /// The FeatureGate named `cluster`.
    pub feature_gate: Option<FeatureGate>,
    /// The APIServer named `cluster`.
    pub api_server: Option<ApiServer>,
    /// The oldest minor version of the kubelets of each pool, where it is known.
    pub minors: BTreeMap<String, u64>,
    /// The minor versions of those kubelets of each pool that exit when they are given a gate they do not know. OpenShift's
    /// only warn of it.
    pub strict: BTreeMap<String, BTreeSet<u64>>,
    /// What MachineConfigs of another controller contained when we first saw them.
    pub originals: BTreeMap<String, MachineConfigSpec>,
    /// Fingerprints of what kept MachineConfigs were made from, by name.
    pub inputs: BTreeMap<String, String>,
    /// MachineConfigs of another controller that are to be replaced by ours.
    pub adopt: BTreeSet<String>,
}

debug_without_contents!(Snapshot { version, profile });

/// Decides what to write, delete and tell.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let existing = Existing::new(&snapshot.machine_configs);
    let mut claims = claim::claim(SUBJECT, configurations(snapshot), &snapshot.pools, &existing, |metadata, pools| {
        check(snapshot, metadata, pools)
    });
    let mut wanted: BTreeMap<String, MachineConfig> = BTreeMap::new();
    let mut results: BTreeMap<String, Configured> = BTreeMap::new();
    for pool in ordered(&snapshot.pools) {
        let base = cluster::base(snapshot, pool, &results);
        match &base {
            Ok(base) => cluster::add(snapshot, pool, base, &existing, &mut wanted, &mut plan),
            Err(_) => cluster::hold(pool, &existing, &mut wanted),
        }
        let configured = pool::add(snapshot, pool, base, &mut claims, &existing, &mut wanted);
        results.insert(name_of(pool), configured);
    }
    write(snapshot, &existing, wanted, &claims, &mut plan);
    remarks::tell(snapshot, &mut plan);
    for config in &snapshot.kubelet_configs {
        let Some(claim) = claims.iter().find(|claim| claim.metadata.name == config.metadata.name) else {
            claim::release(SUBJECT, &config.metadata, &existing, &mut plan);
            continue;
        };
        let status = config.status.as_ref();
        let generation = config.metadata.generation;
        let status = conditions::of_kubelet_config(status, generation, &claim.outcome, snapshot.now);
        claim::update(SUBJECT, claim, &existing, status.map(|status| json!(status)), &mut plan);
    }
    plan
}

fn configurations(snapshot: &Snapshot) -> impl Iterator<Item = Configuration<'_>> {
    snapshot.kubelet_configs.iter().map(|config| Configuration {
        metadata: &config.metadata,
        selector: config.spec.machine_config_pool_selector.as_ref(),
    })
}

/// The settings of a KubeletConfig, if they can be used on all of its pools.
fn check(snapshot: &Snapshot, metadata: &ObjectMeta, pools: &[&MachineConfigPool]) -> Result<Settings, String> {
    let config = snapshot.kubelet_configs.iter().find(|config| config.metadata.name == metadata.name);
    let config = config.ok_or("it is gone")?;
    let place = place(snapshot)?;
    let settings = Settings::parse(config).map_err(|error| error.to_string())?;
    for pool in pools {
        settings.check_pool(pool).map_err(|error| error.to_string())?;
    }
    for pool in reached(snapshot, pools) {
        let name = name_of(pool);
        let Some(minor) = snapshot.minors.get(&name).copied() else { continue };
        limits::check_version(&settings.fields, &name, minor).map_err(|error| error.to_string())?;
    }
    if let Some(why) = pools.iter().find_map(|pool| too_old(snapshot, pool)) {
        return Err(why);
    }
    if matches!(place, Kubelet::Dropin { .. }) && settings.auto_sizing == Some(true) {
        return Err(Error::AutoSizingDropin.to_string());
    }
    Ok(settings)
}

/// Why a kubelet that would get the settings of this pool cannot read drop-ins.
fn too_old(snapshot: &Snapshot, pool: &MachineConfigPool) -> Option<String> {
    let Kubelet::Dropin { since, .. } = snapshot.profile.kubelet() else { return None };
    let old = reached(snapshot, &[pool]).into_iter().map(name_of).find_map(|pool| {
        let runs = snapshot.minors.get(&pool).copied().filter(|runs| *runs < since)?;
        Some(Error::NoDropins { pool, since, runs })
    });
    old.map(|error| error.to_string())
}

/// The files of a drop-in: it itself, and what makes the kubelet read the folder.
fn dropin(unit: Option<UnitDropin>, file: File) -> Vec<File> {
    unit.map(|unit| File::new(unit.path, unit.contents)).into_iter().chain([file]).collect()
}

/// The pools whose kubelets read the settings of these pools.
fn reached<'a>(snapshot: &'a Snapshot, pools: &[&'a MachineConfigPool]) -> Vec<&'a MachineConfigPool> {
    pools::reached(&snapshot.pools, pools)
}

/// The MachineConfigs to write, to put back and to delete.
fn write(
    snapshot: &Snapshot,
    existing: &Existing<'_>,
    wanted: BTreeMap<String, MachineConfig>,
    claims: &[Claim<'_>],
    plan: &mut Plan,
) {
    let released = claim::released(configurations(snapshot), claims, existing);
    plan.tidy(existing, |live| is_generated(live), &wanted, &released, &snapshot.originals);
    for pool in &snapshot.pools {
        plan.rename(SUBJECT.names, pool, existing, &wanted);
    }
    for desired in wanted.into_values() {
        plan.put(desired, existing);
    }
}

/// Whether a MachineConfig has a name that this planner gives.
fn is_generated(config: &MachineConfig) -> bool {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let of_cluster = (name.starts_with("97-") || name.starts_with("98-")) && name.ends_with("-generated-kubelet");
    of_cluster || SUBJECT.names.is_name(name)
}

/// Where a kubelet's settings go on the hosts of this cluster.
fn place(snapshot: &Snapshot) -> Result<Kubelet, String> {
    match snapshot.profile.kubelet() {
        Kubelet::Unknown => Err(format!(
            "the hosts of this cluster have profile {}, of which nothing is known about kubelets; set spec.profile of ClusterSettings cluster to openshift, kubeadm or k3s",
            snapshot.profile
        )),
        known => Ok(known),
    }
}
