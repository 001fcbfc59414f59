//! The cells of built-in resources.

use serde_json::{Value, json};

use super::{age, pods};

const NONE: &str = "<none>";

/// The cells of an object, one per column; `now` is RFC 3339.
#[must_use]
pub fn cells(group: &str, plural: &str, object: &Value, now: &str) -> Vec<Value> {
    let name = &object["metadata"]["name"];
    let (spec, status) = (&object["spec"], &object["status"]);
    let age = age_of(&object["metadata"]["creationTimestamp"], now);
    let list = match (group, plural) {
        ("", "configmaps") => {
            json!([name, size(&object["data"]) + size(&object["binaryData"]), age])
        }
        ("", "endpoints") => json!([name, endpoints(&object["subsets"]), age]),
        ("" | "events.k8s.io", "events") => return event(object, now),
        ("", "namespaces") => json!([name, text(&status["phase"]), age]),
        ("", "nodes") => return node(object, &age),
        ("", "pods") => return pods::cells(object, &age, now),
        ("", "podtemplates") => {
            let (names, images) = containers(&object["template"]);
            json!([name, names, images, labels(&object["template"]["metadata"]["labels"])])
        }
        ("", "persistentvolumeclaims") => {
            let storage = text(&status["capacity"]["storage"]);
            let class = or(text(&spec["storageClassName"]), "");
            let attributes = or(text(&spec["volumeAttributesClassName"]), "<unset>");
            json!([
                name,
                text(&status["phase"]),
                text(&spec["volumeName"]),
                storage,
                modes(&status["accessModes"]),
                class,
                attributes,
                age,
                or(text(&spec["volumeMode"]), "<unset>")
            ])
        }
        ("", "persistentvolumes") => {
            let claim = &spec["claimRef"];
            let claim = match claim.is_object() {
                true => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
                false => String::new(),
            };
            json!([
                name,
                text(&spec["capacity"]["storage"]),
                modes(&spec["accessModes"]),
                text(&spec["persistentVolumeReclaimPolicy"]),
                text(&status["phase"]),
                claim,
                text(&spec["storageClassName"]),
                or(text(&spec["volumeAttributesClassName"]), "<unset>"),
                text(&status["reason"]),
                age,
                or(text(&spec["volumeMode"]), "<unset>")
            ])
        }
        ("", "resourcequotas") => quota(name, status, &age),
        ("", "secrets") => json!([name, text(&object["type"]), size(&object["data"]), age]),
        ("", "serviceaccounts") => json!([name, age]),
        ("", "services") => service(object, &age),
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            let (names, images) = containers(&spec["template"]);
            let selector = match plural {
                "replicasets" => selector(&spec["selector"]),
                _ => labels(&spec["selector"]),
            };
            let counts = [&spec["replicas"], &status["replicas"], &status["readyReplicas"]].map(number);
            json!([name, counts[0], counts[1], counts[2], age, names, images, selector])
        }
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            json!([name, size(&object["webhooks"]), age])
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            let kind = &spec["paramKind"];
            let shown = match kind.is_object() {
                true => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
                false => "<unset>".to_string(),
            };
            json!([name, size(&spec["validations"]), shown, age])
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            let reference = &spec["paramRef"];
            let shown = match (text(&reference["namespace"]), text(&reference["name"])) {
                (_, "") => "<unset>".to_string(),
                ("", name) => format!("*/{name}"),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            json!([name, text(&spec["policyName"]), shown, age])
        }
        ("apps", "controllerrevisions") => json!([name, controller(object), number(&object["revision"]), age]),
        ("apps", "daemonsets") => {
            let (names, images) = containers(&spec["template"]);
            let counts = [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ]
            .map(|key| number(&status[key]));
            let nodes = labels(&spec["template"]["spec"]["nodeSelector"]);
            let selector = selector(&spec["selector"]);
            json!([name, counts[0], counts[1], counts[2], counts[3], counts[4], nodes, age, names, images, selector])
        }
        ("apps", "deployments") => {
            let (names, images) = containers(&spec["template"]);
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            let (updated, available) = (number(&status["updatedReplicas"]), number(&status["availableReplicas"]));
            json!([name, ready, updated, available, age, names, images, selector(&spec["selector"])])
        }
        ("apps", "statefulsets") => {
            let (names, images) = containers(&spec["template"]);
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            json!([name, ready, age, names, images])
        }
        ("batch", "cronjobs") => {
            let job = &spec["jobTemplate"]["spec"];
            let (names, images) = containers(&job["template"]);
            let suspended = match &spec["suspend"] {
                Value::Bool(true) => "True",
                Value::Bool(false) => "False",
                _ => "<unset>",
            };
            let last = match status["lastScheduleTime"].as_str() {
                Some(time) => age::since(time, now).unwrap_or_default(),
                None => NONE.to_string(),
            };
            let zone = or(text(&spec["timeZone"]), NONE);
            let active = size(&status["active"]);
            json!([
                name,
                text(&spec["schedule"]),
                zone,
                suspended,
                active,
                last,
                age,
                names,
                images,
                selector(&job["selector"])
            ])
        }
        ("batch", "jobs") => job(object, &age, now),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            let duration = spec["expirationSeconds"].as_i64().map_or(NONE.to_string(), super::human);
            let signer = or(text(&spec["signerName"]), NONE);
            json!([name, age, signer, text(&spec["username"]), duration, request_condition(status)])
        }
        ("coordination.k8s.io", "leases") => json!([name, text(&spec["holderIdentity"]), age]),
        ("discovery.k8s.io", "endpointslices") => {
            let ports = object["ports"].as_array().into_iter().flatten().map(|port| match &port["port"] {
                Value::Number(number) => number.to_string(),
                _ => or(text(&port["name"]), "*").to_string(),
            });
            let addresses = object["endpoints"].as_array().into_iter().flatten();
            let addresses = addresses.flat_map(|e| e["addresses"].as_array().into_iter().flatten());
            let addresses: Vec<String> = addresses.map(|a| text(a).to_string()).collect();
            let kind = text(&object["addressType"]);
            json!([
                name,
                kind,
                first_three(&ports.collect::<Vec<_>>(), "<unset>"),
                first_three(&addresses, "<unset>"),
                age
            ])
        }
        ("networking.k8s.io", "networkpolicies") => json!([name, selector(&spec["podSelector"]), age]),
        ("networking.k8s.io", "ingresses") => ingress(object, &age),
        ("policy", "poddisruptionbudgets") => {
            let limit = |value: &Value| match value {
                Value::Null => "N/A".to_string(),
                other => crate::error::go_plain(other),
            };
            let allowed = number(&status["disruptionsAllowed"]);
            json!([name, limit(&spec["minAvailable"]), limit(&spec["maxUnavailable"]), allowed, age])
        }
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => {
            let role = format!("{}/{}", text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"]));
            let of = |kind: &str| subjects(&object["subjects"], kind);
            json!([name, role, age, of("User"), of("Group"), of("ServiceAccount")])
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            let default = object["globalDefault"] == true;
            json!([name, number(&object["value"]), default, age, text(&object["preemptionPolicy"])])
        }
        ("storage.k8s.io", "csinodes") => json!([name, size(&spec["drivers"]), age]),
        ("storage.k8s.io", "csidrivers") => {
            let flag = |key: &str, default: bool| spec[key].as_bool().unwrap_or(default);
            let audiences = spec["tokenRequests"].as_array().into_iter().flatten().map(|t| text(&t["audience"]));
            let audiences = audiences.collect::<Vec<_>>().join(",");
            let modes: Vec<&str> = match spec["volumeLifecycleModes"].as_array() {
                Some(modes) => modes.iter().map(text).collect(),
                None => vec!["<unset>"],
            };
            json!([
                name,
                flag("attachRequired", true),
                flag("podInfoOnMount", false),
                flag("storageCapacity", false),
                or(&audiences, "<unset>"),
                flag("requiresRepublish", false),
                modes.join(","),
                age
            ])
        }
        ("storage.k8s.io", "storageclasses") => {
            let default = object["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
            let shown = format!("{}{}", text(name), if default { " (default)" } else { "" });
            json!([
                shown,
                text(&object["provisioner"]),
                or(text(&object["reclaimPolicy"]), "Delete"),
                or(text(&object["volumeBindingMode"]), "Immediate"),
                object["allowVolumeExpansion"] == true,
                age
            ])
        }
        ("storage.k8s.io", "volumeattachments") => {
            let volume = text(&spec["source"]["persistentVolumeName"]);
            json!([name, text(&spec["attacher"]), volume, text(&spec["nodeName"]), status["attached"] == true, age])
        }
        _ => json!([name, object["metadata"]["creationTimestamp"]]),
    };
    match list {
        Value::Array(cells) => cells,
        _ => Vec::new(),
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

pub(super) fn or<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

fn age_of(time: &Value, now: &str) -> String {
    match time.as_str() {
        Some(time) => age::since(time, now).unwrap_or_else(|| "<unknown>".to_string()),
        None => "<unknown>".to_string(),
    }
}

fn containers(template: &Value) -> (String, String) {
    let list = template["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let join = |key: &str| list.iter().map(|c| text(&c[key])).collect::<Vec<_>>().join(",");
    (join("name"), join("image"))
}

fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value)));
    let joined = pairs.collect::<Vec<_>>().join(",");
    or(&joined, NONE).to_string()
}

/// A label selector as text; requirements in order of their keys.
fn selector(selector: &Value) -> String {
    if !selector.is_object() {
        return NONE.to_string();
    }
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", text(value))));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<&str> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_string(),
        };
        parts.push((key.to_string(), shown));
    }
    parts.sort();
    let joined = parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",");
    or(&joined, NONE).to_string()
}

fn modes(list: &Value) -> String {
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    list.as_array().into_iter().flatten().map(short).collect::<Vec<_>>().join(",")
}

fn first_three(list: &[String], none: &str) -> String {
    let shown = list.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    match list.len() {
        0 => none.to_string(),
        1..=3 => shown,
        more => format!("{shown} + {} more...", more - 3),
    }
}

fn endpoints(subsets: &Value) -> String {
    let subsets = subsets.as_array().map_or(&[][..], Vec::as_slice);
    if subsets.is_empty() {
        return NONE.to_string();
    }
    let mut list = Vec::new();
    for subset in subsets {
        let addresses = || subset["addresses"].as_array().into_iter().flatten().map(|a| text(&a["ip"]));
        match subset["ports"].as_array().filter(|p| !p.is_empty()) {
            None => list.extend(addresses().map(str::to_string)),
            Some(ports) => {
                for port in ports {
                    list.extend(addresses().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{}", number(&port["port"])),
                        false => format!("{ip}:{}", number(&port["port"])),
                    }));
                }
            }
        }
    }
    first_three(&list, "")
}

fn event(object: &Value, now: &str) -> Vec<Value> {
    let modern = !object["regarding"].is_null();
    let pick = |old: &'static str, new: &'static str| if modern { &object[new] } else { &object[old] };
    let involved = pick("involvedObject", "regarding");
    let ago = |time: &Value| age_of(time, now);
    let first_time = pick("firstTimestamp", "deprecatedFirstTimestamp");
    let first = if first_time.is_null() { ago(&object["eventTime"]) } else { ago(first_time) };
    let last_time = pick("lastTimestamp", "deprecatedLastTimestamp");
    let mut last = if last_time.is_null() { first.clone() } else { ago(last_time) };
    let mut count = number(pick("count", "deprecatedCount")).max(1);
    if object["series"].is_object() {
        last = ago(&object["series"]["lastObservedTime"]);
        count = number(&object["series"]["count"]);
    }
    let kind = text(&involved["kind"]).to_lowercase();
    let target = match text(&involved["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = pick("source", "deprecatedSource");
    let component = or(text(&source["component"]), text(pick("reportingComponent", "reportingController")));
    let instance = or(text(&source["host"]), text(&object["reportingInstance"]));
    let source = if instance.is_empty() { component.to_string() } else { format!("{component}, {instance}") };
    let message = text(pick("message", "note")).trim();
    vec![
        last.into(),
        text(&object["type"]).into(),
        text(&object["reason"]).into(),
        target.into(),
        text(&involved["fieldPath"]).into(),
        source.into(),
        message.into(),
        first.into(),
        count.into(),
        object["metadata"]["name"].clone(),
    ]
}

fn node(object: &Value, age: &str) -> Vec<Value> {
    let status = &object["status"];
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let mut state = match conditions().rfind(|c| c["type"] == "Ready") {
        Some(ready) if ready["status"] == "True" => "Ready".to_string(),
        Some(_) => "NotReady".to_string(),
        None => "Unknown".to_string(),
    };
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/").filter(|r| !r.is_empty()) {
            roles.push(role);
        } else if key == "kubernetes.io/role" && !text(value).is_empty() {
            roles.push(text(value));
        }
    }
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let list = status["addresses"].as_array().into_iter().flatten();
        list.filter(|a| a["type"] == kind).map(|a| text(&a["address"])).next().unwrap_or(NONE).to_string()
    };
    let info = &status["nodeInfo"];
    let known = |key: &str| or(text(&info[key]), "<unknown>").to_string();
    let mut kernel = known("kernelVersion");
    if !text(&info["architecture"]).is_empty() {
        kernel.push_str(&format!(" ({})", text(&info["architecture"])));
    }
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        or(&roles.join(","), NONE).into(),
        age.into(),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

fn service(object: &Value, age: &str) -> Value {
    let spec = &object["spec"];
    let strings = |list: &Value| list.as_array().into_iter().flatten().map(|v| text(v).to_string()).collect::<Vec<_>>();
    let mut external = strings(&spec["externalIPs"]);
    let external = match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => or(&external.join(","), NONE).to_string(),
        "LoadBalancer" => {
            let ingress = object["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
            let mut all: Vec<String> = ingress.map(|i| or(text(&i["ip"]), text(&i["hostname"])).to_string()).collect();
            all.append(&mut external);
            or(&all.join(","), "<pending>").to_string()
        }
        "ExternalName" => text(&spec["externalName"]).to_string(),
        _ => "<unknown>".to_string(),
    };
    let port = |port: &Value| {
        let node = number(&port["nodePort"]);
        let shown = if node > 0 { format!(":{node}") } else { String::new() };
        format!("{}{shown}/{}", number(&port["port"]), text(&port["protocol"]))
    };
    let ports: Vec<String> = spec["ports"].as_array().into_iter().flatten().map(port).collect();
    let internal = or(text(&spec["clusterIPs"][0]), NONE);
    json!([
        object["metadata"]["name"],
        text(&spec["type"]),
        internal,
        external,
        or(&ports.join(","), NONE),
        age,
        labels(&spec["selector"])
    ])
}

fn job(object: &Value, age: &str, now: &str) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let end = status["completionTime"].as_str().unwrap_or(now);
    let duration = status["startTime"].as_str().and_then(|start| age::since(start, end)).unwrap_or_default();
    let has = |kind: &str| {
        let list = status["conditions"].as_array().into_iter().flatten();
        list.filter(|c| c["type"] == kind).any(|c| c["status"] == "True")
    };
    let state = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !object["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (names, images) = containers(&spec["template"]);
    json!([object["metadata"]["name"], state, completions, duration, age, names, images, selector(&spec["selector"])])
}

fn request_condition(status: &Value) -> String {
    let has = |kind: &str| status["conditions"].as_array().is_some_and(|l| l.iter().any(|c| c["type"] == kind));
    let mut shown = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_string();
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

fn controller(object: &Value) -> String {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    match owners.find(|owner| owner["controller"] == true) {
        Some(owner) => {
            let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
            let kind = text(&owner["kind"]).to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(&owner["name"]))
        }
        None => NONE.to_string(),
    }
}

fn subjects(list: &Value, kind: &str) -> String {
    let matching = list.as_array().into_iter().flatten().filter(|s| s["kind"] == kind);
    let shown = matching.map(|s| match kind {
        "ServiceAccount" => format!("{}/{}", text(&s["namespace"]), text(&s["name"])),
        _ => text(&s["name"]).to_string(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn quota(name: &Value, status: &Value, age: &str) -> Value {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = or(text(&status["used"][resource]), "0");
        let shown = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    json!([name, requests.join(", "), limits.join(", "), age])
}

fn ingress(object: &Value, age: &str) -> Value {
    let spec = &object["spec"];
    let hosts: Vec<&str> =
        spec["rules"].as_array().into_iter().flatten().map(|r| text(&r["host"])).filter(|h| !h.is_empty()).collect();
    let addresses = object["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = addresses.map(|i| or(text(&i["ip"]), text(&i["hostname"]))).collect();
    let ports = if spec["tls"].as_array().is_some_and(|t| !t.is_empty()) { "80, 443" } else { "80" };
    let class = or(text(&spec["ingressClassName"]), NONE);
    json!([object["metadata"]["name"], class, or(&hosts.join(","), "*"), addresses.join(","), ports, age])
}
