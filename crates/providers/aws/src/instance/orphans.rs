//! Everything in the account that carries a cluster's mark.

use machine::provider::{Deletion, Error, Marked, Search};

use super::{Aws, convert, hosts, lookup, spec_of, tags};
use crate::client::Client;
use crate::ec2::filter;
use crate::ec2::wire::{self, Items};
use crate::spec::Filter;

const INSTANCE: &str = "instance";
const VOLUME: &str = "volume";
const HOST: &str = "dedicated-host";

/// Instances, volumes that no instance holds, and dedicated hosts, each with our own mark: what upstream or the installer
/// made carries the cluster's tag too, and is not ours to judge.
pub(super) async fn marked(aws: &Aws, search: &Search) -> Result<Vec<Marked>, Error> {
    let client = client(aws, search).await?;
    let of_cluster =
        [filter(format!("tag:{}", tags::cluster(&search.cluster)), [tags::OWNED]), filter("tag-key", [tags::UID])];
    let mut marked = Vec::new();
    let instances =
        client.describe_instances(&of_cluster).await.map_err(|fault| fault.error("cannot list instances"))?;
    for instance in instances.iter().filter(|instance| !lookup::is_terminated(instance)) {
        let Some(found) = found(INSTANCE, &instance.instance_id, &instance.tags, search) else { continue };
        let provider_id = convert::instance(instance, client.region(), &[], false).provider_id;
        marked.push(Marked { provider_id, created: convert::launched(instance), ..found });
    }
    let volumes = volumes(&client, &of_cluster).await?;
    let volumes = volumes.iter().filter_map(|volume| {
        let found = found(VOLUME, &volume.volume_id, &volume.tags, search)?;
        Some(Marked { created: volume.create_time.parse().ok(), ..found })
    });
    marked.extend(volumes);
    let hosts = hosts::marked(&client).await?;
    let hosts = hosts.iter().filter_map(|host| {
        let found = found(HOST, &host.host_id, &host.tags, search)?;
        Some(Marked { created: host.allocation_time.parse().ok(), ..found })
    });
    marked.extend(hosts);
    Ok(marked)
}

pub(super) async fn remove(aws: &Aws, search: &Search, orphan: &Marked) -> Result<Deletion, Error> {
    let client = client(aws, search).await?;
    let result = match orphan.kind.as_str() {
        INSTANCE => client.terminate_instances(&[&orphan.id]).await,
        VOLUME => client.delete_volume(&orphan.id).await,
        HOST => return hosts::release_one(&client, &orphan.id).await.map(|()| Deletion::Requested),
        _ => return Ok(Deletion::Gone),
    };
    match result {
        Ok(()) => Ok(Deletion::Requested),
        Err(fault) if fault.is_not_found() => Ok(Deletion::Gone),
        Err(fault) => Err(fault.error(&format!("cannot remove {} {}", orphan.kind, orphan.id))),
    }
}

async fn client(aws: &Aws, search: &Search) -> Result<std::sync::Arc<Client>, Error> {
    let spec = spec_of(&search.place)?;
    aws.client(&spec, &search.secrets).await
}

async fn volumes(client: &Client, of_cluster: &[Filter]) -> Result<Vec<wire::Volume>, Error> {
    let filters: Vec<_> = of_cluster.iter().cloned().chain([filter("status", ["available"])]).collect();
    client.describe_volumes(&filters).await.map_err(|fault| fault.error("cannot list volumes"))
}

fn found(kind: &str, id: &str, tags: &Items<wire::Tag>, search: &Search) -> Option<Marked> {
    let mark = tags::mark(tags, &search.cluster)?;
    Some(Marked { mark, kind: kind.to_owned(), id: id.to_owned(), provider_id: None, created: None })
}
