//! The kubemark providerSpec, read as a spec of the simulated cloud.
//!
//! Kubemark ran hollow kubelets in pods. Its manifests work here: what a machine offers and how long a deletion takes are
//! taken over. Its timers that make a node sick are not: switching a node of the sandbox off does the same.

use machine::provider::{Capacity, Problem, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, LocalReference, Path, defaulted, read, secret, validated};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::validation;

const IDENTITY: Identity = Identity {
    kind: "KubemarkMachineProviderConfig",
    groups: &["kubemarkproviderconfig.openshift.io", "machine.openshift.io"],
    versions: &["v1alpha1", "v1beta1"],
};

/// `KubemarkMachineProviderConfig`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubemarkSpec {
    pub api_version: String,
    pub kind: String,
    pub image: String,
    pub unhealthy_duration: String,
    pub healthy_duration: String,
    pub turn_unhealthy_after: String,
    pub turn_unhealthy_periodically: bool,
    pub deletion_timeout: String,
    pub num_cores: String,
    /// A quantity such as `16Gi`.
    pub memory_capacity: String,
    /// Ours: kubemark's machines were born as nodes, ours boot.
    pub user_data_secret: Option<LocalReference>,
}

/// The pure half of the provider under the name `kubemark`.
#[derive(Debug, Clone, Copy, Default)]
pub struct KubemarkRules;

impl SpecRules for KubemarkRules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec: &mut KubemarkSpec| {
            secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
        })
    }

    fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
        validated(spec, check)
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<KubemarkSpec>(spec) else { return Vec::new() };
        secret::needs(None, spec.user_data_secret.as_ref())
    }

    fn place(&self, _: &Value) -> Value {
        json!({})
    }

    fn capacity(&self, spec: &Value) -> Option<Capacity> {
        let read::Read { spec, .. } = read::read::<KubemarkSpec>(spec).ok()?;
        let (cpus, memory_mib) = (spec.num_cores.parse().ok()?, mebibytes(&spec.memory_capacity)?);
        Some(Capacity { cpus, memory_mib, ..Capacity::default() })
    }
}

fn check(spec: &KubemarkSpec, verdict: &mut Verdict) {
    IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    if spec.image.is_empty() {
        verdict.required(&Path::spec().child("image"), "kubemark's spec names the image of hollow nodes; any will do");
    }
    validation::check_delay(&Path::spec().child("deletionTimeout"), &spec.deletion_timeout, verdict);
    if !spec.num_cores.is_empty() && spec.num_cores.parse::<u64>().is_err() {
        verdict.invalid(&Path::spec().child("numCores"), &spec.num_cores, "must be a whole number");
    }
    if !spec.memory_capacity.is_empty() && mebibytes(&spec.memory_capacity).is_none() {
        verdict.invalid(&Path::spec().child("memoryCapacity"), &spec.memory_capacity, "write a quantity such as 16Gi");
    }
    let timers = [
        ("unhealthyDuration", !spec.unhealthy_duration.is_empty()),
        ("healthyDuration", !spec.healthy_duration.is_empty()),
        ("turnUnhealthyAfter", !spec.turn_unhealthy_after.is_empty()),
        ("turnUnhealthyPeriodically", spec.turn_unhealthy_periodically),
    ];
    for (name, _) in timers.into_iter().filter(|(_, is_set)| *is_set) {
        verdict.warn(&Path::spec().child(name), "is not simulated: switch the node off to make it NotReady");
    }
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
}

/// The same machine, as the simulated cloud's own spec says it.
pub(crate) fn translated(spec: &Value, surroundings: &Surroundings) -> Result<Value, Problem> {
    let spec = KubemarkRules.default(spec, surroundings)?;
    if let Some(problem) = KubemarkRules.validate(&spec, surroundings).problems.into_iter().next() {
        return Err(problem);
    }
    let read::Read { spec, .. } = read::read::<KubemarkSpec>(&spec)?;
    Ok(json!({"deleteDelay": spec.deletion_timeout, "userDataSecret": spec.user_data_secret}))
}

/// Mebibytes of a quantity in bytes, with a binary or decimal suffix.
fn mebibytes(quantity: &str) -> Option<u64> {
    let end = quantity.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let unit: u64 = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()?.checked_mul(unit)? >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubemark_spec_says_what_its_machines_offer() {
        let spec = json!({"image": "hollow", "numCores": 8, "memoryCapacity": "16Gi"});
        let capacity = KubemarkRules.capacity(&spec).expect("it says so");
        assert_eq!((capacity.cpus, capacity.memory_mib), (8, 16_384));
        assert_eq!(KubemarkRules.capacity(&json!({"image": "hollow"})), None);
    }

    #[test]
    fn what_is_not_simulated_is_said() {
        let spec = json!({
            "apiVersion": "kubemarkproviderconfig.openshift.io/v1beta1", "kind": "KubemarkMachineProviderConfig",
            "turnUnhealthyAfter": "1m", "numCores": "many", "userDataSecret": {"name": "worker-user-data"},
        });
        let Verdict { problems, warnings } = KubemarkRules.validate(&spec, &Surroundings::default());
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["providerSpec.image", "providerSpec.numCores"]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
}
