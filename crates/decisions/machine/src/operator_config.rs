//! Decides what the operator deploys for a platform: which images, features, containers and arguments.
//!
//! It reads the platform, the images file, feature gates, the proxy and the TLS profile, and says what shall run. Applying it,
//! and healing it, is the operator's work.

mod containers;
mod images;
mod platform;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

pub use containers::{Container, Env};
pub use images::{Images, ImagesError};
pub use platform::{Platform, PlatformError, platform_of, platform_of_install_config};
pub use tls::{TlsError, TlsSettings};

/// Gates that the controllers know. They are always passed on, switched on or off.
const FEATURES: [&str; 4] =
    ["AWSDedicatedHosts", "AzureWorkloadIdentity", "MachineAPIMigration", "VSphereHostVMGroupZonal"];
/// Switches the health checks off.
const WITHOUT_HEALTH_CHECKS: &str = "MachineAPIOperatorDisableMachineHealthCheckController";
/// What stands for an image where nothing runs.
pub const NO_OP: &str = "no-op";

/// Everything the configuration follows from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The platform's name as the cluster has it.
    pub platform: Result<String, PlatformError>,
    /// The parsed images file.
    pub images: Value,
    pub enabled_features: BTreeSet<String>,
    pub proxy: Proxy,
    pub tls: TlsSettings,
    pub namespace: String,
    pub release_version: String,
}

/// The proxy that the cluster's network operator has found good: the status of the Proxy object, not its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    pub http: String,
    pub https: String,
    pub no_proxy: String,
}

/// What to deploy, or why nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub platform: String,
    pub controllers: Controllers,
    pub features: BTreeMap<String, bool>,
    pub deployment: Deployment,
}

/// Which image each controller runs from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    pub machine_set: String,
    pub node_link: String,
    /// Empty when health checks are switched off.
    pub machine_health_check: String,
    pub provider: String,
    pub termination_handler: String,
    pub kube_rbac_proxy: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// These containers, and those of the daemon that watches for the end of spot machines.
    Run { containers: Vec<Container>, termination: Vec<Container> },
    /// Nothing runs, for this reason. What an earlier platform left is removed.
    NoOp(NoOp),
}

/// Why nothing is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOp {
    /// The platform has no machines to manage: `None`, `External`.
    NoMachines,
    /// We have no provider for the platform.
    NoProvider,
    /// Nobody knows the platform.
    Unknown,
    /// The images file names no image for the platform, which came to it later or left it.
    NoImage { key: &'static str },
}

/// Why no configuration can be made. The text names the object and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Platform(#[from] PlatformError),
    #[error(transparent)]
    Images(#[from] ImagesError),
    #[error("failed to get TLS profile spec: {0}")]
    Tls(#[from] TlsError),
}

/// Decides what the operator deploys.
pub fn plan(snapshot: &Snapshot) -> Result<Plan, Error> {
    let name = snapshot.platform.clone()?;
    let images = Images::read(&snapshot.images)?;
    let platform = Platform::of(&name);
    let provider = images.provider(platform)?;
    let tls = snapshot.tls.arguments()?;
    let has_health_checks = !snapshot.enabled_features.contains(WITHOUT_HEALTH_CHECKS);
    let no_op = || NO_OP.to_owned();
    let image = provider.clone().unwrap_or_else(|_| no_op());
    let controllers = Controllers {
        machine_set: images.operator.clone(),
        node_link: images.operator.clone(),
        machine_health_check: if has_health_checks { images.operator.clone() } else { String::new() },
        termination_handler: if platform.has_spot() { image.clone() } else { no_op() },
        provider: image,
        kube_rbac_proxy: images.kube_rbac_proxy.clone(),
    };
    let features = FEATURES.map(|gate| (gate.to_owned(), snapshot.enabled_features.contains(gate))).into();
    let deployment = match provider {
        Err(why) => Deployment::NoOp(why),
        Ok(_) => containers::deployment(snapshot, platform, &controllers, &features, &tls),
    };
    Ok(Plan { platform: name, controllers, features, deployment })
}

/// Gates that a FeatureGate object switches on. While a cluster is upgraded it lists those of two versions, and one that is on in both is on.
pub fn enabled_features(gates: &Value) -> BTreeSet<String> {
    let names = |list: &Value| -> BTreeSet<String> {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|gate| gate["name"].as_str().or(gate.as_str())).map(str::to_owned).collect()
    };
    let versions = gates["status"]["featureGates"].as_array().into_iter().flatten();
    let told = versions.map(|version| names(&version["enabled"])).reduce(|one, other| &one & &other);
    // Where nobody keeps a status, those that a person switched on.
    told.unwrap_or_else(|| names(&gates["spec"]["customNoUpgrade"]["enabled"]))
}

impl Proxy {
    /// Reads a Proxy object. Only its status counts: the spec may not have been checked yet.
    pub fn from_object(proxy: &Value) -> Self {
        let text = |key: &str| proxy["status"][key].as_str().unwrap_or_default().to_owned();
        Self { http: text("httpProxy"), https: text("httpsProxy"), no_proxy: text("noProxy") }
    }
}

impl fmt::Display for NoOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMachines => write!(f, "the platform has no machines to manage"),
            Self::NoProvider => write!(f, "there is no provider for this platform"),
            Self::Unknown => write!(f, "the platform is not known"),
            Self::NoImage { key } => write!(f, "the images file has no {key}"),
        }
    }
}
