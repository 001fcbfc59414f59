//! The priority levels and flow schemas every cluster starts with. Requests are not queued by them here: they are there for
//! those who read and write them.

use serde_json::{Value, json};

use crate::{Now, text};

pub const SCHEMAS: &str = "flowcontrol.apiserver.k8s.io/flowschemas";
pub const LEVELS: &str = "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations";

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The objects, each with the collection it belongs to.
pub fn objects(now: Now<'_>) -> impl Iterator<Item = (String, Value)> {
    levels().into_iter().chain(schemas()).map(move |(plural, kind, name, spec)| {
        let mut object = json!({
            "kind": kind, "apiVersion": format!("{GROUP}/v1"), "spec": spec,
            "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        });
        if plural == "flowschemas" {
            object["status"] = json!({"conditions": [condition(&object, true, now)]});
        }
        (format!("{GROUP}/{plural}"), object)
    })
}

/// What a flow schema says about its priority level.
#[must_use]
pub fn condition(schema: &Value, exists: bool, now: Now<'_>) -> Value {
    let level = text(&schema["spec"]["priorityLevelConfiguration"]["name"]);
    let (status, reason, end) =
        if exists { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
    json!({"type": "Dangling", "status": status, "reason": reason, "message": message, "lastTransitionTime": now()})
}

/// The names of what every server needs and keeps as it is.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// The spec that a flow schema of this name must have.
pub(crate) fn mandatory_schema(name: &str) -> Option<Value> {
    MANDATORY.contains(&name).then(|| of_name(schemas(), name))
}

/// The spec that a priority level of this name must have.
pub(crate) fn mandatory_level(name: &str) -> Option<Value> {
    MANDATORY.contains(&name).then(|| of_name(levels(), name))
}

fn of_name(all: Vec<Named>, name: &str) -> Value {
    all.into_iter().find(|(_, _, own, _)| *own == name).map(|(_, _, _, spec)| spec).unwrap_or_default()
}

/// A plural, a kind, a name and a spec.
type Named = (&'static str, &'static str, &'static str, Value);

fn levels() -> Vec<Named> {
    let limited = |shares: i64, lendable: i64, response: Value| {
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
        json!({"type": "Limited", "limited": limited})
    };
    let queue = |queues: i64, hand: i64| json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}});
    let levels = [
        ("exempt", json!({"type": "Exempt", "exempt": {}})),
        ("catch-all", limited(5, 0, json!({"type": "Reject"}))),
        ("global-default", limited(20, 50, queue(128, 6))),
        ("leader-election", limited(10, 0, queue(16, 4))),
        ("node-high", limited(40, 25, queue(64, 6))),
        ("system", limited(30, 33, queue(64, 6))),
        ("workload-high", limited(40, 50, queue(128, 6))),
        ("workload-low", limited(100, 90, queue(128, 6))),
    ];
    levels
        .into_iter()
        .map(|(name, spec)| ("prioritylevelconfigurations", "PriorityLevelConfiguration", name, spec))
        .collect()
}

fn schemas() -> Vec<Named> {
    let everything = json!({
        "resourceRules": [{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
        }],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    let leases = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]});
    let nodes = json!({
        "verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": true,
        "namespaces": ["*"],
    });
    let anybody = || vec![group("system:unauthenticated"), group("system:authenticated")];
    let manager = || user("system:kube-controller-manager");
    let scheduler = || user("system:kube-scheduler");
    let accounts = || json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}});
    let probes =
        json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]});
    let elections = json!({"resourceRules": [leases(&["get", "create", "update"])]});
    let heartbeats = json!({"resourceRules": [nodes, leases(&["*"])]});
    let schemas = [
        ("exempt", "exempt", 1, "", vec![group("system:masters")], &everything),
        ("probes", "exempt", 2, "", anybody(), &probes),
        (
            "system-leader-election",
            "leader-election",
            100,
            "ByUser",
            vec![manager(), scheduler(), accounts()],
            &elections,
        ),
        ("system-node-high", "node-high", 400, "ByUser", vec![group("system:nodes")], &heartbeats),
        ("system-nodes", "system", 500, "ByUser", vec![group("system:nodes")], &everything),
        ("kube-controller-manager", "workload-high", 800, "ByNamespace", vec![manager()], &everything),
        ("kube-scheduler", "workload-high", 800, "ByNamespace", vec![scheduler()], &everything),
        ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", vec![accounts()], &everything),
        ("service-accounts", "workload-low", 9000, "ByUser", vec![group("system:serviceaccounts")], &everything),
        ("global-default", "global-default", 9900, "ByUser", anybody(), &everything),
        ("catch-all", "catch-all", 10000, "ByUser", anybody(), &everything),
    ];
    let named = schemas.into_iter().map(|(name, level, precedence, method, subjects, rules)| {
        let mut rule = rules.clone();
        rule["subjects"] = subjects.into();
        let mut spec = json!({
            "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rule],
        });
        if !method.is_empty() {
            spec["distinguisherMethod"] = json!({"type": method});
        }
        ("flowschemas", "FlowSchema", name, spec)
    });
    named.collect()
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "group": {"name": name}})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}
