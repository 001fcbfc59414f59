//! Dedicated hosts that are allocated for one machine and given back with it.

use machine::provider::{Error, Intent, Mark, Request};

use super::{launch, tags};
use crate::Settings;
use crate::client::{Client, Params};
use crate::ec2::{filter, wire};
use crate::spec::{AwsSpec, DedicatedHost, HostPlacement};

/// Whether the machine wants a host of its own.
pub(super) fn is_dynamic(spec: &AwsSpec) -> bool {
    let host = spec.placement.host.as_ref().and_then(|host| host.dedicated_host.as_ref());
    host.is_some_and(|host| host.allocation_strategy.as_deref() == Some("Dynamic"))
}

/// The host for a machine: the one that an earlier try allocated, or a new one.
pub(super) async fn ensure(
    client: &Client,
    spec: &AwsSpec,
    request: &Request,
    intent: &Intent,
    settings: &Settings,
    zone: &str,
) -> Result<String, Error> {
    if let Some(host) = of(client, &request.mark).await?.into_iter().next() {
        return Ok(host.host_id);
    }
    let mut params = Params::new()
        .set("InstanceType", &spec.instance_type)
        .set("AvailabilityZone", zone)
        .set("Quantity", 1)
        // Nothing else may land on it.
        .set("AutoPlacement", "off")
        .set("ClientToken", launch::client_token(&format!("{}-host", intent.token)));
    let own = dynamic_tags(spec.placement.host.as_ref());
    tags::specify(
        &mut params,
        &["dedicated-host"],
        &tags::with_mark(own.iter().chain(&settings.resource_tags), &request.mark),
    );
    client.allocate_host(params).await.map_err(|fault| fault.error("cannot allocate a dedicated host"))
}

/// Gives the machine's hosts back. Whether some are still there.
pub(super) async fn release(client: &Client, mark: &Mark) -> Result<bool, Error> {
    let hosts = of(client, mark).await?;
    for host in &hosts {
        release_one(client, &host.host_id).await?;
    }
    Ok(!hosts.is_empty())
}

pub(super) async fn release_one(client: &Client, id: &str) -> Result<(), Error> {
    match client.release_host(id).await {
        Err(fault) if fault.is_not_found() => Ok(()),
        result => result.map_err(|fault| fault.error("cannot release the dedicated host")),
    }
}

/// Says on a host that the user allocated that this cluster uses it. It is the user's host, so nothing depends on it.
pub(super) async fn mark_shared(client: &Client, spec: &AwsSpec, mark: &Mark) {
    let host = spec.placement.host.as_ref().and_then(|host| host.dedicated_host.as_ref());
    let Some(DedicatedHost { id, .. }) = host.filter(|host| !host.id.is_empty()) else { return };
    let tag = (tags::cluster(&mark.cluster), "shared".to_owned());
    if let Err(error) = client.create_tags(id, &[tag]).await {
        tracing::warn!(error = &error as &dyn std::error::Error, host = id, "cannot tag the dedicated host");
    }
}

/// The machine's hosts that are not released.
async fn of(client: &Client, mark: &Mark) -> Result<Vec<wire::Host>, Error> {
    let hosts = marked(client).await?;
    Ok(hosts.into_iter().filter(|host| wire::find(&host.tags, tags::UID) == Some(&mark.uid)).collect())
}

/// Every host that carries a mark of ours and is not released. AWS filters hosts by the names of tags only.
pub(super) async fn marked(client: &Client) -> Result<Vec<wire::Host>, Error> {
    let hosts = client.describe_hosts(&[filter("tag-key", [tags::UID])]).await;
    let hosts = hosts.map_err(|fault| fault.error("cannot list dedicated hosts"))?;
    Ok(hosts.into_iter().filter(|host| !host.state.starts_with("released")).collect())
}

fn dynamic_tags(host: Option<&HostPlacement>) -> &[crate::spec::Tag] {
    let dedicated = host.and_then(|host| host.dedicated_host.as_ref());
    let allocation = dedicated.and_then(|host| host.dynamic_host_allocation.as_ref());
    allocation.and_then(|allocation| allocation.tags.as_deref()).unwrap_or_default()
}
