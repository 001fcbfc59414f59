//! Decides which annotations tell the cluster autoscaler what a machine of an empty set would offer.
//!
//! OpenShift's spelling is written; the autoscaler's own is only read, except for `labels`, to which the architecture is added.
//! What is not known is not announced: a machine with no CPU would never be chosen, and nobody would know why.

use std::collections::BTreeMap;

use api::machine::MachineSet;
use serde_json::Value;

use crate::provider::{Capacity, Problem};

pub const CPU: &str = "machine.openshift.io/vCPU";
pub const MEMORY: &str = "machine.openshift.io/memoryMb";
pub const GPU: &str = "machine.openshift.io/GPU";
pub const MAX_PODS: &str = "machine.openshift.io/maxPods";
/// The autoscaler's own spelling.
pub const UPSTREAM_CPU: &str = "capacity.cluster-autoscaler.kubernetes.io/cpu";
pub const UPSTREAM_MEMORY: &str = "capacity.cluster-autoscaler.kubernetes.io/memory";
pub const LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
/// Everything that may be written here.
pub(crate) const KEYS: [&str; 7] = [CPU, MEMORY, GPU, MAX_PODS, UPSTREAM_CPU, UPSTREAM_MEMORY, LABELS];
const ARCHITECTURE: &str = "kubernetes.io/arch";

/// A set, and what a provider said about its spec.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    pub set: &'a MachineSet,
    /// `None` when the provider does not know the machine type, or the spec says nothing.
    pub capacity: Result<Option<Capacity>, Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Annotations to set on the MachineSet; others stay.
    pub annotations: BTreeMap<String, String>,
    pub next: Next,
}

/// Nothing here depends on time; providers ask their catalogues again by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    OnChange(Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    Announced,
    /// Nobody knows what the machine offers, so the set cannot be scaled from zero.
    Unknown,
    /// The spec cannot be read.
    Invalid(Problem),
}

/// Decides what is announced.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let capacity = match &snapshot.capacity {
        Ok(Some(capacity)) if capacity.cpus > 0 || capacity.memory_mib > 0 => capacity,
        Ok(_) => return Plan { annotations: BTreeMap::new(), next: Next::OnChange(Waiting::Unknown) },
        Err(problem) => {
            return Plan { annotations: BTreeMap::new(), next: Next::OnChange(Waiting::Invalid(problem.clone())) };
        }
    };
    let present = snapshot.set.metadata.annotations.clone().unwrap_or_default();
    let mut wanted = announced(capacity);
    if let Some(labels) = labels(capacity, present.get(LABELS)) {
        wanted.insert(LABELS.to_owned(), labels);
    }
    wanted.retain(|key, value| present.get(key) != Some(value));
    Plan { annotations: wanted, next: Next::OnChange(Waiting::Announced) }
}

/// Whether the autoscaler's own annotations tell enough already.
pub fn has_autoscaler_annotations(set: &MachineSet) -> bool {
    let says = |key: &str| {
        let annotations = set.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).is_some_and(|value| !value.is_empty())
    };
    says(UPSTREAM_CPU) && says(UPSTREAM_MEMORY)
}

fn announced(capacity: &Capacity) -> BTreeMap<String, String> {
    let Capacity { cpus, memory_mib, gpus, max_pods, architecture: _, labels: _ } = capacity;
    let known = [(CPU, Some(cpus)), (MEMORY, Some(memory_mib)), (GPU, gpus.as_ref()), (MAX_PODS, max_pods.as_ref())];
    known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_string()))).collect()
}

/// The labels of the node to be, as `key=value,…`. What a person wrote wins.
fn labels(capacity: &Capacity, present: Option<&String>) -> Option<String> {
    let mut labels = capacity.labels.clone();
    labels.extend(capacity.architecture.map(|architecture| (ARCHITECTURE.to_owned(), architecture.to_string())));
    if labels.is_empty() {
        return None;
    }
    let written = present.map(String::as_str).unwrap_or_default().split(',').filter(|part| !part.is_empty());
    labels.extend(written.map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (key.trim().to_owned(), value.trim().to_owned())
    }));
    Some(labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

/// Reads the capacity of a spec that names CPUs and mebibytes of memory in two fields of its own.
pub fn from_fields(spec: Option<&Value>, cpus: &str, memory_mib: &str) -> Result<Option<Capacity>, Problem> {
    let Some(spec) = spec.filter(|spec| !spec.is_null()) else { return Ok(None) };
    let Value::Object(members) = spec else {
        return Err(Problem::new("providerSpec", format!("Invalid value: {spec}: must be an object")));
    };
    let number = |field: &str, most: u64| match members.get(field) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().filter(|number| *number <= most).ok_or_else(|| {
            let message = format!("Invalid value: {value}: must be a whole number between 0 and {most}");
            Problem::new(format!("providerSpec.{field}"), message)
        }),
    };
    // As wide as the fields of the specs that are read this way.
    let cpus = number(cpus, i32::MAX.unsigned_abs().into())?;
    let memory_mib = number(memory_mib, i64::MAX.unsigned_abs())?;
    let capacity = Capacity { cpus, memory_mib, ..Capacity::default() };
    Ok(Some(capacity))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};

    use super::*;
    use crate::provider::Architecture;

    #[track_caller]
    fn check(annotations: &[(&str, &str)], capacity: Capacity, expected: Expect) {
        let mut set = MachineSet::default();
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        set.metadata.annotations = Some(annotations);
        let plan = plan(&Snapshot { set: &set, capacity: Ok(Some(capacity)) });
        expected.assert_eq(&format!("{:?}", plan.annotations));
    }

    #[test]
    fn an_architecture_joins_the_labels_that_a_person_wrote() {
        let arm = Capacity { cpus: 4, memory_mib: 8, architecture: Some(Architecture::Arm64), ..Capacity::default() };
        check(
            &[(CPU, "4"), (MEMORY, "8"), (LABELS, "zone=a")],
            arm.clone(),
            expect![[r#"{"capacity.cluster-autoscaler.kubernetes.io/labels": "kubernetes.io/arch=arm64,zone=a"}"#]],
        );
        check(&[(CPU, "4"), (MEMORY, "8"), (LABELS, "kubernetes.io/arch=amd64")], arm, expect!["{}"]);
    }

    #[test]
    fn what_is_unknown_is_not_announced() {
        check(&[], Capacity::default(), expect!["{}"]);
        let gpu = Capacity { cpus: 1, memory_mib: 2, gpus: Some(0), ..Capacity::default() };
        check(
            &[],
            gpu,
            expect![[
                r#"{"machine.openshift.io/GPU": "0", "machine.openshift.io/memoryMb": "2", "machine.openshift.io/vCPU": "1"}"#
            ]],
        );
    }
}
