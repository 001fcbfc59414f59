//! NetworkPolicies.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{list_or_none, set},
    kind::Check,
    table::selector,
    validate::network,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    columns: "Name, Pod-Selector, Age",
    cells: |row| json!([row.name, selector(&row.spec["podSelector"]), row.age]),
    default: |value, _| default(&mut value["spec"]),
    validate: Check::Object(network::policy),
    judged: true,
    ..Kind::plain("networking.k8s.io/networkpolicies")
};

fn default(spec: &mut Value) {
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
