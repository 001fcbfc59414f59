//! The objects that an installation consists of, and how each is kept.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::facts::Facts;
use crate::installation::{Images, Installation};
use crate::{alerts, controller_config, definitions, guards, monitors, node_access, pools, user_data, workloads};

/// What the operator does about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its fields are put back when somebody changes or deletes it.
    Whole,
    /// It is made when it is missing; afterwards only its labels are ours, the rest is the user's.
    Labels,
    /// It is made when it is missing and is the user's from then on.
    Once,
}

/// The part of the work that an object belongs to; upstream's names, which the reasons of conditions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    RenderConfig,
    MachineConfiguration,
    MachineConfigPools,
    MachineConfigDaemon,
    MachineConfigController,
    MachineConfigServer,
    RequiredPools,
    /// Everything of the Machine API, whose operator reports without steps.
    MachineApi,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// One object as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub step: Step,
    pub keep: Keep,
    pub object: Value,
}

/// Which object is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Id {
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Desired {
    pub(crate) fn new(step: Step, keep: Keep, object: Value) -> Self {
        Self { step, keep, object: labelled(object) }
    }

    pub fn id(&self) -> Id {
        Id::of(&self.object)
    }
}

/// On everything that belongs to an installation; the operator watches by it.
pub(crate) const PART_OF: (&str, &str) = (api::labels::PART_OF, api::labels::PART_OF_MACHINIST);

fn labelled(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
        labels[PART_OF.0] = json!(PART_OF.1);
    }
    object
}

/// Everything that needs no look at the cluster, in an order in which it can be created: what `machinist install` prints.
pub fn installed(installation: &Installation) -> Vec<Desired> {
    let mut objects = namespaces(installation);
    objects.extend(definitions::all(installation));
    objects.extend(workloads::access(installation));
    // Images are chosen by whoever installs; the operator only follows them.
    let images = installation.images.config_map(&installation.namespace);
    objects.push(Desired::new(Step::RenderConfig, Keep::Once, images));
    objects.extend(guards::all(installation));
    let credentials = node_access::empty_credentials(&installation.namespace);
    objects.push(Desired::new(Step::MachineConfigDaemon, Keep::Once, credentials));
    objects.extend(workloads::all(installation));
    objects
}

/// What depends on the cluster it is in: pools, settings, the ControllerConfig, alerts, monitors.
pub fn found(installation: &Installation, facts: &Facts) -> Vec<Desired> {
    let mut objects = pools::all(facts);
    objects.push(pools::settings(installation, facts));
    objects.push(pools::machine_configuration());
    objects.extend(controller_config::object(installation, facts));
    objects.extend(user_data::bundle(installation, facts));
    objects.extend(guards::labels_of_pools(facts));
    if let (None, Some(url)) = (&installation.api_url, &facts.api_url) {
        objects.push(workloads::serving(installation, url));
    }
    if facts.has_prometheus_rules {
        objects.push(alerts::rules(&installation.namespace));
    }
    if facts.has_service_monitors {
        objects.extend(monitors::all(installation));
    }
    objects
}

fn namespaces(installation: &Installation) -> Vec<Desired> {
    let mut names = vec![&installation.namespace];
    if installation.machine_namespace != installation.namespace {
        names.push(&installation.machine_namespace);
    }
    let privileged = |name: &String| {
        let mut labels = json!({"name": name});
        if *name == installation.namespace {
            // The daemon's pods own the host; where pod security is enforced, the namespace has to say so.
            labels["pod-security.kubernetes.io/enforce"] = json!("privileged");
            labels["openshift.io/run-level"] = json!("");
        } else {
            // Ours pass it. Others run pods in this namespace too, on clusters that were taken over, so they are only told.
            for mode in ["warn", "audit"] {
                labels[format!("pod-security.kubernetes.io/{mode}")] = json!("restricted");
            }
        }
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    };
    names.into_iter().map(|name| Desired::new(Step::RenderConfig, Keep::Whole, privileged(name))).collect()
}

impl Images {
    /// The id of the ConfigMap that holds them.
    pub fn id(namespace: &str) -> Id {
        Id::of(&Self::default().config_map(namespace))
    }
}
