//! The pure half of a provider: its part of a Machine's spec.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::{Request, SecretNeed};

/// Reads, defaults and validates `spec.providerSpec.value`. Nothing here calls a cloud.
pub trait SpecRules: Send + Sync {
    /// Fills in what the user left out. What it does not know it leaves alone, so that unknown fields can be named by
    /// [`SpecRules::validate`]. Defaulting twice changes nothing more.
    ///
    /// An error means that the value cannot be read at all.
    fn default(&self, spec: &Value, surroundings: &Surroundings) -> Result<Value, Problem>;

    /// Everything that is wrong with a spec, and everything that is doubtful. Unknown fields are warnings that name them.
    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict;

    /// The Secrets that a spec names.
    fn secrets(&self, spec: &Value) -> Vec<SecretNeed>;

    /// The part of a spec that says where its instance is and how it is reached: region, endpoint, project, names of
    /// credentials. It is kept in the intent, and [`SpecRules::secrets`] and every call but `create` work with it alone.
    fn place(&self, spec: &Value) -> Value;

    /// Names for the child resources that [`super::Provider::create`] will make, by what they are. The names are unique for
    /// the Machine and valid in the cloud. They are recorded before the call and not computed again afterwards.
    fn children(&self, request: &Request) -> BTreeMap<String, String> {
        let _ = request;
        BTreeMap::new()
    }

    /// What a machine of this spec offers, for scaling a set from zero. `None` when the spec does not say.
    fn capacity(&self, spec: &Value) -> Option<Capacity>;
}

/// The facts around a Machine that defaults and validation depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// The infrastructure name, which is the cluster's id in the cloud.
    pub cluster: String,
    pub machine: String,
    pub namespace: String,
    /// The Machine is part of the control plane. Always false for the template of a MachineSet.
    pub control_plane: bool,
    /// The template of a MachineSet is looked at, not a Machine.
    pub template: bool,
    /// The architecture of the control plane, which new machines share unless they say otherwise.
    pub architecture: Architecture,
    /// `status.platformStatus` of the Infrastructure object, in which regions and resource groups are found.
    pub platform_status: Value,
    /// The DNS zone of the cluster is public.
    pub public_dns: bool,
    /// Feature gates that are on.
    pub features: BTreeSet<String>,
    /// Names of the Secrets in the Machine's namespace. `None` when they could not be listed; then nothing is said of them.
    pub secrets: Option<BTreeSet<String>>,
}

/// What validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field, from `providerSpec` on: `providerSpec.placement.region`.
    pub path: String,
    /// The rest of the sentence, as Kubernetes words it: `Required value: …`, `Invalid value: 3: …`.
    pub message: String,
}

/// What a machine offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub cpus: u64,
    pub memory_mib: u64,
    /// `None` where the provider does not know about GPUs; then the annotation is left alone.
    pub gpus: Option<u64>,
    pub max_pods: Option<u64>,
    pub architecture: Option<Architecture>,
    /// Labels that the node will have.
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    #[default]
    Amd64,
    Arm64,
    Ppc64le,
    S390x,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, message } = self;
        write!(f, "{path}: {message}")
    }
}

/// As in the label `kubernetes.io/arch`.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        })
    }
}
