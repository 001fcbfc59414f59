//! What objects cost: which resources of a quota an object uses up, how much of each, and which scopes it is in.
//!
//! Nothing here looks anything up. What a pod costs may end with time alone, so the time is asked for.

use std::collections::{BTreeMap, BTreeSet};

use builtin::amounts::{self, Amounts, Side, list};
use jiff::Timestamp;
use schema::{names, quantity::Quantity};
use serde_json::Value;

use crate::{object::text, registry::Resource};

/// How the objects of a collection are counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Pods,
    Services,
    StorageClaims,
    DeviceClaims,
    /// By their number alone, under these names.
    Objects(Vec<String>),
}

const PODS: &str = "/pods";
const SERVICES: &str = "/services";
const STORAGE_CLAIMS: &str = "/persistentvolumeclaims";
const DEVICE_CLAIMS: &str = "resource.k8s.io/resourceclaims";

/// Where the objects are whose cost is more than their number.
pub(crate) const MEASURED: [(&str, Kind); 4] = [
    (PODS, Kind::Pods),
    (SERVICES, Kind::Services),
    (STORAGE_CLAIMS, Kind::StorageClaims),
    (DEVICE_CLAIMS, Kind::DeviceClaims),
];

/// Those of the core group that have a short name too.
const SHORT: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// What a request for all devices of a class may come to.
const ALL_DEVICES: i64 = 32;

impl Kind {
    /// `None` for what is never counted.
    pub(crate) fn of(resource: &Resource) -> Option<Kind> {
        let ignored = resource.is("/events") || matches!(&*resource.collection, "/bindings" | "/componentstatuses");
        if ignored || !resource.namespaced || !resource.allows("list") {
            return None;
        }
        if let Some((_, kind)) = MEASURED.iter().find(|(collection, _)| resource.is(collection)) {
            return Some(kind.clone());
        }
        let mut names = vec![format!("count/{}", resource.qualified())];
        if resource.group.is_empty() && SHORT.contains(&resource.plural.as_str()) {
            names.push(resource.plural.clone());
        }
        Some(Kind::Objects(names))
    }

    /// Whether objects of this kind use up what a quota names so.
    pub(crate) fn uses(&self, name: &str) -> bool {
        match self {
            Kind::Pods => {
                let plain = name.strip_prefix("requests.").or(name.strip_prefix("limits.")).unwrap_or(name);
                matches!(name, "pods" | "count/pods")
                    || matches!(plain, "cpu" | "memory" | "ephemeral-storage")
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || is_extended_request(name)
            }
            Kind::Services => {
                matches!(name, "services" | "count/services" | "services.nodeports" | "services.loadbalancers")
            }
            Kind::StorageClaims => {
                let of_class = name.split_once(OF_STORAGE_CLASS).map(|(_, rest)| rest);
                name == "count/persistentvolumeclaims"
                    || matches!(of_class.unwrap_or(name), "persistentvolumeclaims" | "requests.storage")
            }
            Kind::DeviceClaims => name == "count/resourceclaims.resource.k8s.io" || name.ends_with(OF_DEVICE_CLASS),
            Kind::Objects(names) => names.iter().any(|own| own == name),
        }
    }

    pub(crate) fn measure(&self, object: &Value) -> Measured {
        match self {
            Kind::Pods => pod(object),
            Kind::Services => Measured::of(service(object), Facts::Other),
            Kind::StorageClaims => Measured::of(storage_claim(object), Facts::Claim(attribute_classes(object))),
            Kind::DeviceClaims => Measured::of(device_claim(object), Facts::Other),
            Kind::Objects(names) => Measured::one_of(names),
        }
    }
}

/// What a quota calls the request for a resource that somebody else defined.
fn is_extended_request(name: &str) -> bool {
    let Some(plain) = name.strip_prefix("requests.") else { return false };
    (name.contains('/') && !name.contains("kubernetes.io/")) || plain.starts_with(DEVICE_CLASS)
}

/// One object as quotas see it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    usage: Amounts,
    /// What is left of it at the end of its life.
    afterwards: Amounts,
    /// When that is, of an object that should have been gone by then.
    end: Option<Timestamp>,
    facts: Facts,
}

#[derive(Clone, Debug, PartialEq)]
enum Facts {
    Pod {
        terminating: bool,
        best_effort: bool,
        class: String,
        crosses: bool,
    },
    Claim(BTreeSet<String>),
    /// In no scope at all.
    Other,
}

impl Measured {
    fn of(usage: Amounts, facts: Facts) -> Self {
        Self { afterwards: usage.clone(), usage, end: None, facts }
    }

    pub(crate) fn one_of(names: &[String]) -> Self {
        Self::of(names.iter().map(|name| (name.clone(), Quantity::of(1))).collect(), Facts::Other)
    }

    pub(crate) fn usage(&self, now: Timestamp) -> &Amounts {
        if self.end.is_some_and(|end| now > end) { &self.afterwards } else { &self.usage }
    }

    /// Whether a pod will end by itself.
    pub(crate) fn is_terminating(&self) -> bool {
        matches!(self.facts, Facts::Pod { terminating: true, .. })
    }

    pub(crate) fn is_in(&self, scope: &Scope) -> bool {
        let class = |name: &str| scope.selects((!name.is_empty()).then_some(name));
        match (&self.facts, scope.name.as_str()) {
            (Facts::Pod { terminating, .. }, "Terminating") => *terminating,
            (Facts::Pod { terminating, .. }, "NotTerminating") => !terminating,
            (Facts::Pod { best_effort, .. }, "BestEffort") => *best_effort,
            (Facts::Pod { best_effort, .. }, "NotBestEffort") => !best_effort,
            (Facts::Pod { class: own, .. }, "PriorityClass") => class(own),
            (Facts::Pod { crosses, .. }, "CrossNamespacePodAffinity") => *crosses,
            (Facts::Claim(classes), "VolumeAttributesClass") if classes.is_empty() => class(""),
            (Facts::Claim(classes), "VolumeAttributesClass") => classes.iter().any(|own| class(own)),
            _ => false,
        }
    }
}

/// A condition under which a quota is about an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Scope {
    /// The scopes of a quota, all of which an object must be in.
    pub(crate) fn of_quota(spec: &Value) -> Vec<Scope> {
        let plain = list(&spec["scopes"]).map(|scope| Scope {
            name: text(scope).to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selected = list(&spec["scopeSelector"]["matchExpressions"]).map(|own| Scope {
            name: text(&own["scopeName"]).to_owned(),
            operator: text(&own["operator"]).to_owned(),
            values: list(&own["values"]).map(|value| text(value).to_owned()).collect(),
        });
        plain.chain(selected).collect()
    }

    fn selects(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.iter().any(|own| own == value));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "DoesNotExist" => value.is_none(),
            _ => value.is_some(),
        }
    }
}

fn pod(pod: &Value) -> Measured {
    let afterwards = Amounts::from([("count/pods".to_owned(), Quantity::of(1))]);
    let (spec, metadata) = (&pod["spec"], &pod["metadata"]);
    let over = matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded");
    let mut usage = afterwards.clone();
    if !over {
        let [requests, limits] = [Side::Requests, Side::Limits].map(|side| amounts::taken(pod, side));
        usage.extend(computed(&requests, &limits));
    }
    // A pod that a lost node never lets go must not keep others from taking its place.
    let deleted = text(&metadata["deletionTimestamp"]).parse::<Timestamp>().ok();
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let end = deleted.zip(grace).and_then(|(at, grace)| at.checked_add(jiff::SignedDuration::from_secs(grace)).ok());
    let facts = Facts::Pod {
        terminating: spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0),
        best_effort: pod["status"]["qosClass"] == "BestEffort",
        class: text(&spec["priorityClassName"]).to_owned(),
        crosses: crosses_namespaces(&spec["affinity"]),
    };
    Measured { usage, afterwards, end, facts }
}

/// Requests and limits under the names that quotas have for them.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::of(1))]);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.insert(name.to_owned(), request.clone());
            usage.insert(format!("requests.{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests {
        let pages = name.starts_with("hugepages-");
        if pages {
            usage.insert(name.clone(), request.clone());
        }
        if pages || is_extended(name) {
            usage.insert(format!("requests.{name}"), request.clone());
        }
    }
    usage
}

fn is_extended(name: &str) -> bool {
    let foreign = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
    (foreign && names::is_qualified_name(&format!("requests.{name}")).is_empty()) || name.starts_with(DEVICE_CLASS)
}

fn crosses_namespaces(affinity: &Value) -> bool {
    let crosses = |term: &Value| list(&term["namespaces"]).len() > 0 || term["namespaceSelector"].is_object();
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let side = &affinity[side];
        list(&side["requiredDuringSchedulingIgnoredDuringExecution"]).any(crosses)
            || list(&side["preferredDuringSchedulingIgnoredDuringExecution"])
                .any(|own| crosses(&own["podAffinityTerm"]))
    })
}

/// The resources of which a container must say something where a quota counts them, and who does not.
pub(crate) fn unsaid(pod: &Value) -> BTreeMap<String, BTreeSet<String>> {
    const WANTED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
    let mut unsaid: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if amounts::is_set_for_whole_pod(&pod["spec"]) {
        return unsaid;
    }
    for container in list(&pod["spec"]["containers"]).chain(list(&pod["spec"]["initContainers"])) {
        let resources = &container["resources"];
        let said = computed(&amounts::read(&resources["requests"]), &amounts::read(&resources["limits"]));
        for name in WANTED.iter().filter(|name| !said.contains_key(**name)) {
            unsaid.entry((*name).to_owned()).or_default().insert(text(&container["name"]).to_owned());
        }
    }
    unsaid
}

fn counts<const N: usize>(counts: [(&str, i64); N]) -> Amounts {
    counts.into_iter().map(|(name, count)| (name.to_owned(), Quantity::of(count))).collect()
}

fn service(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = list(&spec["ports"]);
    let (node_ports, balancers) = match text(&spec["type"]) {
        "NodePort" => (ports.len(), 0),
        // Where nobody is given a port of the nodes, only those who ask for one get it.
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            (ports.filter(|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    counts([
        ("count/services", 1),
        ("services", 1),
        ("services.loadbalancers", balancers),
        ("services.nodeports", node_ports),
    ])
}

fn storage_claim(claim: &Value) -> Amounts {
    let mut usage = counts([("count/persistentvolumeclaims", 1), ("persistentvolumeclaims", 1)]);
    let spec = &claim["spec"];
    let old_way = claim["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class");
    let class = text(old_way.unwrap_or(&spec["storageClassName"]));
    let mut storage = amounts::read(&spec["resources"]["requests"]).remove("storage").map(Quantity::whole);
    let allocated = amounts::read(&claim["status"]["allocatedResources"]).remove("storage");
    if let (Some(own), Some(allocated)) = (&storage, allocated)
        && allocated > *own
    {
        storage = Some(allocated.whole());
    }
    if !class.is_empty() {
        usage.insert(format!("{class}{OF_STORAGE_CLASS}persistentvolumeclaims"), Quantity::of(1));
    }
    if let Some(storage) = storage {
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_STORAGE_CLASS}requests.storage"), storage.clone());
        }
        usage.insert("requests.storage".to_owned(), storage);
    }
    usage
}

/// Those that a claim has, wants, or is on its way to.
fn attribute_classes(claim: &Value) -> BTreeSet<String> {
    let status = &claim["status"];
    let named = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    named.into_iter().map(text).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn device_claim(claim: &Value) -> Amounts {
    let mut usage = counts([("count/resourceclaims.resource.k8s.io", 1)]);
    for request in list(&claim["spec"]["devices"]["requests"]) {
        let choices = list(&request["firstAvailable"]);
        let exact = request.get("exactly").into_iter();
        // Of several choices of one class, the largest counts.
        let mut most = Amounts::new();
        for choice in exact.filter(|_| choices.len() == 0).chain(choices.clone()) {
            let devices = match text(&choice["allocationMode"]) {
                "ExactCount" => choice["count"].as_i64().unwrap_or(0),
                "All" => ALL_DEVICES,
                _ => 0,
            };
            let name = format!("{}{OF_DEVICE_CLASS}", text(&choice["deviceClassName"]));
            amounts::raise(&mut most, &Amounts::from([(name, Quantity::of(devices))]));
        }
        amounts::add(&mut usage, &most);
    }
    usage
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: &Kind, object: &Value, expected: &Expect) {
        let measured = kind.measure(object);
        let shown = |amounts: &Amounts| {
            amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
        };
        expected.assert_eq(&shown(measured.usage(Timestamp::from_second(1_000_000).unwrap())));
        for name in measured.usage.keys() {
            assert!(kind.uses(name), "{kind:?} does not know {name}");
        }
    }

    fn pod() -> Value {
        json!({"metadata": {}, "status": {"phase": "Pending"}, "spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1", "hugepages-2Mi": "2Mi", "example.com/gpu": "2"}, "limits": {"memory": "1Gi"},
        }}]}})
    }

    #[test]
    fn pods_cost_what_they_ask_for_until_they_end() {
        let mut pod = pod();
        check(
            &Kind::Pods,
            &pod,
            &expect![
                "count/pods=1 cpu=1 hugepages-2Mi=2Mi limits.memory=1Gi pods=1 requests.cpu=1 requests.example.com/gpu=2 requests.hugepages-2Mi=2Mi"
            ],
        );
        pod["metadata"] = json!({"deletionTimestamp": "1970-01-12T13:46:30Z", "deletionGracePeriodSeconds": 9});
        check(&Kind::Pods, &pod, &expect!["count/pods=1"]);
        pod["metadata"]["deletionGracePeriodSeconds"] = 11.into();
        check(
            &Kind::Pods,
            &pod,
            &expect![
                "count/pods=1 cpu=1 hugepages-2Mi=2Mi limits.memory=1Gi pods=1 requests.cpu=1 requests.example.com/gpu=2 requests.hugepages-2Mi=2Mi"
            ],
        );
        pod["status"]["phase"] = "Succeeded".into();
        check(&Kind::Pods, &pod, &expect!["count/pods=1"]);
    }

    #[test]
    fn services_cost_ports_and_balancers_by_their_type() {
        let service = |extra: Value| {
            let mut service = json!({"spec": {"ports": [{"port": 1, "nodePort": 30001}, {"port": 2}]}});
            extra.as_object().unwrap().iter().for_each(|(key, value)| service["spec"][key] = value.clone());
            service
        };
        check(
            &Kind::Services,
            &service(json!({"type": "ClusterIP"})),
            &expect!["count/services=1 services=1 services.loadbalancers=0 services.nodeports=0"],
        );
        check(
            &Kind::Services,
            &service(json!({"type": "NodePort"})),
            &expect!["count/services=1 services=1 services.loadbalancers=0 services.nodeports=2"],
        );
        check(
            &Kind::Services,
            &service(json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})),
            &expect!["count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"],
        );
    }

    #[test]
    fn claims_cost_whole_bytes_of_their_class() {
        let mut claim = json!({"metadata": {}, "spec": {"storageClassName": "gold",
            "resources": {"requests": {"storage": "1500m"}}}});
        check(
            &Kind::StorageClaims,
            &claim,
            &expect![
                "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=2 persistentvolumeclaims=1 requests.storage=2"
            ],
        );
        claim["status"] = json!({"allocatedResources": {"storage": "1Gi"}});
        claim["spec"]["storageClassName"] = Value::Null;
        check(
            &Kind::StorageClaims,
            &claim,
            &expect!["count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=1Gi"],
        );
    }

    #[test]
    fn claims_of_devices_cost_the_worst_case_of_each_class() {
        let exactly = |mode: &str, count: i64| json!({"deviceClassName": "a", "allocationMode": mode, "count": count});
        let claim = json!({"spec": {"devices": {"requests": [
            {"exactly": exactly("ExactCount", 2)},
            {"exactly": exactly("All", 0)},
            {"firstAvailable": [exactly("ExactCount", 3), exactly("ExactCount", 5),
                {"deviceClassName": "b", "allocationMode": "ExactCount", "count": 1}]},
        ]}}});
        check(
            &Kind::DeviceClaims,
            &claim,
            &expect![
                "a.deviceclass.resource.k8s.io/devices=39 b.deviceclass.resource.k8s.io/devices=1 count/resourceclaims.resource.k8s.io=1"
            ],
        );
    }

    #[test]
    fn scopes_say_which_objects_a_quota_is_about() {
        let mut pod = pod();
        pod["spec"]["priorityClassName"] = "high".into();
        pod["status"]["qosClass"] = "Burstable".into();
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"podAffinityTerm": {"namespaceSelector": {}}}]}});
        let claim = json!({"spec": {"volumeAttributesClassName": "fast"},
            "status": {"currentVolumeAttributesClassName": "slow"}});
        let selected = |scope: &str, operator: &str, values: &[&str]| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": scope, "operator": operator, "values": values}]}})
        };
        let (pod, claim) = (Kind::Pods.measure(&pod), Kind::StorageClaims.measure(&claim));
        let other = Measured::one_of(&["secrets".to_owned()]);
        for (spec, expected) in [
            (json!({}), [true; 3]),
            (json!({"scopes": ["Terminating"]}), [false; 3]),
            (json!({"scopes": ["NotTerminating", "NotBestEffort"]}), [true, false, false]),
            (json!({"scopes": ["NotTerminating", "BestEffort"]}), [false; 3]),
            (json!({"scopes": ["PriorityClass", "CrossNamespacePodAffinity"]}), [true, false, false]),
            (selected("PriorityClass", "In", &["low", "high"]), [true, false, false]),
            (selected("PriorityClass", "NotIn", &["high"]), [false; 3]),
            (selected("PriorityClass", "DoesNotExist", &[]), [false; 3]),
            (selected("VolumeAttributesClass", "In", &["slow"]), [false, true, false]),
            (selected("VolumeAttributesClass", "NotIn", &["slow"]), [false, true, false]),
            (selected("VolumeAttributesClass", "NotIn", &["slow", "fast"]), [false; 3]),
            (selected("VolumeAttributesClass", "Exists", &[]), [false, true, false]),
        ] {
            let scopes = Scope::of_quota(&spec);
            let found = [&pod, &claim, &other].map(|object| scopes.iter().all(|scope| object.is_in(scope)));
            assert_eq!(found, expected, "{spec}");
        }
    }
}
