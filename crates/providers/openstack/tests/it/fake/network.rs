//! Neutron.

use axum::http::Method;
use serde_json::{Value, json};

use super::{Answer, Call, PROJECT, Project, Result, answer, fields, is_full, neutron, new_id, now, page, parts};

const PORT: [&str; 13] = [
    "name",
    "description",
    "admin_state_up",
    "mac_address",
    "fixed_ips",
    "device_id",
    "device_owner",
    "security_groups",
    "allowed_address_pairs",
    "port_security_enabled",
    "binding:vnic_type",
    "binding:profile",
    "project_id",
];
const TAGS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

fn missing(kind: &str, id: &Value) -> Answer {
    neutron(404, &format!("{kind}NotFound"), &format!("{kind} {} could not be found.", id.as_str().unwrap_or_default()))
}

pub(super) fn respond(project: &mut Project, call: &Call, path: &str) -> Result {
    let with = |more: &[&'static str]| [&TAGS[..], &["id", "name", "description", "project_id"], more].concat();
    match (&call.method, parts(path).as_slice()) {
        (&Method::GET, ["networks"]) => page(project, call, "networks", &project.networks, &with(&[])),
        (&Method::GET, ["subnets"]) => {
            let more = ["network_id", "cidr", "ip_version", "gateway_ip", "ipv6_address_mode", "ipv6_ra_mode"];
            page(project, call, "subnets", &project.subnets, &with(&more))
        }
        (&Method::GET, ["security-groups"]) => {
            page(project, call, "security_groups", &project.security_groups, &with(&[]))
        }
        (&Method::GET, ["ports"]) => page(project, call, "ports", &project.ports, &with(&["device_id", "network_id"])),
        (&Method::POST, ["ports"]) => create_port(project, call),
        (&Method::PUT, ["ports", id]) => {
            let changes = fields(&call.body, "port", &[], &["description"])?;
            let port = find(&mut project.ports, "Port", id)?;
            port["description"] = changes["description"].clone();
            Ok(answer(200, &json!({"port": port})))
        }
        (&Method::DELETE, ["ports", id]) => {
            if project.trunks.iter().any(|trunk| trunk["port_id"] == *id) {
                return Err(neutron(
                    409,
                    "PortInUseAsTrunkParent",
                    &format!("Port {id} is currently a parent port for trunk"),
                ));
            }
            find(&mut project.ports, "Port", id)?;
            project.ports.retain(|port| port["id"] != *id);
            Ok(answer(204, &Value::Null))
        }
        (&Method::PUT, [kind @ ("ports" | "trunks"), id, "tags"]) => {
            let tags = call.body["tags"].as_array().filter(|_| call.body.as_object().is_some_and(|it| it.len() == 1));
            let tags = tags.ok_or_else(|| neutron(400, "InvalidInput", "Invalid tags"))?.clone();
            if tags.iter().any(|tag| tag.as_str().is_none_or(|tag| tag.is_empty() || tag.len() > 60)) {
                return Err(neutron(400, "InvalidInput", "a tag is too long"));
            }
            let items = if *kind == "ports" { &mut project.ports } else { &mut project.trunks };
            find(items, kind, id)?["tags"] = json!(tags);
            Ok(answer(200, &json!({"tags": tags})))
        }
        (&Method::GET, ["trunks"]) if project.has_trunks => {
            page(project, call, "trunks", &project.trunks, &with(&["port_id"]))
        }
        (&Method::POST, ["trunks"]) if project.has_trunks => create_trunk(project, call),
        (&Method::DELETE, ["trunks", id]) if project.has_trunks => {
            let port = find(&mut project.trunks, "Trunk", id)?["port_id"].clone();
            if project.ports.iter().any(|it| it["id"] == port && it["device_id"] != "") {
                return Err(neutron(409, "TrunkInUse", &format!("Trunk {id} is currently in use.")));
            }
            project.trunks.retain(|trunk| trunk["id"] != *id);
            Ok(answer(204, &Value::Null))
        }
        (&Method::GET, ["floatingips"]) => {
            page(project, call, "floatingips", &project.floating, &["floating_ip_address"])
        }
        (&Method::PUT, ["floatingips", id]) => {
            let port = fields(&call.body, "floatingip", &["port_id"], &[])?["port_id"].clone();
            if !project.ports.iter().any(|it| it["id"] == port) {
                return Err(missing("Port", &port));
            }
            find(&mut project.floating, "FloatingIP", id)?["port_id"] = port;
            Ok(answer(200, &json!({"floatingip": {}})))
        }
        _ => Err(answer(404, &json!({"message": "The resource could not be found."}))),
    }
}

fn find<'a>(items: &'a mut [Value], kind: &str, id: &str) -> Result<&'a mut Value> {
    items.iter_mut().find(|item| item["id"] == id).ok_or_else(|| missing(kind, &json!(id)))
}

fn create_port(project: &mut Project, call: &Call) -> Result {
    let port = fields(&call.body, "port", &["network_id"], &PORT)?.clone();
    let network = &port["network_id"];
    if !project.networks.iter().any(|it| it["id"] == *network) {
        return Err(missing("Network", network));
    }
    if is_full(project, "ports", project.ports.len()) {
        return Err(neutron(409, "OverQuota", "Quota exceeded for resources: ['port']."));
    }
    if port.get("description").and_then(Value::as_str).is_some_and(|it| it.len() > 255) {
        return Err(neutron(400, "HTTPBadRequest", "Invalid input for description."));
    }
    check_groups(project, &port)?;
    let mut fixed = port.get("fixed_ips").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![json!({})]);
    for entry in &mut fixed {
        let subnet = entry["subnet_id"].clone();
        if subnet.is_string() && !project.subnets.iter().any(|it| it["id"] == subnet && it["network_id"] == *network) {
            return Err(neutron(400, "InvalidIpForNetwork", "the subnet is not of this network"));
        }
        if entry["ip_address"].is_null() {
            entry["ip_address"] = json!(project.address());
        } else if project
            .ports
            .iter()
            .any(|it| it["fixed_ips"].as_array().unwrap().iter().any(|had| had["ip_address"] == entry["ip_address"]))
        {
            return Err(neutron(409, "IpAddressAlreadyAllocated", "the address is taken"));
        }
    }
    let mut made = json!({"id": new_id(), "tags": [], "device_id": "", "project_id": PROJECT, "created_at": now()});
    for (key, value) in port {
        made[key] = value;
    }
    made["fixed_ips"] = json!(fixed);
    project.ports.push(made.clone());
    Ok(answer(201, &json!({"port": made})))
}

fn check_groups(project: &Project, port: &serde_json::Map<String, Value>) -> Result<()> {
    let groups = port.get("security_groups").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(group) = groups.iter().find(|group| !project.security_groups.iter().any(|it| it["id"] == **group)) {
        return Err(missing("SecurityGroup", group));
    }
    let has_pairs = port.get("allowed_address_pairs").is_some();
    if port.get("port_security_enabled") == Some(&json!(false)) && (has_pairs || !groups.is_empty()) {
        return Err(neutron(409, "PortSecurityPortHasSecurityGroup", "Port security must be enabled"));
    }
    Ok(())
}

fn create_trunk(project: &mut Project, call: &Call) -> Result {
    let trunk = fields(&call.body, "trunk", &["port_id"], &["name", "description", "admin_state_up", "sub_ports"])?;
    let port = trunk["port_id"].clone();
    if !project.ports.iter().any(|it| it["id"] == port) {
        return Err(missing("Port", &port));
    }
    if project.trunks.iter().any(|it| it["port_id"] == port) {
        return Err(neutron(409, "ParentPortInUse", "Port is in use by another trunk."));
    }
    let trunk = json!({"id": new_id(), "port_id": port, "name": trunk["name"], "description": trunk["description"], "tags": [],
        "project_id": PROJECT, "created_at": now()});
    project.trunks.push(trunk.clone());
    Ok(answer(201, &json!({"trunk": trunk})))
}
