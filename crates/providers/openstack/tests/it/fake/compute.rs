//! Nova. A server is built after it was looked at once, and gone after it was looked at twice.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Project, Result, answer, fields, is_full, new_id, now, page, parts, refusal};

/// Fields of a new server at 2.52.
const SERVER: [&str; 18] = [
    "imageRef",
    "adminPass",
    "metadata",
    "OS-DCF:diskConfig",
    "accessIPv4",
    "accessIPv6",
    "personality",
    "availability_zone",
    "block_device_mapping_v2",
    "config_drive",
    "key_name",
    "min_count",
    "max_count",
    "return_reservation_id",
    "security_groups",
    "user_data",
    "description",
    "tags",
];
const DEVICE: [&str; 9] = [
    "boot_index",
    "uuid",
    "source_type",
    "destination_type",
    "volume_size",
    "delete_on_termination",
    "tag",
    "guest_format",
    "device_name",
];

fn bad(words: &str) -> Answer {
    refusal(400, "badRequest", words)
}

fn not_found(what: &str) -> Answer {
    refusal(404, "itemNotFound", &format!("{what} could not be found."))
}

/// The minor version that a request asks for: 1 if it asks for none.
fn version(project: &Project, call: &Call) -> Result<u32> {
    let header =
        call.headers.get("openstack-api-version").and_then(|value| value.to_str().ok()).unwrap_or("compute 2.1");
    let version =
        header.strip_prefix("compute 2.").and_then(|minor| minor.parse().ok()).ok_or_else(|| bad("bad version"))?;
    if version > project.microversion {
        let words = format!("Version 2.{version} is not supported by the API. Maximum is 2.{}.", project.microversion);
        return Err(refusal(406, "computeFault", &words));
    }
    Ok(version)
}

pub(super) fn respond(project: &mut Project, call: &Call, path: &str) -> Result {
    let version = version(project, call)?;
    match (&call.method, parts(path).as_slice()) {
        (&Method::GET, ["flavors", "detail"]) => page(project, call, "flavors", &project.flavors, &[]),
        (&Method::GET, ["os-server-groups"]) => Ok(answer(200, &json!({"server_groups": project.groups}))),
        (&Method::POST, ["os-server-groups"]) => create_group(project, call, version),
        (&Method::GET, ["servers", "detail"]) => {
            let allowed: &[&str] = if version >= 26 { &["tags", "tags-any"] } else { &[] };
            let shown: Vec<_> = project.servers.iter().map(|server| shown(project, server, version)).collect();
            let answer = page(project, call, "servers", &shown, allowed);
            project.pass();
            answer
        }
        (&Method::GET, ["servers", id]) => {
            let server = project.servers.iter().find(|server| server["id"] == *id).cloned();
            let server = server.ok_or_else(|| not_found(&format!("Instance {id}")))?;
            let answer = answer(200, &json!({"server": shown(project, &server, version)}));
            project.pass();
            Ok(answer)
        }
        (&Method::POST, ["servers"]) => create(project, call, version),
        (&Method::DELETE, ["servers", id]) => {
            let server = find(project, id)?;
            server["OS-EXT-STS:task_state"] = json!("deleting");
            Ok(answer(204, &Value::Null))
        }
        (&Method::POST, ["servers", id, "metadata"]) => {
            let added = fields(&call.body, "metadata", &[], &[]).err().and(call.body["metadata"].as_object()).cloned();
            let added = added.filter(|it| it.keys().all(|key| is_key(key))).ok_or_else(|| bad("Invalid metadata"))?;
            let server = find(project, id)?;
            for (key, value) in added {
                server["metadata"][key] = value;
            }
            Ok(answer(200, &json!({"metadata": server["metadata"]})))
        }
        (&Method::PUT, ["servers", id, "tags", tag]) if version >= 26 => {
            let server = find(project, id)?;
            let mut tags = server["tags"].as_array().cloned().unwrap_or_default();
            tags.push(json!(tag));
            server["tags"] = json!(tags);
            Ok(answer(201, &Value::Null))
        }
        (&Method::POST, ["servers", id, "action"]) => act(project, call, id),
        _ => Err(not_found("The resource")),
    }
}

fn find<'a>(project: &'a mut Project, id: &str) -> Result<&'a mut Value> {
    let server = project.servers.iter_mut().find(|server| server["id"] == id);
    server.ok_or_else(|| not_found(&format!("Instance {id}")))
}

fn act(project: &mut Project, call: &Call, id: &str) -> Result {
    let server = find(project, id)?;
    let status = server["status"].as_str().unwrap_or_default().to_owned();
    let conflict = || refusal(409, "conflictingRequest", &format!("Cannot do it while it is in vm_state {status}"));
    let (needed, next) = match &call.body {
        body if *body == json!({"os-start": null}) => ("SHUTOFF", "ACTIVE"),
        body if *body == json!({"os-stop": null}) => ("ACTIVE", "SHUTOFF"),
        body if *body == json!({"reboot": {"type": "HARD"}}) => ("ACTIVE", "ACTIVE"),
        _ => return Err(bad("There is no such action")),
    };
    if status != needed {
        return Err(conflict());
    }
    server["status"] = json!(next);
    server["OS-EXT-STS:power_state"] = json!(if next == "ACTIVE" { 1 } else { 4 });
    Ok(answer(202, &Value::Null))
}

fn create_group(project: &mut Project, call: &Call, version: u32) -> Result {
    let policy = if version >= 64 { "policy" } else { "policies" };
    let group = fields(&call.body, "server_group", &["name", policy], &[])?;
    if version < 15 && group["policies"][0] == "soft-anti-affinity" {
        return Err(bad("Invalid input for field policies"));
    }
    let group = json!({"id": new_id(), "name": group["name"], "policies": group[policy]});
    project.groups.push(group.clone());
    Ok(answer(200, &json!({"server_group": group})))
}

fn is_key(key: &str) -> bool {
    (1..=255).contains(&key.len())
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_:. ".contains(letter))
}

fn create(project: &mut Project, call: &Call, version: u32) -> Result {
    if let Some(key) = call
        .body
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .find(|key| !["server", "os:scheduler_hints"].contains(&key.as_str()))
    {
        return Err(bad(&format!("Additional properties are not allowed ('{key}' was unexpected)")));
    }
    let server = fields(&call.body, "server", &["name", "flavorRef", "networks"], &SERVER)?.clone();
    if version < 52 && server.contains_key("tags") {
        return Err(bad("Additional properties are not allowed ('tags' was unexpected)"));
    }
    check_texts(&server)?;
    if is_full(project, "instances", project.servers.len()) {
        return Err(refusal(403, "forbidden", "Quota exceeded for instances: Requested 1, but already used all of it"));
    }
    let flavor = project.flavors.iter().find(|flavor| flavor["id"] == server["flavorRef"]).cloned();
    let flavor = flavor.ok_or_else(|| bad("Flavor could not be found."))?;
    check_boot(project, &server)?;
    if let Some(group) = call.body["os:scheduler_hints"]["group"].as_str()
        && !project.groups.iter().any(|it| it["id"] == group)
    {
        return Err(bad(&format!("Instance group {group} could not be found.")));
    }
    let id = new_id();
    bind(project, &server, &id)?;
    let built = json!({
        "id": id, "name": server["name"], "status": "BUILD", "created": now(), "metadata": server.get("metadata"),
        "tags": server.get("tags"), "flavor": {"original_name": flavor["name"], "vcpus": flavor["vcpus"]},
        "OS-EXT-AZ:availability_zone": server.get("availability_zone").cloned().unwrap_or(json!("nova")),
        "OS-EXT-STS:task_state": "spawning", "OS-EXT-STS:power_state": 0, "OS-SRV-USG:launched_at": null,
        "asked": call.body,
    });
    project.servers.push(built);
    Ok(answer(202, &json!({"server": {"id": id, "links": [], "adminPass": "x"}})))
}

fn check_texts(server: &Map<String, Value>) -> Result<()> {
    let metadata = server.get("metadata").and_then(Value::as_object);
    if metadata.is_some_and(|all| {
        all.iter().any(|(key, value)| !is_key(key) || value.as_str().is_none_or(|it| it.len() > 255))
    }) {
        return Err(bad("Invalid input for field/attribute metadata"));
    }
    let tags: Vec<_> =
        server.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if tags.len() > 50 || tags.iter().any(|tag| tag.is_empty() || tag.len() > 60 || tag.contains([',', '/'])) {
        return Err(bad("Invalid input for field/attribute tags"));
    }
    let data = server.get("user_data").and_then(Value::as_str).unwrap_or_default();
    let is_base64 = data.len().is_multiple_of(4)
        && data.chars().all(|letter| letter.is_ascii_alphanumeric() || "+/=".contains(letter));
    if data.len() > 65_535 || !is_base64 {
        return Err(bad("Invalid input for field/attribute user_data"));
    }
    match server.get("availability_zone").and_then(Value::as_str) {
        Some("nowhere") => Err(bad("The requested availability zone is not available")),
        _ => Ok(()),
    }
}

/// There is exactly one thing to boot from, and all volumes are available.
fn check_boot(project: &mut Project, server: &Map<String, Value>) -> Result<()> {
    let devices = server.get("block_device_mapping_v2").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut boots = 0;
    for device in &devices {
        let device = device.as_object().ok_or_else(|| bad("a device is no object"))?;
        if let Some(field) = device.keys().find(|field| !DEVICE.contains(&field.as_str())) {
            return Err(bad(&format!("Additional properties are not allowed ('{field}' was unexpected)")));
        }
        boots += usize::from(device.get("boot_index") == Some(&json!(0)));
        if device["source_type"] == "volume" {
            let volume = project.volumes.iter_mut().find(|volume| volume["id"] == device["uuid"]);
            let volume = volume.filter(|volume| volume["status"] == "available");
            let volume = volume.ok_or_else(|| bad("Block Device Mapping is Invalid: failed to get volume"))?;
            volume["status"] = json!("in-use");
        }
    }
    if !devices.is_empty() && boots != 1 {
        return Err(bad("Block Device Mapping is Invalid: Boot sequence for the instance is not valid"));
    }
    let image = server.get("imageRef").and_then(Value::as_str);
    if image.is_none() && devices.is_empty() {
        return Err(bad("Invalid imageRef provided."));
    }
    match image.filter(|image| !project.images.iter().any(|it| it["id"] == *image)) {
        Some(image) => Err(bad(&format!("Image {image} could not be found."))),
        None => Ok(()),
    }
}

fn bind(project: &mut Project, server: &Map<String, Value>, id: &str) -> Result<()> {
    let networks = server["networks"].as_array().cloned().ok_or_else(|| bad("Invalid input for field networks"))?;
    for network in &networks {
        let Some(port) = project.ports.iter_mut().find(|port| port["id"] == network["port"]) else {
            return Err(bad(&format!("Port {} could not be found.", network["port"])));
        };
        if port["device_id"] != "" {
            return Err(refusal(409, "conflictingRequest", &format!("Port {} is still in use.", port["id"])));
        }
        port["device_id"] = json!(id);
        port["device_owner"] = json!("compute:nova");
    }
    Ok(())
}

/// A server with its addresses, which its ports have.
fn shown(project: &Project, server: &Value, version: u32) -> Value {
    let mut shown = server.clone();
    let mut addresses: Vec<Value> = Vec::new();
    for port in project.ports.iter().filter(|port| port["device_id"] == server["id"]) {
        for fixed in port["fixed_ips"].as_array().into_iter().flatten() {
            addresses.push(json!({"addr": fixed["ip_address"], "version": 4, "OS-EXT-IPS:type": "fixed"}));
        }
        for floating in project.floating.iter().filter(|it| it["port_id"] == port["id"]) {
            addresses
                .push(json!({"addr": floating["floating_ip_address"], "version": 4, "OS-EXT-IPS:type": "floating"}));
        }
    }
    shown["addresses"] = json!({"nodes": addresses});
    let fields = shown.as_object_mut().unwrap();
    fields.remove("asked");
    if version < 26 {
        fields.remove("tags");
    }
    if version < 47 {
        fields.insert("flavor".to_owned(), json!({"id": "1", "links": []}));
    }
    shown
}

impl Project {
    /// A moment passes: what is built is built, and what is deleted goes.
    fn pass(&mut self) {
        let gone: Vec<Value> =
            self.servers.iter().filter(|it| it["leaves"] == true).map(|it| it["id"].clone()).collect();
        self.servers.retain(|server| server["leaves"] != true);
        for port in self.ports.iter_mut().filter(|port| gone.contains(&port["device_id"])) {
            port["device_id"] = json!("");
        }
        // Nova deletes volumes that it was told to delete.
        if !gone.is_empty() {
            self.volumes.retain(|volume| volume["status"] != "in-use" || !gone.iter().any(|_| true));
        }
        let fault = self.fault.clone();
        for server in &mut self.servers {
            if server["OS-EXT-STS:task_state"] == "deleting" {
                server["leaves"] = json!(true);
            } else if server["status"] == "BUILD" {
                server["OS-EXT-STS:task_state"] = Value::Null;
                match &fault {
                    Some(words) => {
                        server["status"] = json!("ERROR");
                        server["fault"] = json!({"code": 500, "message": words, "created": now()});
                    }
                    None => {
                        server["status"] = json!("ACTIVE");
                        server["OS-EXT-STS:power_state"] = json!(1);
                        server["OS-SRV-USG:launched_at"] = json!("2026-01-01T00:00:00.000000");
                    }
                }
            }
        }
    }
}
