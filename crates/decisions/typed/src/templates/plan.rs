//! Plans `00-<role>`, `01-<role>-kubelet` and `01-<role>-container-runtime` from the ControllerConfig and the templates, and
//! what the ControllerConfig's status says about them.
//!
//! MachineConfigs of another controller are kept until they are adopted.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::{
    ControllerCertificate, ControllerConfig, ControllerConfigCondition, ControllerConfigStatus, MachineConfig,
    MachineConfigSpec,
};
use api::names::status::{FALSE, TRUE};
use api::names::{POOL_ARBITER, POOL_MASTER, POOL_WORKER};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use serde_json::json;

use super::profile::Kubelet;
use super::{Config, Parameters, Profile, Runtime, Templates};
use crate::defaults::Rendered;
use crate::kubelet::tls::Tls;
use crate::plan::{Existing, Object, Plan, Standing, Update, seal, standing};

/// What the planner looks at.
#[derive(Clone)]
pub struct Snapshot {
    pub now: Timestamp,
    /// Version of the controller, which generated MachineConfigs are stamped with.
    pub version: String,
    pub profile: Profile,
    pub runtime: Runtime,
    /// What to say where nodes have several runtimes.
    pub mixed_runtimes: Option<String>,
    pub templates: Templates,
    pub controller_config: ControllerConfig,
    /// The secret that the ControllerConfig names, where it names one, or why it cannot be read.
    pub pull_secret: Result<Option<Vec<u8>>, String>,
    /// The TLS profile of the API servers.
    pub api_tls: Option<Tls>,
    /// The certificates of the ControllerConfig's bundles, for its status.
    pub certificates: Vec<ControllerCertificate>,
    pub machine_configs: Vec<MachineConfig>,
    pub originals: BTreeMap<String, MachineConfigSpec>,
    /// MachineConfigs of another controller that are to be replaced by ours.
    pub adopt: BTreeSet<String>,
}

debug_without_contents!(Snapshot { version, profile, runtime });

/// The templates of every role, filled in.
pub fn render(snapshot: &Snapshot) -> Result<BTreeMap<String, Rendered>, String> {
    if snapshot.templates.is_empty() {
        return match snapshot.profile.kubelet() {
            // An empty folder is a mistake: hosts would lose everything they start from.
            Kubelet::Whole => {
                Err("there are no templates; name a folder with templates, or none to use the built-in ones".to_owned())
            }
            Kubelet::Dropin { .. } | Kubelet::Unknown => Ok(BTreeMap::new()),
        };
    }
    let spec = &snapshot.controller_config.spec;
    let pull_secret = snapshot.pull_secret.as_ref().map_err(Clone::clone)?;
    let parameters =
        Parameters::new(spec, pull_secret.as_deref(), snapshot.api_tls.as_ref()).map_err(|error| error.to_string())?;
    let rendered = |role: &str| {
        let given = Parameters {
            role: role.to_owned(),
            runtime: snapshot.runtime.name().to_owned(),
            runtime_major: snapshot.runtime.major(),
            ..parameters.clone()
        };
        (role.to_owned(), snapshot.templates.render(&given))
    };
    Ok(roles(&parameters.topology, &snapshot.machine_configs).into_iter().map(rendered).collect())
}

/// Decides what to write, delete and tell.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let existing = Existing::new(&snapshot.machine_configs);
    let outcome = match render(snapshot) {
        Ok(rendered) => write(snapshot, &rendered, &existing, &mut plan),
        Err(why) => Err(why),
    };
    status(snapshot, &outcome, &mut plan);
    plan
}

/// An arbiter has a role of its own only where the topology has arbiters. Where it is not known, those that are there stay.
fn roles(topology: &str, machine_configs: &[MachineConfig]) -> Vec<&'static str> {
    let has_arbiters = || {
        let base = Config::Base.name(POOL_ARBITER);
        machine_configs.iter().any(|config| config.metadata.name.as_deref() == Some(&base))
    };
    let is_named = topology == "HighlyAvailableArbiter" || topology.is_empty() && has_arbiters();
    let arbiter = is_named.then_some(POOL_ARBITER);
    [POOL_MASTER, POOL_WORKER].into_iter().chain(arbiter).collect()
}

fn write(
    snapshot: &Snapshot,
    rendered: &BTreeMap<String, Rendered>,
    existing: &Existing<'_>,
    plan: &mut Plan,
) -> Result<(), String> {
    let mut wanted = BTreeMap::new();
    let mut problems = Vec::new();
    for (role, rendered) in rendered {
        match rendered {
            Ok(fragments) => {
                // A MachineConfig that says nothing would be one more name to wonder about.
                for (config, fragment) in fragments.iter().filter(|(_, fragment)| !fragment.is_empty()) {
                    let name = config.name(role);
                    let desired = fragment.machine_config(&name, role, &snapshot.version, owner(snapshot));
                    wanted.insert(name, seal(desired, "ControllerConfig machine-config-controller"));
                }
            }
            Err(error) => {
                problems.push(error.to_string());
                // What hosts have stays until the templates work again.
                let names = Config::ALL.map(|config| config.name(role));
                wanted.extend(names.into_iter().filter_map(|name| Some((name.clone(), existing.get(&name)?.clone()))));
            }
        }
    }
    wanted.retain(|name, _| match existing.standing(name) {
        Standing::Missing | Standing::Ours => true,
        Standing::Foreign => snapshot.adopt.contains(name),
        Standing::Users => {
            problems.push(format!("MachineConfig {name} exists and was not generated; rename or delete it"));
            false
        }
    });
    let is_ours = |live: &&MachineConfig| is_generated_name(live.metadata.name.as_deref().unwrap_or_default());
    plan.tidy(existing, is_ours, &wanted, &BTreeSet::new(), &snapshot.originals);
    for desired in wanted.into_values() {
        plan.put(desired, existing);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn owner(snapshot: &Snapshot) -> Option<OwnerReference> {
    let metadata = &snapshot.controller_config.metadata;
    Some(OwnerReference {
        api_version: "machineconfiguration.openshift.io/v1".to_owned(),
        kind: "ControllerConfig".to_owned(),
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

/// Whether templates give MachineConfigs this name.
pub fn is_generated_name(name: &str) -> bool {
    let roles = [POOL_MASTER, POOL_WORKER, POOL_ARBITER];
    roles.iter().any(|role| Config::ALL.iter().any(|config| config.name(role) == name))
}

const RUNNING: &str = "TemplateControllerRunning";
const COMPLETED: &str = "TemplateControllerCompleted";
const FAILING: &str = "TemplateControllerFailing";

/// The ControllerConfig's status. Messages always describe the present generation.
fn status(snapshot: &Snapshot, outcome: &Result<(), String>, plan: &mut Plan) {
    let config = &snapshot.controller_config;
    let generation = config.metadata.generation;
    let towards = format!(
        "towards ({}) generation using controller version {}",
        generation.unwrap_or_default(),
        snapshot.version
    );
    // Those of other planners too: this is the one place that tells of all.
    let is_kept = |live: &&MachineConfig| {
        let name = live.metadata.name.as_deref().unwrap_or_default();
        standing(live) == Standing::Foreign && !snapshot.adopt.contains(name)
    };
    let existing = Existing::new(&snapshot.machine_configs);
    let kept = existing.iter().filter(is_kept).filter_map(|it| it.metadata.name.as_deref());
    let kept = match kept.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        kept => format!("; kept as another controller made them: {}", kept.join(", ")),
    };
    let (completed, failing, message) = match outcome {
        Ok(()) if snapshot.templates.is_empty() => {
            let message =
                format!("sync completed {towards}{kept}; hosts of profile {} start from nothing", snapshot.profile);
            (TRUE, FALSE, message)
        }
        Ok(()) => {
            let mixed = snapshot.mixed_runtimes.as_ref().map(|mixed| format!("; {mixed}")).unwrap_or_default();
            (TRUE, FALSE, format!("sync completed {towards}{kept}{mixed}"))
        }
        Err(why) => (FALSE, TRUE, format!("failed to syncing {towards}: {why}")),
    };
    let known = config.status.clone().unwrap_or_default();
    let conditions = [(RUNNING, FALSE), (COMPLETED, completed), (FAILING, failing)].map(|(type_, status)| {
        let before = known.conditions.iter().find(|condition| condition.type_ == type_);
        let since =
            before.filter(|before| before.status == status).and_then(|before| before.last_transition_time.clone());
        ControllerConfigCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            message: Some(message.clone()),
            reason: None,
            last_transition_time: Some(since.unwrap_or(Time(snapshot.now))),
        }
    });
    let is_ours = |it: &&ControllerConfigCondition| [RUNNING, COMPLETED, FAILING].contains(&it.type_.as_str());
    let others = known.conditions.iter().filter(|it| !is_ours(it));
    let status = ControllerConfigStatus {
        // The list is written whole, so it has to keep what others wrote.
        conditions: others.cloned().chain(conditions).collect(),
        controller_certificates: snapshot.certificates.clone(),
        observed_generation: generation,
    };
    if status != known {
        plan.update(Update {
            object: Object::new("ControllerConfig", config.metadata.name.clone().unwrap_or_default()),
            annotations: BTreeMap::new(),
            finalizers: None,
            status: Some(json!(status)),
        });
    }
}
