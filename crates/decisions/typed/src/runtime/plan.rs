//! Plans the MachineConfigs of all ContainerRuntimeConfigs.
//!
//! As with KubeletConfigs, every generated MachineConfig holds its own settings and those generated before it, joined field by
//! field in the order of the objects' names, and custom pools start from what workers have. One that cannot be applied is
//! told so and stays as it was accepted last.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::machineconfiguration::{ContainerRuntimeConfig, MachineConfig, MachineConfigPool, MachineConfigSpec};
use api::names::POOL_WORKER;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::main_file::MainFile;
use super::storage::needs_storage;
use super::{Settings, containerd, files};
use crate::claim::{self, Configuration, Subject};
use crate::conditions;
use crate::fragment::{File, Fragment};
use crate::names;
use crate::plan::{Existing, Plan, Standing, seal};
use crate::pools::{inherits, name_of, ordered, reached, template_role};
use crate::templates::{Profile, Runtime};

const SUBJECT: Subject =
    Subject { kind: "ContainerRuntimeConfig", names: names::Kind::Runtime, no_name: "could not get ctrcfg key" };

/// k3s writes its containerd's configuration at every start, from a template of its own.
const K3S: &str = "k3s makes the configuration of its containerd itself; write a MachineConfig with \
    /var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl instead";

type Claim<'a> = claim::Claim<'a, Settings>;

/// What the planner looks at. All lists are complete.
#[derive(Clone)]
pub struct Snapshot {
    pub now: Timestamp,
    /// Version of the controller, which generated MachineConfigs are stamped with.
    pub version: String,
    pub profile: Profile,
    pub pools: Vec<MachineConfigPool>,
    pub runtime_configs: Vec<ContainerRuntimeConfig>,
    pub machine_configs: Vec<MachineConfig>,
    /// The runtimes that the nodes of each pool have, where they are known.
    pub runtimes: BTreeMap<String, BTreeSet<Runtime>>,
    /// The runtime of pools without nodes.
    pub default_runtime: Runtime,
    /// What is known of containerd's main file on the nodes of each pool.
    pub main_files: BTreeMap<String, MainFile>,
    /// The template's storage.conf by role, or why there is none.
    pub storage: BTreeMap<String, Result<String, String>>,
    /// Whether the runtime knows additional stores.
    pub stores: bool,
    /// What MachineConfigs of another controller contained when we first saw them.
    pub originals: BTreeMap<String, MachineConfigSpec>,
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
    let mut workers = Settings::default();
    for pool in ordered(&snapshot.pools) {
        let base = if inherits(pool) { workers.clone() } else { Settings::default() };
        let result = add(snapshot, pool, base, &mut claims, &existing, &mut wanted);
        if name_of(pool) == POOL_WORKER {
            workers = result;
        }
    }
    write(snapshot, &existing, wanted, &claims, &mut plan);
    for config in &snapshot.runtime_configs {
        let Some(claim) = claims.iter().find(|claim| claim.metadata.name == config.metadata.name) else {
            claim::release(SUBJECT, &config.metadata, &existing, &mut plan);
            continue;
        };
        let generation = config.metadata.generation;
        let status = conditions::of_runtime_config(config.status.as_ref(), generation, &claim.outcome, snapshot.now);
        claim::update(SUBJECT, claim, &existing, status.map(|status| json!(status)), &mut plan);
    }
    plan
}

fn configurations(snapshot: &Snapshot) -> impl Iterator<Item = Configuration<'_>> {
    snapshot.runtime_configs.iter().map(|config| Configuration {
        metadata: &config.metadata,
        selector: config.spec.machine_config_pool_selector.as_ref(),
    })
}

/// The settings of a ContainerRuntimeConfig, if they can be used on all of its pools.
fn check(snapshot: &Snapshot, metadata: &ObjectMeta, pools: &[&MachineConfigPool]) -> Result<Settings, String> {
    let config = snapshot.runtime_configs.iter().find(|config| config.metadata.name == metadata.name);
    let settings = Settings::parse(config.ok_or("it is gone")?).map_err(|error| error.to_string())?;
    if snapshot.profile == Profile::K3s {
        return Err(K3S.to_owned());
    }
    for (pool, runtime) in readers(snapshot, pools) {
        let Runtime::Containerd { major } = runtime else { continue };
        let main = main_file(snapshot, pool);
        let dropins = containerd::dropins(&settings, major, &main);
        if !dropins.unsupported.is_empty() {
            return Err(format!("pool {:?}: {}", name_of(pool), dropins.unsupported.join("; ")));
        }
        if let Some(why) = main.refuses_dropins(&name_of(pool)).filter(|_| !dropins.files.is_empty()) {
            return Err(why);
        }
    }
    for pool in pools {
        content(snapshot, pool, &settings)?;
    }
    Ok(settings)
}

/// The pools whose nodes get what these pools get, each with its runtimes. One without nodes that only gets what workers have
/// says nothing.
fn readers<'a>(
    snapshot: &'a Snapshot,
    pools: &[&'a MachineConfigPool],
) -> impl Iterator<Item = (&'a MachineConfigPool, Runtime)> {
    let of_pool = |pool: &'a MachineConfigPool| {
        let known = snapshot.runtimes.get(&name_of(pool)).filter(|known| !known.is_empty());
        let is_asked = pools.iter().any(|one| one.metadata.name == pool.metadata.name);
        let default = is_asked.then(|| BTreeSet::from([snapshot.default_runtime]));
        let runtimes = known.cloned().or(default).unwrap_or_default();
        runtimes.into_iter().map(move |runtime| (pool, runtime))
    };
    reached(&snapshot.pools, pools).into_iter().flat_map(of_pool).collect::<Vec<_>>().into_iter()
}

fn main_file(snapshot: &Snapshot, pool: &MachineConfigPool) -> MainFile {
    snapshot.main_files.get(&name_of(pool)).cloned().unwrap_or_default()
}

/// The files for every runtime of the nodes that get them. The others' files do no harm on a node.
fn content(snapshot: &Snapshot, pool: &MachineConfigPool, settings: &Settings) -> Result<Vec<File>, String> {
    let mut all: Vec<File> = Vec::new();
    for (pool, runtime) in readers(snapshot, &[pool]) {
        let found = of_runtime(snapshot, pool, settings, runtime)?;
        let is_new = |file: &File| !all.iter().any(|known| known.path == file.path);
        let found: Vec<File> = found.into_iter().filter(is_new).collect();
        all.extend(found);
    }
    Ok(all)
}

fn of_runtime(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    settings: &Settings,
    runtime: Runtime,
) -> Result<Vec<File>, String> {
    match runtime {
        Runtime::Crio => {
            let role = template_role(pool);
            let storage = match snapshot.storage.get(&role).filter(|_| needs_storage(settings, snapshot.stores)) {
                Some(Ok(storage)) => storage.as_str(),
                Some(Err(why)) => return Err(format!("could not generate origin ContainerRuntime Configs: {why}")),
                None => "",
            };
            files(settings, storage, snapshot.stores).map_err(|error| error.to_string())
        }
        Runtime::Containerd { major } => Ok(containerd::dropins(settings, major, &main_file(snapshot, pool)).files),
    }
}

/// Adds the pool's MachineConfigs to `wanted`, and returns the settings that its runtimes end up with.
fn add(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    base: Settings,
    claims: &mut [Claim<'_>],
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
) -> Settings {
    let name = name_of(pool);
    let mut members: Vec<(String, usize)> = Vec::new();
    for (index, claim) in claims.iter_mut().enumerate().filter(|(_, claim)| claim.is_on(pool)) {
        let Some(config_name) = claim.config_name(&name) else { continue };
        match (claim.is_displaced(&name, existing), claim.settings(&name).is_some()) {
            (true, _) => claim.fail(format!(
                "could not Create/Update MachineConfig: {config_name} exists and was not generated; rename or delete it"
            )),
            (false, true) => members.push((config_name, index)),
            (false, false) => claim.hold(&name, existing, wanted),
        }
    }
    members.sort();
    let is_kept = |(config_name, index): &&(String, usize)| {
        existing.standing(config_name) == Standing::Foreign
            && is_unedited(snapshot, &claims[*index])
            && !snapshot.adopt.contains(config_name)
    };
    let kept = members.iter().take_while(is_kept).count();
    for (place, (config_name, index)) in members.iter().enumerate() {
        claims[*index].names.insert(config_name.clone());
        if place < kept {
            continue;
        }
        let (settings, provenance) = join(&base, claims, &name, &members[..=place]);
        match content(snapshot, pool, &settings) {
            Ok(files) => {
                let config = generated(snapshot, config_name, &name, &claims[*index], files, provenance);
                wanted.insert(config_name.clone(), config);
            }
            Err(why) => {
                claims[*index].fail_on(&name, why);
                claims[*index].hold(&name, existing, wanted);
            }
        }
    }
    join(&base, claims, &name, &members).0
}

fn is_unedited(snapshot: &Snapshot, claim: &Claim<'_>) -> bool {
    let config = snapshot.runtime_configs.iter().find(|config| config.metadata.name == claim.metadata.name);
    config.and_then(|config| config.status.as_ref()).is_some_and(|status| {
        status.observed_generation >= claim.metadata.generation && conditions::succeeded(&status.conditions)
    })
}

/// Settings joined in the order of their objects' names, and who set what.
fn join(
    base: &Settings,
    claims: &[Claim<'_>],
    pool: &str,
    members: &[(String, usize)],
) -> (Settings, Map<String, Value>) {
    let mut members: Vec<&Claim<'_>> = members.iter().map(|(_, index)| &claims[*index]).collect();
    members.sort_by_key(|claim| claim.name().to_owned());
    let mut provenance = Map::new();
    let joined = members.iter().fold(base.clone(), |under, claim| match claim.settings(pool) {
        Some(over) => {
            provenance.extend(over.fields().into_iter().map(|field| (field.to_owned(), json!(claim.name()))));
            under.under(over)
        }
        None => under,
    });
    (joined, provenance)
}

fn generated(
    snapshot: &Snapshot,
    name: &str,
    pool: &str,
    claim: &Claim<'_>,
    files: Vec<File>,
    provenance: Map<String, Value>,
) -> MachineConfig {
    let fragment = Fragment::of_files(files);
    let mut generated = fragment.machine_config(name, pool, &snapshot.version, Some(claim.owner()));
    generated.metadata.annotations.get_or_insert_default().extend([
        (annotations::ACCEPTED_SETTINGS.to_owned(), claim.accepted_settings(pool)),
        (annotations::FIELD_PROVENANCE.to_owned(), Value::Object(provenance).to_string()),
    ]);
    seal(generated, &format!("{} {}", SUBJECT.kind, claim.name()))
}

fn write(
    snapshot: &Snapshot,
    existing: &Existing<'_>,
    wanted: BTreeMap<String, MachineConfig>,
    claims: &[Claim<'_>],
    plan: &mut Plan,
) {
    let released = claim::released(configurations(snapshot), claims, existing);
    let is_ours = |live: &&MachineConfig| SUBJECT.names.is_name(live.metadata.name.as_deref().unwrap_or_default());
    plan.tidy(existing, is_ours, &wanted, &released, &snapshot.originals);
    for pool in &snapshot.pools {
        plan.rename(SUBJECT.names, pool, existing, &wanted);
    }
    for desired in wanted.into_values() {
        plan.put(desired, existing);
    }
}
