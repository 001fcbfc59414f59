//! Finds and removes the ports, trunks and volumes of a machine.
//!
//! They are found by the names that were recorded before they were made, and ports also by their tag. Only what carries the
//! machine's own mark is touched.

use std::collections::HashSet;

use machine::provider::{Error, Mark, Request, SpecRules};

use crate::client::Client;
use crate::mark;
use crate::services::wire::{Port, Server, Trunk, Volume};
use crate::spec::Rules;

/// The names of everything that belongs to a machine, by what it is.
pub(super) struct Names {
    pub(super) ports: Vec<String>,
    pub(super) volumes: Vec<String>,
}

/// Those of the intent, and those that follow from the spec.
pub(super) fn names(request: &Request) -> Names {
    let recorded = request.intent.iter().flat_map(|intent| intent.children.clone());
    let (mut ports, mut volumes) = (Vec::new(), Vec::new());
    for (key, name) in recorded.chain(Rules.children(request)) {
        let names = if key.starts_with("volume-") { &mut volumes } else { &mut ports };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Names { ports, volumes }
}

/// Marks the ports of a server that OpenShift's controller made, which have the names that we would give them: once the
/// server is gone, nobody could tell whose they are.
pub(super) async fn adopt(client: &Client, server: &Server, names: &Names, owner: &Mark) -> Result<(), Error> {
    let ports = client.ports(&[("device_id", server.id.clone())]).await;
    let ports = ports.map_err(|fault| fault.error("cannot list the server's ports"))?;
    for port in ports.iter().filter(|port| names.ports.contains(&port.name)) {
        if mark::of_description(&port.description).is_none() {
            let described = client.describe_port(&port.id, &mark::describe(&port.description, owner)).await;
            described.map_err(|fault| fault.error(&format!("cannot mark port {}", port.name)))?;
        }
    }
    Ok(())
}

/// Removes what is there. Whether something is left that takes its time.
pub(super) async fn remove(client: &Client, owner: &Mark, names: &Names) -> Result<bool, Error> {
    let mut is_left = false;
    let ports = ports(client, owner, &names.ports).await?;
    // A port cannot go before its trunk.
    for trunk in trunks(client, owner, &names.ports).await?.unwrap_or_default() {
        match client.delete_trunk(&trunk.id).await {
            Err(fault) if fault.is_busy() => is_left = true,
            answer => answer.map_err(|fault| fault.error(&format!("cannot delete trunk {}", trunk.name)))?,
        }
    }
    for port in ports {
        match client.delete_port(&port.id).await {
            Err(fault) if fault.is_busy() => is_left = true,
            answer => answer.map_err(|fault| fault.error(&format!("cannot delete port {}", port.name)))?,
        }
    }
    for volume in volumes(client, owner, &names.volumes).await? {
        is_left = true;
        if volume.status == "deleting" {
            continue;
        }
        match client.delete_volume(&volume.id).await {
            Err(fault) if fault.is_busy() => {}
            answer => answer.map_err(|fault| fault.error(&format!("cannot delete volume {}", volume.name)))?,
        }
    }
    Ok(is_left)
}

/// The machine's ports, those made first by id first, so that every process chooses the same.
pub(super) async fn ports(client: &Client, owner: &Mark, names: &[String]) -> Result<Vec<Port>, Error> {
    let by_name: Vec<_> = names.iter().map(|name| ("name", name.clone())).collect();
    let by_tag = vec![("tags", mark::uid_tag(&owner.uid))];
    let mut found = Vec::new();
    for query in [by_name, by_tag].iter().filter(|query| !query.is_empty()) {
        found.extend(client.ports(query).await.map_err(|fault| fault.error("cannot list ports"))?);
    }
    let mut seen = HashSet::new();
    found.retain(|port| is_of(&port.description, owner) && seen.insert(port.id.clone()));
    found.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(found)
}

/// The machine's trunks; `None` where the cloud has no trunks at all.
pub(super) async fn trunks(client: &Client, owner: &Mark, names: &[String]) -> Result<Option<Vec<Trunk>>, Error> {
    if names.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let query: Vec<_> = names.iter().map(|name| ("name", name.clone())).collect();
    let found = client.trunks(&query).await.map_err(|fault| fault.error("cannot list trunks"))?;
    Ok(found.map(|trunks| trunks.into_iter().filter(|trunk| is_of(&trunk.description, owner)).collect()))
}

/// The machine's volumes. Cinder takes one name at a time.
pub(super) async fn volumes(client: &Client, owner: &Mark, names: &[String]) -> Result<Vec<Volume>, Error> {
    let mut all = Vec::new();
    for name in names {
        let found = client.volumes(&[("name", name.clone())]).await;
        let found = found.map_err(|fault| fault.error("cannot list volumes"))?;
        all.extend(found.into_iter().filter(|volume| {
            volume.name == *name && mark::of_metadata(&volume.metadata).is_some_and(|mark| mark.uid == owner.uid)
        }));
    }
    all.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(all)
}

fn is_of(description: &str, owner: &Mark) -> bool {
    mark::of_description(description).is_some_and(|mark| mark.uid == owner.uid)
}
