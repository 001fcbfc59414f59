//! Makes the server of a machine.
//!
//! Every step may be the first of a new process, and finds what earlier ones left: by the server's mark, and by the names of
//! ports and volumes that the intent recorded. Everything that a spec names is looked up before anything is made.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::provider::{Error, ErrorKind, Instance, Intent, Request};
use serde_json::{Value, json};

use super::resolve::{self, Resolved};
use super::volumes::{self, Volumes};
use super::{OpenStack, children, lookup, ports};
use crate::client::Client;
use crate::mark;
use crate::services::wire::Server;
use crate::spec::{self, OpenStackSpec, ROOT, root_volume};

/// Nova's limit, after encoding.
const LARGEST_USER_DATA: usize = 65_535;

pub(super) async fn create(openstack: &OpenStack, request: &Request, intent: &Intent) -> Result<Instance, Error> {
    let spec = spec::usable(&request.spec);
    let spec = spec.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))?;
    let user_data = user_data(&spec, request)?;
    let client = openstack.client(&spec, &request.secrets)?;
    if let Some(server) = existing(&client, request).await? {
        return Ok(openstack.seen(&client, request, &server));
    }
    let resolved = resolve::resolve(&client, &spec, &openstack.settings).await?;
    match make(&client, &spec, &resolved, request, intent, user_data).await {
        Ok(Some(server)) => Ok(openstack.seen(&client, request, &server)),
        // It is called again, and finds the volume further.
        Ok(None) => Ok(Instance { state_word: "VOLUMES".to_owned(), ..Instance::default() }),
        Err(error) => {
            clear(&client, request, &error).await;
            Err(error)
        }
    }
}

/// The server that an earlier call made.
async fn existing(client: &Client, request: &Request) -> Result<Option<Server>, Error> {
    let mut found = lookup::find(client, &[request]).await?.pop().unwrap_or_default();
    found.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
    Ok(found.into_iter().next())
}

/// `None` while a volume is being made.
async fn make(
    client: &Client,
    spec: &OpenStackSpec,
    resolved: &Resolved,
    request: &Request,
    intent: &Intent,
    user_data: Option<String>,
) -> Result<Option<Server>, Error> {
    let volumes = match volumes::ensure(client, spec, &resolved.image, &request.mark, intent).await? {
        Volumes::Ready(volumes) => volumes,
        Volumes::Waiting(name) => {
            tracing::info!(volume = name, machine = request.mark.machine, "waiting for a volume");
            return Ok(None);
        }
    };
    let ports = ports::ensure(client, &resolved.ports, &request.mark, intent).await?;
    let mut server = body(spec, resolved, request, &ports);
    if let Some(user_data) = user_data {
        server["user_data"] = json!(user_data);
    }
    let devices = devices(spec, &resolved.image, |suffix| volumes.get(suffix).cloned().unwrap_or_default());
    if !devices.is_empty() {
        server["block_device_mapping_v2"] = Value::Array(devices);
    }
    let mut whole = json!({"server": server});
    if let Some(group) = &resolved.group {
        whole["os:scheduler_hints"] = json!({"group": group});
    }
    let id = client.create_server(&whole).await.map_err(|fault| fault.refusal("cannot create the server"))?;
    match client.server(&id).await {
        Ok(Some(server)) => Ok(Some(server)),
        // The server is there; the next look shows more of it.
        Ok(None) | Err(_) => {
            let name = request.mark.machine.clone();
            Ok(Some(Server { id, name, status: "BUILD".to_owned(), ..Server::default() }))
        }
    }
}

fn body(spec: &OpenStackSpec, resolved: &Resolved, request: &Request, ports: &[String]) -> Value {
    let mut metadata = spec.server_metadata.clone();
    metadata.extend(mark::metadata(&request.mark));
    let mut tags = vec![mark::cluster_tag(&request.mark.cluster), mark::uid_tag(&request.mark.uid)];
    tags.extend(spec.tags.iter().cloned());
    tags.sort();
    tags.dedup();
    let mut server = json!({
        "name": request.mark.machine,
        "flavorRef": resolved.flavor,
        "networks": ports.iter().map(|port| json!({"port": port})).collect::<Vec<_>>(),
        "metadata": metadata,
        "tags": tags,
    });
    if root_volume(spec).is_none() {
        server["imageRef"] = json!(resolved.image);
    }
    for (key, value) in [("availability_zone", &spec.availability_zone), ("key_name", &spec.key_name)] {
        if !value.is_empty() {
            server[key] = json!(value);
        }
    }
    if let Some(config_drive) = spec.config_drive {
        server["config_drive"] = json!(config_drive);
    }
    server
}

/// Nothing is said about disks where the server has only that of its flavor.
fn devices(spec: &OpenStackSpec, image: &str, volume: impl Fn(&str) -> String) -> Vec<Value> {
    let root = match root_volume(spec) {
        Some(_) => json!({"source_type": "volume", "uuid": volume(ROOT), "destination_type": "volume"}),
        None if spec.additional_block_devices.is_empty() => return Vec::new(),
        None => json!({"source_type": "image", "uuid": image, "destination_type": "local"}),
    };
    let with = |mut device: Value, index: i64| {
        device["boot_index"] = json!(index);
        device["delete_on_termination"] = json!(true);
        device
    };
    let mut devices = vec![with(root, 0)];
    for device in &spec.additional_block_devices {
        let mut body = if device.storage.kind == "Volume" {
            json!({"source_type": "volume", "uuid": volume(&device.name), "destination_type": "volume"})
        } else {
            json!({"source_type": "blank", "destination_type": "local", "volume_size": device.size_gib})
        };
        body["tag"] = json!(device.name);
        devices.push(with(body, -1));
    }
    devices
}

/// What the server reads at its first boot, encoded.
fn user_data(spec: &OpenStackSpec, request: &Request) -> Result<Option<String>, Error> {
    let Some(reference) = spec.user_data_secret.as_ref().filter(|reference| !reference.name.is_empty()) else {
        return Ok(None);
    };
    let words = |what: &str| format!("providerSpec.userDataSecret: Secret {:?} {what}", reference.name);
    let missing = |what: &str| Error::new(ErrorKind::NotFound, words(what));
    let refused = |what: &str| Error::new(ErrorKind::InvalidSpec, words(what));
    let secret = request.secrets.user_data.as_ref().ok_or_else(|| missing("does not exist"))?;
    let data = secret.bytes("userData").ok_or_else(|| missing("has no key userData"))?;
    if secret.bytes("postprocessor").is_some() {
        return Err(refused("has a postprocessor, which is not run; write the Ignition config that it would give"));
    }
    // Upstream runs it as a template of Go unless told not to.
    if secret.bytes("disableTemplating").is_none() && data.windows(2).any(|pair| pair == b"{{") {
        return Err(refused(
            "has {{ in its user data, which is not a template here; write it out and add disableTemplating",
        ));
    }
    let encoded = STANDARD.encode(data);
    if encoded.len() > LARGEST_USER_DATA {
        let what = format!("has user data of {} bytes, and nova takes {LARGEST_USER_DATA} encoded", data.len());
        return Err(refused(&format!("{what}: let it point to the config")));
    }
    Ok(Some(encoded))
}

/// Takes away the ports and volumes of a server that certainly was not made: nobody would use them before the Machine is
/// deleted, and they count against the quota. An answer that got lost may have been a yes.
async fn clear(client: &Client, request: &Request, error: &Error) {
    let is_certain = match error.kind {
        ErrorKind::NotFound
        | ErrorKind::InvalidSpec
        | ErrorKind::NoCapacity
        | ErrorKind::Quota
        | ErrorKind::Credentials => true,
        ErrorKind::Throttled { .. } | ErrorKind::Unreachable | ErrorKind::Other => false,
    };
    if !is_certain {
        return;
    }
    let cleared = async {
        // Another process may have been luckier.
        if existing(client, request).await?.is_none() {
            children::remove(client, &request.mark, &children::names(request)).await?;
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = cleared.await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(
            error,
            machine = request.mark.machine,
            "ports and volumes stay until the next try or the deletion"
        );
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use machine::spec::read::read;

    use super::*;

    #[track_caller]
    fn check(spec: Value, expected: Expect) {
        let spec: OpenStackSpec = read(&spec).unwrap().spec;
        let devices = devices(&spec, "image", |suffix| format!("volume-{suffix}"));
        expected.assert_eq(&devices.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn disks_are_told_only_where_there_is_more_than_the_flavor_s() {
        check(json!({"image": "i"}), expect![""]);
        let more = json!([{"name": "etcd", "sizeGiB": 10, "storage": {"type": "Local"}},
            {"name": "data", "sizeGiB": 20, "storage": {"type": "Volume"}}]);
        check(
            json!({"image": "i", "additionalBlockDevices": more}),
            expect![[r#"
            {"boot_index":0,"delete_on_termination":true,"destination_type":"local","source_type":"image","uuid":"image"}
            {"boot_index":-1,"delete_on_termination":true,"destination_type":"local","source_type":"blank","tag":"etcd","volume_size":10}
            {"boot_index":-1,"delete_on_termination":true,"destination_type":"volume","source_type":"volume","tag":"data","uuid":"volume-data"}"#]],
        );
        check(
            json!({"image": "i", "rootVolume": {"diskSize": 30}}),
            expect![[
                r#"{"boot_index":0,"delete_on_termination":true,"destination_type":"volume","source_type":"volume","uuid":"volume-root"}"#
            ]],
        );
    }
}
