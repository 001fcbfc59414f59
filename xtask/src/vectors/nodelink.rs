//! `nodelink`: which machine a node belongs to, and what is copied between them.

use std::collections::BTreeMap;

use api::machine::Machine;
use k8s_openapi::api::core::v1::Node;
use machine::link::{Action, Identity, Index, Key, Match, Next, Snapshot, Waiting, node_of, plan};
use serde_json::{Map, Value, json};

use super::fleet::{list, name};
use super::judge::{Expected, Judge, Rule};
use super::machines::{objects, plain};
use super::same;

pub(crate) struct NodeLink;

const LINK: &str = "machine.openshift.io/machine";
const APPLIED: &str = "machinist.dev/applied-from-machine";

impl Judge for NodeLink {
    fn file(&self) -> &'static str {
        "nodelink"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let node: Node = plain(&input["node"])?;
        let machines: Vec<Machine> = objects(&input["machines"])?;
        let by_key: BTreeMap<_, _> = machines.iter().map(|machine| (Key::of(machine), machine)).collect();
        let [mut index, mut nodes] = [Index::default(), Index::default()];
        machines.iter().for_each(|machine| index.put(Key::of(machine), Identity::of(machine)));
        nodes.put(Key::of_node(&node), Identity::of_node(&node));
        let machine = match index.machine_of(&Identity::of_node(&node)) {
            Match::None => Match::None,
            Match::One(key) => Match::One(by_key[&key]),
            Match::Several { by, keys } => Match::Several { by, keys },
        };
        let plan = plan(&Snapshot { node: &node, machine: machine.clone(), linked: None });
        let Next::OnChange(waiting) = plan.next;
        if let Waiting::Ambiguous { .. } = waiting {
            return Err(waiting.to_string());
        }
        let mut refs: Map<_, _> = machines.iter().filter_map(reference).collect();
        let mut after = node;
        for action in plan.actions {
            match action {
                Action::SetNodeRef { machine, node_ref } => {
                    refs.insert(machine.name, json!(node_ref.name));
                }
                Action::PatchNode(patch) => {
                    amend(after.metadata.labels.get_or_insert_default(), patch.labels);
                    amend(after.metadata.annotations.get_or_insert_default(), patch.annotations);
                    if let Some(taints) = patch.taints {
                        after.spec.get_or_insert_default().taints = Some(taints);
                    }
                }
            }
        }
        let found = match machine {
            Match::One(machine) => machine.metadata.name.clone(),
            Match::None | Match::Several { .. } => None,
        };
        let reverse: Map<_, _> = machines
            .iter()
            .map(|machine| {
                let node = match node_of(&Identity::of(machine), &nodes) {
                    Match::One(node) => json!(node.name),
                    Match::None | Match::Several { .. } => Value::Null,
                };
                (machine.metadata.name.clone().unwrap_or_default(), node)
            })
            .collect();
        Ok(json!({
            "machine": found,
            "nodeOfMachine": reverse,
            "nodeRefs": refs,
            "node": {
                "labels": after.metadata.labels,
                "annotations": after.metadata.annotations,
                "taints": after.spec.and_then(|spec| spec.taints),
            },
        }))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(expected, ours)
    }

    fn phrases(&self, _: &str) -> Vec<String> {
        vec!["expected 1 machine".to_owned()]
    }
}

fn reference(machine: &Machine) -> Option<(String, Value)> {
    let reference = machine.status.as_ref()?.node_ref.as_ref()?;
    Some((machine.metadata.name.clone().unwrap_or_default(), json!(reference.name)))
}

fn amend(present: &mut BTreeMap<String, String>, changes: BTreeMap<String, Option<String>>) {
    for (key, value) in changes {
        match value {
            Some(value) => present.insert(key, value),
            None => present.remove(&key),
        };
    }
}

const RULES: &[Rule] = &[
    Rule { name: "every-internal-address-is-tried", covers: |_| true, answer: every_address },
    Rule { name: "a-link-does-not-wait-for-readiness", covers: |_| true, answer: linked },
    Rule { name: "the-link-is-not-the-machines-to-change", covers: |_| true, answer: protected },
    Rule { name: "what-came-from-the-machine-is-remembered", covers: |_| true, answer: remembered },
];

fn addresses(object: &Value) -> Vec<&str> {
    list(&object["status"]["addresses"])
        .filter(|address| address["type"] == json!("InternalIP"))
        .filter_map(|address| address["address"].as_str())
        .collect()
}

/// All internal addresses of a node and of a machine identify them, not only the first.
fn every_address(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let node = &input["node"];
    for machine in list(&input["machines"]) {
        let meets = addresses(machine).iter().any(|address| addresses(node).contains(address));
        if output["nodeOfMachine"][name(machine)].is_null() && meets {
            output["nodeOfMachine"][name(machine)] = json!(name(node));
        }
    }
    if !output["machine"].is_null() {
        return Expected::Output(output);
    }
    for address in addresses(node).into_iter().skip(1) {
        let holders: Vec<_> =
            list(&input["machines"]).filter(|machine| addresses(machine).contains(&address)).collect();
        match holders.as_slice() {
            [] => {}
            [machine] => {
                output["machine"] = json!(name(machine));
                if node["metadata"]["deletionTimestamp"].is_null() {
                    output["node"] = copied(machine, node);
                }
                return Expected::Output(output);
            }
            _ => return Expected::Refusal(vec!["expected 1 machine".to_owned()]),
        }
    }
    Expected::Output(output)
}

/// Returns the node after upstream's copy.
fn copied(machine: &Value, node: &Value) -> Value {
    let namespace = machine["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut after = json!({
        "labels": node["metadata"]["labels"], "annotations": node["metadata"]["annotations"], "taints": node["spec"]["taints"],
    });
    after["annotations"][LINK] = json!(format!("{namespace}/{}", name(machine)));
    let template = &machine["spec"]["metadata"];
    for part in ["annotations", "labels"] {
        for (key, value) in template[part].as_object().into_iter().flatten() {
            after[part][key] = value.clone();
        }
    }
    let mut taints: Vec<_> = list(&after["taints"]).cloned().collect();
    for taint in list(&machine["spec"]["taints"]) {
        if !taints.iter().any(|other| other["key"] == taint["key"] && other["effect"] == taint["effect"]) {
            taints.push(taint.clone());
        }
    }
    after["taints"] = json!(taints);
    after
}

/// The reference is written whenever it is missing.
fn linked(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if let Some(machine) = output["machine"].as_str().map(str::to_owned)
        && input["node"]["metadata"]["deletionTimestamp"].is_null()
    {
        output["nodeRefs"][machine] = json!(name(&input["node"]));
    }
    Expected::Output(output)
}

fn protected(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let machine = list(&input["machines"]).find(|machine| Some(name(machine)) == output["machine"].as_str());
    if let Some(machine) = machine
        && output["node"]["annotations"][LINK].is_string()
        && input["node"]["metadata"]["deletionTimestamp"].is_null()
    {
        let namespace = machine["metadata"]["namespace"].as_str().unwrap_or_default();
        output["node"]["annotations"][LINK] = json!(format!("{namespace}/{}", name(machine)));
    }
    Expected::Output(output)
}

fn remembered(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let machine = list(&input["machines"]).find(|machine| Some(name(machine)) == output["machine"].as_str());
    let Some(machine) = machine.filter(|_| input["node"]["metadata"]["deletionTimestamp"].is_null()) else {
        return Expected::Output(output);
    };
    let spec = &machine["spec"];
    let present: Vec<_> = list(&input["node"]["spec"]["taints"]).collect();
    let is_new = |taint: &&Value| {
        !present.iter().any(|other| other["key"] == taint["key"] && other["effect"] == taint["effect"])
    };
    let mut taints: Vec<_> = list(&spec["taints"]).filter(is_new).collect();
    taints.sort_by_key(|taint| (taint["key"].to_string(), taint["effect"].to_string()));
    let mut memory =
        json!({"labels": spec["metadata"]["labels"], "annotations": spec["metadata"]["annotations"], "taints": taints});
    if let Some(annotations) = memory["annotations"].as_object_mut() {
        annotations.remove(LINK);
    }
    let memory = same::without_zero(&memory);
    if memory.as_object().is_some_and(|memory| !memory.is_empty()) {
        // In the order of our type's fields, because the texts are compared.
        let parts: Vec<_> = ["labels", "annotations"]
            .iter()
            .filter(|key| !memory[**key].is_null())
            .map(|key| format!("{key:?}:{}", memory[*key]))
            .chain((!taints.is_empty()).then(|| {
                let taints: Vec<_> = taints.iter().map(|taint| taint_text(taint)).collect();
                format!("\"taints\":[{}]", taints.join(","))
            }))
            .collect();
        output["node"]["annotations"][APPLIED] = json!(format!("{{{}}}", parts.join(",")));
    }
    Expected::Output(output)
}

fn taint_text(taint: &Value) -> String {
    let value = if taint["value"].is_string() { format!(",\"value\":{}", taint["value"]) } else { String::new() };
    format!("{{\"key\":{},\"effect\":{}{value}}}", taint["key"], taint["effect"])
}
