//! Objects and fields that Machinist accepts and does nothing with: each says so, and what to do instead.
//!
//! Kinds with conditions get `Effective=False`. Kinds without, and those of `config.openshift.io`, whose conditions may be
//! another operator's, get the annotation [`annotations::IGNORED`] and one event, which the annotation keeps from being repeated. Nothing here is ever refused: manifests of a cluster that is taken over
//! must keep applying.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::{MachineOSBuild, MachineOSConfig};
use api::names::CLUSTER;
use api::names::status::{FALSE, TRUE};
use api::operator::{MachineConfiguration, MachineConfigurationSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::json;

use crate::plan::{Event, Object, Plan, Update};

/// The condition of an object that is accepted and does nothing, or not all that it asks for.
pub const EFFECTIVE: &str = "Effective";

/// The reason of that condition, and of the event about an object that has no conditions.
pub const NOT_SUPPORTED: &str = "NotSupported";

/// Kinds without conditions, and the sentence for each. The kinds of the Machine API are those of `cluster.k8s.io`.
pub const BARE: [(&str, &str); 4] =
    [("Cluster", OLDER), ("Machine", OLDER), ("MachineSet", OLDER), ("MachineDeployment", OLDER)];

const OLDER: &str = "Machinist runs no machines of cluster.k8s.io/v1alpha1; create the object in machine.openshift.io/v1beta1, which has the same fields";

/// Kinds of which one object counts, and its name. An object of another name does nothing.
pub const SINGLE: [&str; 4] = ["APIServer", "FeatureGate", "Image", "Node"];

/// What there is of kinds that do nothing.
#[derive(Clone, Debug, Default)]
pub struct Inert {
    pub bare: Vec<Bare>,
    /// Objects of the [`SINGLE`] kinds, whatever their name is.
    pub singles: Vec<(&'static str, ObjectMeta)>,
    pub os_configs: Vec<MachineOSConfig>,
    pub os_builds: Vec<MachineOSBuild>,
    /// MachineConfiguration `cluster`.
    pub configuration: Option<MachineConfiguration>,
}

/// An object of one of the [`BARE`] kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bare {
    pub object: Object,
    /// What its annotation [`annotations::IGNORED`] says.
    pub told: Option<String>,
}

impl Bare {
    pub fn new(kind: &'static str, metadata: ObjectMeta) -> Self {
        let told = metadata.annotations.and_then(|mut notes| notes.remove(annotations::IGNORED));
        let object = Object { kind, namespace: metadata.namespace, name: metadata.name.unwrap_or_default() };
        Self { object, told }
    }
}

impl Inert {
    /// Tells each object what it does not do, unless it says so already.
    pub fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        for bare in &self.bare {
            tell(bare, &mut plan);
        }
        for (kind, metadata) in &self.singles {
            let name = metadata.name.clone().unwrap_or_default();
            if name != CLUSTER {
                let says = format!("only the {kind} named {CLUSTER} has an effect; create it under that name");
                plan.remark(Object::new(kind, name), metadata, NOT_SUPPORTED, &says);
            }
        }
        for config in &self.os_configs {
            let pool = &config.spec.machine_config_pool.name;
            let why = format!(
                "Machinist builds no OS images; build the image elsewhere and set spec.osImageURL of a MachineConfig for pool {pool}"
            );
            let status = config.status.as_ref();
            let known = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
            plan.state("MachineOSConfig", &config.metadata, known, Some(why), now);
        }
        for build in &self.os_builds {
            let status = build.status.as_ref();
            let known = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
            // The conditions of a finished build cannot be changed, and there is nothing left for it to do.
            let is_finished = known
                .iter()
                .any(|it| ["Succeeded", "Failed", "Interrupted"].contains(&&*it.type_) && it.status == TRUE);
            let why = "Machinist builds no OS images, so this build never starts; build the image elsewhere and set spec.osImageURL of a MachineConfig";
            if !is_finished {
                plan.state("MachineOSBuild", &build.metadata, known, Some(why.to_owned()), now);
            }
        }
        if let Some(configuration) = &self.configuration {
            let status = configuration.status.as_ref();
            let known = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
            let why = ignored_fields(&configuration.spec);
            plan.state("MachineConfiguration", &configuration.metadata, known, why, now);
        }
        plan
    }
}

impl Plan {
    /// Sets the condition [`EFFECTIVE`] of an object to false, or takes it away where everything has an effect.
    fn state(
        &mut self,
        kind: &'static str,
        metadata: &ObjectMeta,
        known: &[Condition],
        why: Option<String>,
        now: Timestamp,
    ) {
        let ours = known.iter().find(|condition| condition.type_ == EFFECTIVE);
        if ours.map(|condition| &condition.message) == why.as_ref() {
            return;
        }
        // The list is written whole, so the conditions of others are kept in it.
        let mut conditions: Vec<_> = known.iter().filter(|condition| condition.type_ != EFFECTIVE).cloned().collect();
        conditions.extend(why.map(|message| Condition {
            type_: EFFECTIVE.to_owned(),
            status: FALSE.to_owned(),
            reason: NOT_SUPPORTED.to_owned(),
            message,
            observed_generation: metadata.generation,
            last_transition_time: ours.map_or(Time(now), |ours| ours.last_transition_time.clone()),
        }));
        self.update(Update {
            object: Object::new(kind, metadata.name.clone().unwrap_or_default()),
            annotations: BTreeMap::new(),
            finalizers: None,
            status: Some(json!({"conditions": conditions})),
        });
    }
}

fn tell(bare: &Bare, plan: &mut Plan) {
    let Some((kind, why)) = BARE.into_iter().find(|(kind, _)| *kind == bare.object.kind) else { return };
    if bare.told.as_deref() == Some(why) {
        return;
    }
    plan.update(Update {
        object: bare.object.clone(),
        annotations: BTreeMap::from([(annotations::IGNORED.to_owned(), why.to_owned())]),
        finalizers: None,
        status: None,
    });
    let message = format!("{kind} {}: {why}", bare.object.name);
    plan.events.push(Event { about: bare.object.clone(), is_warning: true, reason: NOT_SUPPORTED, message });
}

/// Which fields of a MachineConfiguration do nothing, and what to do instead. Defaults ask for nothing.
fn ignored_fields(spec: &MachineConfigurationSpec) -> Option<String> {
    let says = |text: &Option<String>, default: &str| text.as_deref().is_some_and(|it| !it.is_empty() && it != default);
    let limits = |limit: &Option<i32>| limit.is_some_and(|limit| limit != 0);
    let fields = [
        (
            spec.managed_boot_images.is_some(),
            "spec.managedBootImages does nothing: change the image in the providerSpec of each MachineSet",
        ),
        (
            spec.boot_image_skew_enforcement.as_ref().is_some_and(|it| it.mode != "None"),
            "spec.bootImageSkewEnforcement does nothing: no age of boot images is checked",
        ),
        (
            says(&spec.management_state, "Managed"),
            "spec.managementState does nothing: `machinist uninstall` removes an installation, spec.paused of a pool stops its updates",
        ),
        (
            says(&spec.log_level, "Normal") || says(&spec.operator_log_level, "Normal"),
            "spec.logLevel and spec.operatorLogLevel do nothing: each process logs as its environment variable RUST_LOG says",
        ),
        (
            says(&spec.force_redeployment_reason, ""),
            "spec.forceRedeploymentReason does nothing: restart the workload with `kubectl rollout restart`",
        ),
        (
            limits(&spec.failed_revision_limit) || limits(&spec.succeeded_revision_limit),
            "spec.failedRevisionLimit and spec.succeededRevisionLimit do nothing: there are no revisions to keep",
        ),
        (
            [&spec.observed_config, &spec.unsupported_config_overrides].into_iter().flatten().any(|it| !it.is_null()),
            "spec.observedConfig and spec.unsupportedConfigOverrides do nothing: remove them",
        ),
    ];
    let said: Vec<_> = fields.into_iter().filter(|(is_set, _)| *is_set).map(|(_, why)| why).collect();
    (!said.is_empty()).then(|| said.join("; "))
}
