//! Everything in a project that carries a cluster's mark.

use std::sync::Arc;

use machine::provider::{Deletion, Error, Mark, Marked, Search};

use super::{OpenStack, convert, spec_of};
use crate::client::{Client, Fault};
use crate::mark;
use crate::services::wire::{Trunk, time};

const INSTANCE: &str = "instance";
const PORT: &str = "port";
const TRUNK: &str = "trunk";
const VOLUME: &str = "volume";
/// Cinder's words for a volume that a server has, gets or gives back.
const USED: [&str; 4] = ["in-use", "attaching", "detaching", "reserved"];

/// Servers with our own mark, and ports, trunks and volumes with it that no server uses. What upstream made carries none, and
/// is not ours to judge; what a server uses goes with it, or is somebody's.
pub(super) async fn marked(openstack: &OpenStack, search: &Search) -> Result<Vec<Marked>, Error> {
    let client = client(openstack, search)?;
    let mut all = Vec::new();
    let servers = client.servers(&[("tags", mark::cluster_tag(&search.cluster))]).await;
    for server in servers.map_err(|fault| fault.error("cannot list servers"))? {
        if !convert::is_gone(&server)
            && let Some(mark) = of_cluster(mark::of_metadata(&server.metadata), search)
        {
            let region = client.region().filter(|_| openstack.settings.regional);
            let provider_id = Some(convert::provider_id(&server.id, region));
            all.push(Marked { provider_id, ..found(mark, INSTANCE, server.id, Some(&server.created)) });
        }
    }
    // A process that died before it wrote the tags leaves a port with a mark and without tags, so that all are looked at.
    let project = client.project().await.map_err(|fault| fault.error("cannot log in"))?;
    let of_project: Vec<_> = project.into_iter().map(|project| ("project_id", project)).collect();
    let ports = client.ports(&of_project).await.map_err(|fault| fault.error("cannot list ports"))?;
    let (used, free): (Vec<_>, Vec<_>) = ports.into_iter().partition(|port| !port.device_id.is_empty());
    for port in free {
        if let Some(mark) = of_cluster(mark::of_description(&port.description), search) {
            all.push(found(mark, PORT, port.id, port.created_at.as_deref()));
        }
    }
    let trunks = client.trunks(&of_project).await.map_err(|fault| fault.error("cannot list trunks"))?;
    let is_used = |trunk: &Trunk| used.iter().any(|port| port.id == trunk.port_id);
    for trunk in trunks.unwrap_or_default().into_iter().filter(|trunk| !is_used(trunk)) {
        if let Some(mark) = of_cluster(mark::of_description(&trunk.description), search) {
            all.push(found(mark, TRUNK, trunk.id, trunk.created_at.as_deref()));
        }
    }
    let volumes = match client.volumes(&[]).await {
        // A cloud without cinder has no volumes.
        Err(Fault::Lacking(_)) => Vec::new(),
        volumes => volumes.map_err(|fault| fault.error("cannot list volumes"))?,
    };
    for volume in volumes.into_iter().filter(|volume| !USED.contains(&volume.status.as_str())) {
        if let Some(mark) = of_cluster(mark::of_metadata(&volume.metadata), search) {
            all.push(found(mark, VOLUME, volume.id, volume.created_at.as_deref()));
        }
    }
    Ok(all)
}

/// What is in use by something else of the Machine goes once that is gone.
pub(super) async fn remove(openstack: &OpenStack, search: &Search, orphan: &Marked) -> Result<Deletion, Error> {
    let client = client(openstack, search)?;
    let (answer, done) = match orphan.kind.as_str() {
        INSTANCE => (client.delete_server(&orphan.id).await, Deletion::Requested),
        PORT => (client.delete_port(&orphan.id).await, Deletion::Gone),
        TRUNK => (client.delete_trunk(&orphan.id).await, Deletion::Gone),
        VOLUME => (client.delete_volume(&orphan.id).await, Deletion::Requested),
        _ => return Ok(Deletion::Gone),
    };
    match answer {
        Ok(()) => Ok(done),
        Err(fault) if fault.is_busy() => Ok(Deletion::Requested),
        Err(fault) => Err(fault.error(&format!("cannot remove {} {}", orphan.kind, orphan.id))),
    }
}

fn client(openstack: &OpenStack, search: &Search) -> Result<Arc<Client>, Error> {
    openstack.client(&spec_of(&search.place)?, &search.secrets)
}

fn of_cluster(mark: Option<Mark>, search: &Search) -> Option<Mark> {
    mark.filter(|mark| mark.cluster == search.cluster)
}

fn found(mark: Mark, kind: &str, id: String, created: Option<&str>) -> Marked {
    Marked { mark, kind: kind.to_owned(), id, provider_id: None, created: created.and_then(time) }
}
