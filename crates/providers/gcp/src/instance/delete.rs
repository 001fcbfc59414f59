//! Removes an instance and the disks that go with it.

use machine::provider::{Deletion, Error, Request};

use super::operation::{self, Outcome};
use super::{Gcp, Site, balancers, convert, lookup, spec_of};
use crate::spec::DISK;

pub(super) async fn delete(gcp: &Gcp, request: &Request) -> Result<Deletion, Error> {
    let spec = spec_of(&request.spec)?;
    let site = gcp.site(&spec, &request.secrets)?;
    let name = &request.mark.machine;
    let found = site.client.find(&site.instance(name)).await;
    let found = found.map_err(|fault| fault.error("cannot look for the instance"))?;
    if let Some(found) = found.filter(|found| lookup::belongs(found, &site, request)) {
        if request.control_plane {
            balancers::deregister(&site, &spec, name).await?;
        }
        if found["status"].as_str() != Some("STOPPING") {
            remove_instance(&site, name).await?;
        }
        return Ok(Deletion::Requested);
    }
    if let Some(operation) = operation::recorded(request) {
        let outcome = operation::look(&site, operation).await;
        let outcome = outcome.map_err(|fault| fault.error("cannot look at the recorded operation"))?;
        if outcome == Outcome::Running {
            return Ok(Deletion::Requested);
        }
    }
    let children = request.intent.iter().flat_map(|intent| &intent.children);
    let mut is_left = false;
    for (_, disk) in children.filter(|(key, _)| key.starts_with(DISK)) {
        is_left |= remove_disk(&site, disk, &request.mark.uid).await?;
    }
    Ok(if is_left { Deletion::Requested } else { Deletion::Gone })
}

pub(super) async fn remove_instance(site: &Site, name: &str) -> Result<(), Error> {
    match site.client.delete(&site.instance(name)).await {
        Err(fault) if fault.is_not_found() || fault.is("resourceNotReady") => Ok(()),
        done => done.map(|_| ()).map_err(|fault| fault.error("cannot delete the instance")),
    }
}

/// Removes a disk that carries the Machine's mark, and nobody else's. Whether one was there.
pub(super) async fn remove_disk(site: &Site, name: &str, uid: &str) -> Result<bool, Error> {
    let path = site.zonal(&format!("disks/{name}"));
    let found = site.client.find(&path).await.map_err(|fault| fault.error("cannot look for a disk of the instance"))?;
    if found.as_ref().and_then(convert::mark).is_none_or(|mark| mark.uid != uid) {
        return Ok(false);
    }
    match site.client.delete(&path).await {
        Err(fault) if fault.is_not_found() => Ok(false),
        done => done.map(|_| true).map_err(|fault| fault.error("cannot delete a disk of the instance")),
    }
}
