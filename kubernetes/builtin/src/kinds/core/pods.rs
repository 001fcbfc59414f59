//! Pods.

mod cells;

use serde_json::{Map, Value, json};

use crate::{
    Generation, Kind, Now, Strategy, Update, Write,
    amounts::{self, Amounts},
    defaults,
    fields::Read,
    kind::Check,
    text,
    validate::{Findings, Place, items, pods},
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy {
        generation: Generation::Counted,
        returns_deleted: true,
        graceful: true,
        kept_by_status: Some("ownerReferences"),
        reset_by_status: &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ..Strategy::PLAIN
    },
    fields: &[
        ("spec.nodeName", Read::Plain),
        ("spec.restartPolicy", Read::Plain),
        ("spec.schedulerName", Read::Plain),
        ("spec.serviceAccountName", Read::Plain),
        ("spec.hostNetwork", Read::Or("false")),
        ("status.phase", Read::Plain),
        ("status.podIP", Read::Plain),
        ("status.podIPs", Read::By(addresses)),
        ("status.nominatedNodeName", Read::Plain),
    ],
    columns: "Name, Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates",
    cells: cells::cells,
    default: |value, _| defaults::pods::pod(value),
    create,
    update,
    validate: Check::Write(validate),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("/pods")
};

const HOLDER: Holder = Holder { place: &[], named: Some("the Pod's hostname"), looked_at: LookedAt::Created };

fn addresses(pod: &Value) -> String {
    items(&pod["status"]["podIPs"]).iter().filter_map(|address| address["ip"].as_str()).collect::<Vec<_>>().join(",")
}

fn validate(write: &Write<'_>, findings: &mut Findings) {
    let pod = Place::root(write.value);
    match write.old {
        // Containers for debugging are added to a pod, and then stay as they are.
        Some(old) if write.subresource == "ephemeralcontainers" => {
            pods::metadata_and_spec(&pod, findings);
            pods::ephemeral_changes(&pod, old, findings);
        }
        Some(old) => pods::update(&pod, old, findings),
        None => pods::create(&pod, findings),
    }
}

fn update(update: &mut Update<'_>) {
    match update.subresource {
        "" => complete(update.old, update.new),
        "ephemeralcontainers" => keep_all_but_ephemeral(update.old, update.new),
        _ => {}
    }
}

fn create(pod: &mut Value, now: Now<'_>) {
    let class = quality(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": now(),
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        tolerate_node_troubles(spec);
    }
}

/// The way to add a container for debugging changes nothing else.
fn keep_all_but_ephemeral(old: &Value, new: &mut Value) {
    let containers = new["spec"].get("ephemeralContainers").cloned();
    let managed = new["metadata"].get("managedFields").cloned();
    let mut kept = old.clone();
    for (parent, field, value) in [("spec", "ephemeralContainers", containers), ("metadata", "managedFields", managed)]
    {
        let Some(parent) = kept.get_mut(parent).and_then(Value::as_object_mut) else { continue };
        match value {
            Some(value) => parent.insert(field.into(), value),
            None => parent.remove(field),
        };
    }
    *new = kept;
}

/// What admission adds to a pod, it adds again, and what it chose stays.
fn complete(old: &Value, pod: &mut Value) {
    if let Some(spec) = pod["spec"].as_object_mut() {
        tolerate_node_troubles(spec);
        for field in ["priority", "preemptionPolicy"] {
            if spec.get(field).is_none_or(Value::is_null) && !old["spec"][field].is_null() {
                spec.insert(field.into(), old["spec"][field].clone());
            }
        }
    }
}

/// Pods stay five minutes on a node that is not ready or cannot be reached, unless they say otherwise.
fn tolerate_node_troubles(spec: &mut Map<String, Value>) {
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let effect = text(&toleration["effect"]);
            let own = text(&toleration["key"]);
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec.insert("tolerations".into(), tolerations.into());
}

/// How well a pod is kept when its node has too little, by what it, or else each of its containers, asks for.
fn quality(spec: &Value) -> &'static str {
    let positive = |resources: &Value, side: &str| {
        let mut amounts = amounts::read(&resources[side]);
        amounts.retain(|name, amount| matches!(name.as_str(), "cpu" | "memory") && amount.is_positive());
        amounts
    };
    let (mut requests, mut limits, mut guaranteed) = (Amounts::new(), Amounts::new(), true);
    let resources: Vec<&Value> = match &spec["resources"] {
        Value::Object(_) => vec![&spec["resources"]],
        _ => {
            let containers = amounts::list(&spec["containers"]).chain(amounts::list(&spec["initContainers"]));
            containers.map(|container| &container["resources"]).collect()
        }
    };
    for own in resources {
        let most = positive(own, "limits");
        guaranteed &= most.len() == 2;
        amounts::add(&mut limits, &most);
        amounts::add(&mut requests, &positive(own, "requests"));
    }
    match guaranteed && requests == limits {
        _ if requests.is_empty() && limits.is_empty() => "BestEffort",
        true => "Guaranteed",
        false => "Burstable",
    }
}

/// Seconds a deleted pod has to stop: none if no kubelet has it or it is over.
#[must_use]
pub fn grace(pod: &Value, asked: Option<i64>) -> i64 {
    let period = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    let period = if period < 0 { 1 } else { period };
    let scheduled = !text(&pod["spec"]["nodeName"]).is_empty();
    let over = matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded");
    if !scheduled || over { 0 } else { period }
}
