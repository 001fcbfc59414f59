//! The cells of the core group.

use serde_json::{Value, json};

use super::{
    pods,
    print::{NONE, age_of, containers, first_three, labels, modes, number, or, size, text},
};

/// The cells of an object of these kinds; `None` if it is of another.
pub(super) fn cells(group: &str, plural: &str, object: &Value, age: &str, now: &str) -> Option<Value> {
    let name = &object["metadata"]["name"];
    let (spec, status) = (&object["spec"], &object["status"]);
    Some(match (group, plural) {
        ("", "componentstatuses") => {
            let conditions = object["conditions"].as_array().into_iter().flatten();
            let healthy = conditions.into_iter().find(|condition| condition["type"] == "Healthy");
            let state = match healthy.map(|condition| text(&condition["status"])) {
                None => "Unknown",
                Some("True") => "Healthy",
                Some(_) => "Unhealthy",
            };
            let said = |field: &str| healthy.map_or("", |condition| text(&condition[field]));
            json!([name, state, said("message"), said("error")])
        }
        ("", "configmaps") => {
            json!([name, size(&object["data"]) + size(&object["binaryData"]), age])
        }
        ("", "endpoints") => json!([name, endpoints(&object["subsets"]), age]),
        ("" | "events.k8s.io", "events") => event(object, now).into(),
        ("", "namespaces") => json!([name, text(&status["phase"]), age]),
        ("", "nodes") => node(object, age).into(),
        ("", "pods") => pods::cells(object, age, now).into(),
        ("", "podtemplates") => {
            let (names, images) = containers(&object["template"]);
            json!([name, names, images, labels(&object["template"]["metadata"]["labels"])])
        }
        ("", "persistentvolumeclaims") => {
            // Only a claim that has a volume has its size.
            let bound = !text(&spec["volumeName"]).is_empty();
            let storage = if bound { text(&status["capacity"]["storage"]) } else { "" };
            let modes = if bound { modes(&status["accessModes"]) } else { String::new() };
            let class = or(text(&spec["storageClassName"]), "");
            let attributes = or(text(&spec["volumeAttributesClassName"]), "<unset>");
            json!([
                name,
                text(&status["phase"]),
                text(&spec["volumeName"]),
                storage,
                modes,
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
        ("", "resourcequotas") => quota(name, status, age),
        ("", "secrets") => json!([name, text(&object["type"]), size(&object["data"]), age]),
        ("", "serviceaccounts") => json!([name, age]),
        ("", "services") => service(object, age),
        _ => return None,
    })
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

fn quota(name: &Value, status: &Value, age: &str) -> Value {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = or(text(&status["used"][resource]), "0");
        let shown = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    json!([name, requests.join(", "), limits.join(", "), age])
}
