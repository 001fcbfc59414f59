//! Defaults of what limits others: ranges of resources, levels of priority, walls between pods.

use serde_json::{Value, json};

use super::{list_or_none, set, set_zero};
use crate::builtin::amounts;

/// A container that says nothing gets the most it may have, and asks for as much, or else for the least.
pub(super) fn range(item: &mut Value) {
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if let Some(own) = item.get_mut(field) {
            amounts::round(own);
        }
    }
    if item["type"] != "Container" {
        if let Some(item) = item.as_object_mut() {
            item.retain(|_, field| !field.is_null());
        }
        return;
    }
    for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(amounts) = item.get(source).and_then(Value::as_object).cloned() else { continue };
        for (resource, amount) in amounts {
            set(&mut item[target], &resource, amount);
        }
    }
}

pub(super) fn priority_level(spec: &mut Value) {
    if let Some(exempt) = spec.get_mut("exempt").filter(|exempt| exempt.is_object()) {
        set(exempt, "nominalConcurrencyShares", 0);
        set(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = spec.get_mut("limited").filter(|limited| limited.is_object()) {
        set(limited, "nominalConcurrencyShares", 30);
        set(limited, "lendablePercent", 0);
        if limited["limitResponse"]["queuing"].is_object() {
            let queuing = &mut limited["limitResponse"]["queuing"];
            set_zero(queuing, "handSize", 8);
            set_zero(queuing, "queues", 64);
            set_zero(queuing, "queueLengthLimit", 50);
        }
    }
}

pub(super) fn network_policy(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    for direction in ["ingress", "egress"] {
        for rule in list_or_none(spec, direction) {
            for port in list_or_none(rule, "ports") {
                set(port, "protocol", "TCP");
            }
        }
    }
    if list_or_none(spec, "policyTypes").is_empty() {
        let leaves = !list_or_none(spec, "egress").is_empty();
        spec["policyTypes"] = if leaves { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
}
