//! Amounts, thresholds, taints and other texts that have a form of their own.

use std::collections::{BTreeMap, BTreeSet};

use api::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::{View, Violation, violate};
use crate::duration;
use crate::kubelet::tls;
use crate::quantity::Quantity;

pub(super) fn check(view: View<'_>, found: &mut Vec<Violation>) {
    eviction(view, found);
    reservations(view, &["systemReserved", "kubeReserved"], found);
    shares(view, found);
    reserved_memory(view, found);
    processors(view, found);
    taints(view, found);
    names(view, found);
}

const SIGNALS: [&str; 8] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];
/// What the kubelet derives from `memory.available`; it can be set as well.
const ALLOCATABLE: &str = "allocatableMemory.available";

fn eviction(view: View<'_>, found: &mut Vec<Violation>) {
    for field in ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "evictionSoftGracePeriod"] {
        for (signal, text) in view.map(field) {
            let path = || format!("{field}[{signal}]");
            if !SIGNALS.contains(&signal) && signal != ALLOCATABLE {
                violate(found, path(), format!("is no eviction signal; there are {}", SIGNALS.join(", ")));
                continue;
            }
            let is_right = match field {
                "evictionSoftGracePeriod" => duration::parse(text).is_some_and(|period| period >= 0),
                "evictionMinimumReclaim" => {
                    amount(text).is_some_and(|it| it >= 0) || percent(text).is_some_and(|it| it > 0.0)
                }
                _ => amount(text).is_some_and(|it| it > 0) || percent(text).is_some_and(|it| it <= 100.0),
            };
            if !is_right {
                let right = match field {
                    "evictionSoftGracePeriod" => "a duration such as 1m30s",
                    _ => "an amount such as 200Mi or a share such as 10%",
                };
                violate(found, path(), format!("must be {right}, but is {text:?}"));
            }
        }
    }
    for (signal, _) in view.map("evictionSoft") {
        if !view.map("evictionSoftGracePeriod").any(|(known, _)| known == signal) {
            let message = "must be set, for example 1m30s, because evictionSoft has a threshold for it";
            violate(found, format!("evictionSoftGracePeriod[{signal}]"), message);
        }
    }
}

/// Units of an amount; `None` when it is none.
fn amount(text: &str) -> Option<i64> {
    Quantity::parse(text).map(|quantity| quantity.value())
}

fn percent(text: &str) -> Option<f64> {
    text.strip_suffix('%')?.parse().ok().filter(|share: &f64| share.is_finite() && *share >= 0.0)
}

pub(super) fn reservations(view: View<'_>, fields: &[&str], found: &mut Vec<Violation>) {
    for field in fields {
        for (resource, text) in view.map(field) {
            let path = format!("{field}[{resource}]");
            if !["cpu", "memory", "ephemeral-storage", "pid"].contains(&resource) {
                violate(found, path, "cannot be reserved; there are cpu, memory, ephemeral-storage, pid");
            } else if amount(text).is_none_or(|amount| amount < 0) {
                violate(found, path, format!("must be an amount such as 500m or 1Gi, but is {text:?}"));
            }
        }
    }
}

fn shares(view: View<'_>, found: &mut Vec<Violation>) {
    for (resource, text) in view.map("qosReserved") {
        if resource != "memory" || percent(text).is_none_or(|share| share > 100.0) {
            violate(found, format!("qosReserved[{resource}]"), "must be a share of memory, for example 50%");
        }
    }
    let size = view.text("containerLogMaxSize");
    if !size.is_empty() && amount(size).is_none_or(|size| size <= 0) {
        violate(found, "containerLogMaxSize", format!("must be an amount such as 50Mi, but is {size:?}"));
    }
}

fn reserved_memory(view: View<'_>, found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for (index, entry) in view.list("reservedMemory").enumerate() {
        let node = entry.get("numaNode").and_then(Value::as_i64).unwrap_or_default();
        for (resource, amount) in entry.get("limits").and_then(Value::as_object).into_iter().flatten() {
            let path = format!("reservedMemory[{index}].limits[{resource}]");
            if resource != "memory" && !resource.starts_with("hugepages-") {
                violate(found, path.as_str(), "cannot be reserved; there are memory and hugepages-<size>");
            }
            if amount.as_str().and_then(Quantity::parse).is_none_or(|amount| amount.is_zero()) {
                violate(found, path.as_str(), "must not be zero, for example 1Gi");
            }
            if !seen.insert((node, resource)) {
                violate(found, path, format!("repeats {resource} of NUMA node {node}"));
            }
        }
    }
}

fn processors(view: View<'_>, found: &mut Vec<Violation>) {
    let set = view.text("reservedSystemCPUs");
    if !set.is_empty() && !is_processor_set(set) {
        violate(found, "reservedSystemCPUs", format!("must be a set of processors such as 0-1,4, but is {set:?}"));
    }
    let is_static = view.text("cpuManagerPolicy") == "static";
    for (option, value) in view.map("cpuManagerPolicyOptions") {
        let path = format!("cpuManagerPolicyOptions[{option}]");
        if !is_static {
            violate(found, path, "needs cpuManagerPolicy static");
        } else if value.parse::<bool>().is_err() {
            violate(found, path, format!("must be \"true\" or \"false\", but is {value:?}"));
        }
    }
    if view.text("memoryManagerPolicy") == "Static" && view.list("reservedMemory").next().is_none() {
        violate(found, "reservedMemory", "must be set while memoryManagerPolicy is Static");
    }
}

fn is_processor_set(text: &str) -> bool {
    text.split(',').all(|range| match range.split_once('-') {
        None => range.parse::<u32>().is_ok(),
        Some((first, last)) => match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => first <= last,
            _ => false,
        },
    })
}

fn taints(view: View<'_>, found: &mut Vec<Violation>) {
    for (index, taint) in view.list("registerWithTaints").enumerate() {
        let text = |field: &str| taint.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = format!("registerWithTaints[{index}]");
        let labels = BTreeMap::from([(text("key").to_owned(), text("value").to_owned())]);
        let selector = LabelSelector { match_labels: Some(labels), match_expressions: None };
        if let Err(error) = Selector::parse(&selector) {
            violate(found, path.as_str(), format!("is no taint: {error}"));
        }
        if !matches!(text("effect"), "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let message = format!("must be NoSchedule, PreferNoSchedule or NoExecute, but is {:?}", text("effect"));
            violate(found, format!("{path}.effect"), message);
        }
        if taint.get("timeAdded").is_some() {
            violate(found, format!("{path}.timeAdded"), "must not be set: it is the cluster's");
        }
    }
}

/// Sysctls that belong to a pod's own namespaces, so that a pod cannot change the node by them.
const NAMESPACED: [&str; 5] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net."];

fn names(view: View<'_>, found: &mut Vec<Violation>) {
    for (index, suite) in view.texts("tlsCipherSuites").enumerate() {
        if !tls::is_suite(suite) {
            let message = format!("{suite:?} is no cipher suite, for example TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
            violate(found, format!("tlsCipherSuites[{index}]"), message);
        }
    }
    for (index, sysctl) in view.texts("allowedUnsafeSysctls").enumerate() {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '/' | '-' | '_');
        let name = sysctl.strip_suffix('*').unwrap_or(sysctl);
        let dotted = name.replace('/', ".");
        if name.is_empty() || sysctl.len() > 253 || !name.chars().all(plain) {
            violate(
                found,
                format!("allowedUnsafeSysctls[{index}]"),
                format!("{sysctl:?} is no sysctl, for example net.*"),
            );
        } else if !NAMESPACED.iter().any(|known| dotted.starts_with(known)) {
            let message = format!("{sysctl:?} is not known to be a pod's own; those are {}", NAMESPACED.join("*, "));
            violate(found, format!("allowedUnsafeSysctls[{index}]"), message);
        }
    }
}
