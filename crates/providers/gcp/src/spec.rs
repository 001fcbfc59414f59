//! The GCP providerSpec: its fields, its defaults and its rules. Nothing here calls Google.

mod defaults;
mod types;
mod validation;

use std::collections::BTreeMap;

use machine::provider::{Capacity, Problem, Request, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

/// The Secret with Google's credentials that OpenShift's credentials operator makes.
pub const CREDENTIALS: &str = "gcp-cloud-credentials";

const IDENTITY: Identity = Identity {
    kind: "GCPMachineProviderSpec",
    groups: &["machine.openshift.io", "gcpprovider.openshift.io"],
    versions: &["v1beta1", "v1"],
};

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, surroundings: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec| defaults::fill(spec, surroundings))
    }

    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict {
        validated(spec, |spec, verdict| validation::check(spec, surroundings, verdict))
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<GcpSpec>(spec) else { return Vec::new() };
        secret::needs(spec.credentials_secret.as_ref(), spec.user_data_secret.as_ref())
    }

    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<GcpSpec>(spec) else { return Value::Null };
        let mut place = json!({"region": spec.region, "zone": spec.zone});
        if !spec.project_id.is_empty() {
            place["projectID"] = json!(spec.project_id);
        }
        if !spec.target_pools.is_empty() {
            place["targetPools"] = json!(spec.target_pools);
        }
        if let Some(reference) = spec.credentials_secret {
            place["credentialsSecret"] = json!(reference);
        }
        place
    }

    /// Disks that go with the instance. Those that are to stay are the user's from the start.
    fn children(&self, request: &Request) -> BTreeMap<String, String> {
        let Ok(read::Read { spec, .. }) = read::read::<GcpSpec>(&request.spec) else { return BTreeMap::new() };
        let disks = spec.disks.iter().enumerate().filter(|(_, disk)| disk.auto_delete);
        disks.map(|(index, _)| (format!("{DISK}{index}"), disk_name(&request.mark.machine, index))).collect()
    }

    /// Only Google knows what its machine types offer.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

/// What disks are called among a Machine's child resources.
pub(crate) const DISK: &str = "disk-";

/// Names as Google gives them: the first is called like the instance.
pub(crate) fn disk_name(machine: &str, index: usize) -> String {
    if index == 0 { machine.to_owned() } else { format!("{machine}-{index}") }
}

/// A spec that an instance can be made from, with its defaults.
pub(crate) fn usable(spec: &Value, cluster: &str) -> Result<GcpSpec, Problem> {
    let surroundings = Surroundings { cluster: cluster.to_owned(), ..Surroundings::default() };
    let spec = Rules.default(spec, &surroundings)?;
    match Rules.validate(&spec, &surroundings).problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => read::read::<GcpSpec>(&spec).map(|read| read.spec),
    }
}
