//! Removes a machine's domain and everything that belongs to it.

use machine::provider::{Deletion, Error, Request};

use super::{Libvirt, lookup, spec_of};
use crate::client::{Described, Host};
use crate::mark::{Label, Names, Stage};
use crate::xml::Element;

/// By mark, and by the names that follow from it: a domain that a person undefined leaves its volumes behind.
pub(super) async fn delete(libvirt: &Libvirt, request: &Request) -> Result<Deletion, Error> {
    let spec = spec_of(&request.spec)?;
    let host = libvirt.host(&spec)?;
    let found = lookup::find(&host, &[request]).await?.pop().unwrap_or_default();
    for domain in &found {
        let label = Label::of(&domain.definition).unwrap_or_else(|| lookup::adopted(&request.mark, &spec));
        remove(&host, domain, &label).await?;
        libvirt.seen.forget(&host.uri, domain.uuid);
    }
    let names = Names::of(&request.mark);
    if let Some(volume) = spec.volume.filter(|volume| !volume.pool_name.is_empty()) {
        remove_volumes(&host, &volume.pool_name, &[names.disk, names.boot], Stage::Making).await?;
    }
    if !spec.network_interface_name.is_empty() {
        release(&host, &spec.network_interface_name, &names.mac).await?;
    }
    Ok(Deletion::Gone)
}

/// The domain goes last, because its label tells what else there is.
pub(super) async fn remove(host: &Host, domain: &Described, label: &Label) -> Result<(), Error> {
    host.destroy(domain.uuid).await.map_err(|fault| fault.error("cannot switch the domain off"))?;
    remove_volumes(host, &label.pool, &label.volumes, label.stage).await?;
    let interfaces = domain.definition.at(&["devices"]).into_iter().flat_map(|devices| devices.all("interface"));
    for interface in interfaces {
        let attribute = |path: &str, name| interface.at(&[path]).and_then(|it: &Element| it.attribute(name));
        if let (Some(network), Some(mac)) = (attribute("source", "network"), attribute("mac", "address")) {
            release(host, network, mac).await?;
        }
    }
    host.undefine(domain).await.map_err(|fault| fault.error("cannot undefine the domain"))
}

/// A domain that was never started may name a pool that never existed. For one that was started, a missing pool is an error:
/// its volumes are in that pool.
async fn remove_volumes(host: &Host, pool: &str, volumes: &[String], stage: Stage) -> Result<(), Error> {
    for volume in volumes {
        let deleted = match host.delete_volume(pool, volume).await {
            Err(fault) if stage == Stage::Making && fault.is_pool_missing() => Ok(()),
            deleted => deleted,
        };
        deleted.map_err(|fault| fault.error(&format!("cannot delete volume {volume} of pool {pool}")))?;
    }
    Ok(())
}

async fn release(host: &Host, network: &str, mac: &str) -> Result<(), Error> {
    host.release(network, mac)
        .await
        .map_err(|fault| fault.error(&format!("cannot release the address in network {network}")))
}
