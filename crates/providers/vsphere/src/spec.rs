//! The vSphere providerSpec: its fields, its defaults and its rules. Nothing here calls vCenter.

mod types;
mod validation;

use std::collections::BTreeMap;

use machine::provider::{Capacity, Problem, Request, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

/// The Secret with vCenter credentials that OpenShift's credentials operator makes.
pub const CREDENTIALS: &str = "vsphere-cloud-credentials";

const IDENTITY: Identity = Identity {
    kind: "VSphereMachineProviderSpec",
    groups: &["machine.openshift.io", "vsphereprovider.openshift.io"],
    versions: &["v1beta1", "v1"],
};

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec: &mut VsphereSpec| {
            secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
            secret::default_secret(&mut spec.credentials_secret, CREDENTIALS);
        })
    }

    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict {
        validated(spec, |spec, verdict| validation::check(spec, surroundings, verdict))
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<VsphereSpec>(spec) else { return Vec::new() };
        secret::needs(spec.credentials_secret.as_ref(), spec.user_data_secret.as_ref())
    }

    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<VsphereSpec>(spec) else { return Value::Null };
        let mut place = json!({});
        if let Some(workspace) = spec.workspace {
            place["workspace"] = json!(workspace);
        }
        if let Some(reference) = spec.credentials_secret {
            place["credentialsSecret"] = json!(reference);
        }
        place
    }

    /// The claims for addresses, which are let go when the machine is gone.
    fn children(&self, request: &Request) -> BTreeMap<String, String> {
        let Ok(read::Read { spec, .. }) = read::read::<VsphereSpec>(&request.spec) else { return BTreeMap::new() };
        claims(&spec, &request.mark.machine).map(|(key, name, _)| (key, name)).collect()
    }

    /// The spec itself says how large the machine is. One that says nothing is as large as its template, which is not known here.
    fn capacity(&self, spec: &Value) -> Option<Capacity> {
        let read::Read { spec, .. } = read::read::<VsphereSpec>(spec).ok()?;
        let cpus = u64::try_from(spec.num_cpus).ok().filter(|cpus| *cpus > 0)?;
        let memory_mib = u64::try_from(spec.memory_mib).ok().filter(|memory| *memory > 0)?;
        Some(Capacity { cpus, memory_mib, gpus: None, ..Capacity::default() })
    }
}

/// A spec that a machine can be made from. The feature gate of a field is the webhook's business.
pub(crate) fn usable(spec: &Value) -> Result<VsphereSpec, Problem> {
    let features = [validation::VM_GROUP_GATE.to_owned()].into();
    let verdict = Rules.validate(spec, &Surroundings { features, ..Surroundings::default() });
    match verdict.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => read::read::<VsphereSpec>(spec).map(|read| read.spec),
    }
}

/// What claims of addresses are called among a Machine's child resources.
pub(crate) const CLAIM: &str = "claim-";

/// The claims of a Machine's devices: key of the child resource, name as upstream has it, and the pool.
pub(crate) fn claims<'a>(
    spec: &'a VsphereSpec,
    machine: &'a str,
) -> impl Iterator<Item = (String, String, &'a AddressesFromPool)> {
    spec.network.devices.iter().enumerate().flat_map(move |(device, settings)| {
        settings
            .addresses_from_pools
            .iter()
            .enumerate()
            .map(move |(number, pool)| (format!("{CLAIM}{device}-{number}"), claim_name(machine, device, number), pool))
    })
}

pub(crate) fn claim_name(machine: &str, device: usize, number: usize) -> String {
    format!("{machine}-claim-{device}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_told_only_where_the_spec_says_it() {
        let capacity = |spec: Value| Rules.capacity(&spec).map(|capacity| (capacity.cpus, capacity.memory_mib));
        assert_eq!(capacity(json!({"numCPUs": 4, "memoryMiB": 8192})), Some((4, 8192)));
        assert_eq!(capacity(json!({"numCPUs": 4})), None);
        assert_eq!(capacity(json!({})), None);
        assert_eq!(capacity(json!({"numCPUs": -1, "memoryMiB": 8192})), None);
    }
}
