//! Services.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    defaults::{fill, list_or_none, set},
    fields::Read,
    kind::Check,
    services,
    table::{NONE, Row, labels, number, or},
    text, validate,
    validate::items,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { create_on_update: true, returns_deleted: true, ..Strategy::PLAIN },
    fields: &[("spec.clusterIP", Read::Plain), ("spec.type", Read::Plain)],
    columns: "Name, Type, Cluster-IP, External-IP, Port(s), Age, +Selector",
    cells,
    default: |value, _| {
        default(&mut value["spec"]);
        balancer(value);
    },
    create: |value, _| {
        value["status"] = json!({"loadBalancer": {}});
        services::list_address(&mut value["spec"]);
    },
    update: |update| {
        if update.subresource.is_empty() {
            services::keep(update.old, update.new);
        }
    },
    validate: Check::Change(validate::services::check),
    judged: true,
    warnings: |_, service| said_of(service),
    ..Kind::plain("/services")
};

fn default(spec: &mut Value) {
    fill(spec, "sessionAffinity", "None");
    fill(spec, "type", "ClusterIP");
    if spec["type"] != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    let reached = spec["type"] == "ClusterIP" && !list_or_none(spec, "externalIPs").is_empty();
    if reached || matches!(text(&spec["type"]), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    } else if spec.get("externalTrafficPolicy").is_some_and(Value::is_null)
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("externalTrafficPolicy");
    }
    if spec["type"] == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    if spec["sessionAffinity"] == "ClientIP" {
        set(&mut spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds", 10800);
    } else if spec["sessionAffinity"] == "None"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("sessionAffinityConfig");
    }
    for port in list_or_none(spec, "ports") {
        fill(port, "protocol", "TCP");
        let own = if port["port"].is_number() { port["port"].clone() } else { 0.into() };
        fill(port, "targetPort", own);
    }
}

fn balancer(value: &mut Value) {
    if let Some(balancer) = value.get_mut("status").and_then(|status| status.get_mut("loadBalancer")) {
        for ingress in list_or_none(balancer, "ingress") {
            if !text(&ingress["ip"]).is_empty() {
                set(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    let strings = |list: &Value| list.as_array().into_iter().flatten().map(|v| text(v).to_string()).collect::<Vec<_>>();
    let mut external = strings(&spec["externalIPs"]);
    let external = match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => or(&external.join(","), NONE).to_string(),
        "LoadBalancer" => {
            let ingress = row.status["loadBalancer"]["ingress"].as_array().into_iter().flatten();
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
        row.name,
        text(&spec["type"]),
        internal,
        external,
        or(&ports.join(","), NONE),
        row.age,
        labels(&spec["selector"])
    ])
}

fn said_of(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let (headless, elsewhere) = (spec["clusterIP"] == "None", spec["type"] == "ExternalName");
    let outside = !items(&spec["externalIPs"]).is_empty();
    let rules = [
        (headless && !text(&spec["loadBalancerIP"]).is_empty(), "spec.loadBalancerIP is ignored for headless services"),
        (headless && outside, "spec.externalIPs is ignored for headless services"),
        (headless && spec["sessionAffinity"] != "None", "spec.SessionAffinity is ignored for headless services"),
        (
            outside && !headless && !elsewhere,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (outside && elsewhere, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !elsewhere && !text(&spec["externalName"]).is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            spec["trafficDistribution"] == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    rules.into_iter().filter(|(holds, _)| *holds).map(|(_, warning)| warning.to_owned()).collect()
}
