//! Makes the volumes of a machine before its server.

use std::collections::BTreeMap;

use machine::provider::{Error, ErrorKind, Intent, Mark};
use serde_json::{Value, json};

use super::children;
use crate::client::Client;
use crate::mark;
use crate::services::wire::Volume;
use crate::spec::{OpenStackSpec, ROOT, root_volume, volume_key};

/// How far the volumes are.
pub(super) enum Volumes {
    /// Ids by the end of their names.
    Ready(BTreeMap<String, String>),
    /// The name of one that is still being made.
    Waiting(String),
}

/// Makes those that are missing, and looks at those that are there.
pub(super) async fn ensure(
    client: &Client,
    spec: &OpenStackSpec,
    image: &str,
    owner: &Mark,
    intent: &Intent,
) -> Result<Volumes, Error> {
    let wanted = wanted(spec, image);
    if wanted.is_empty() {
        return Ok(Volumes::Ready(BTreeMap::new()));
    }
    let name_of = |suffix: &str| match intent.children.get(&volume_key(suffix)) {
        Some(name) => name.clone(),
        None => format!("{}-{suffix}", owner.machine),
    };
    let names: Vec<_> = wanted.iter().map(|(suffix, _)| name_of(suffix)).collect();
    let present = children::volumes(client, owner, &names).await?;
    let mut ready = BTreeMap::new();
    let mut waiting = None;
    for ((suffix, body), name) in wanted.into_iter().zip(names) {
        let volume = match present.iter().find(|volume| volume.name == name) {
            Some(volume) => volume.clone(),
            None => create(client, body, &name, owner).await?,
        };
        match volume.status.as_str() {
            "available" => drop(ready.insert(suffix, volume.id)),
            "error" => return Err(broken(client, &volume).await),
            _ => waiting = Some(name),
        }
    }
    Ok(waiting.map_or(Volumes::Ready(ready), Volumes::Waiting))
}

async fn create(client: &Client, mut body: Value, name: &str, owner: &Mark) -> Result<Volume, Error> {
    body["name"] = json!(name);
    body["metadata"] = json!(mark::metadata(owner));
    client.create_volume(&body).await.map_err(|fault| fault.refusal(&format!("cannot create volume {name}")))
}

/// A volume that could not be made is taken away, so that the next try makes another.
async fn broken(client: &Client, volume: &Volume) -> Error {
    if let Err(error) = client.delete_volume(&volume.id).await {
        tracing::warn!(error = &error as &dyn std::error::Error, volume = volume.name, "cannot delete a broken volume");
    }
    Error::new(ErrorKind::Other, format!("cinder could not make volume {}; it is tried again", volume.name))
}

/// The volumes by the end of their names.
fn wanted(spec: &OpenStackSpec, image: &str) -> Vec<(String, Value)> {
    let mut wanted = Vec::new();
    if let Some(volume) = root_volume(spec) {
        let mut body = json!({"size": volume.size, "imageRef": image});
        place(&mut body, &volume.volume_type, &volume.availability_zone);
        wanted.push((ROOT.to_owned(), body));
    }
    for device in spec.additional_block_devices.iter().filter(|device| device.storage.kind == "Volume") {
        let mut body = json!({"size": device.size_gib});
        let volume = device.storage.volume.clone().unwrap_or_default();
        // Without a zone of its own, a volume belongs where the server is.
        let zone =
            if volume.availability_zone.is_empty() { &spec.availability_zone } else { &volume.availability_zone };
        place(&mut body, &volume.kind, zone);
        wanted.push((device.name.clone(), body));
    }
    wanted
}

fn place(body: &mut Value, kind: &str, zone: &str) {
    if !kind.is_empty() {
        body["volume_type"] = json!(kind);
    }
    if !zone.is_empty() {
        body["availability_zone"] = json!(zone);
    }
}
