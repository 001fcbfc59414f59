//! Everything in a zone that carries a cluster's mark: instances, and disks that outlived theirs.

use machine::provider::{Deletion, Error, Marked, Search};
use serde_json::Value;

use super::{Gcp, Site, convert, delete, lookup, spec_of};

const INSTANCE: &str = "instance";
const DISK: &str = "disk";

pub(super) async fn marked(gcp: &Gcp, search: &Search) -> Result<Vec<Marked>, Error> {
    let site = gcp.site(&spec_of(&search.place)?, &search.secrets)?;
    let instances = lookup::list(&site).await?;
    let query = [("maxResults", "500"), ("fields", "nextPageToken,items(name,labels,creationTimestamp,users)")];
    let disks =
        site.client.list(&site.zonal("disks"), &query).await.map_err(|fault| fault.error("cannot list disks"))?;
    // A disk in use goes with its instance.
    let unused = disks.iter().filter(|disk| disk["users"].as_array().is_none_or(Vec::is_empty));
    let all = instances.iter().map(|it| (INSTANCE, it)).chain(unused.map(|it| (DISK, it)));
    Ok(all.filter_map(|(kind, found)| entry(&site, search, kind, found)).collect())
}

fn entry(site: &Site, search: &Search, kind: &str, found: &Value) -> Option<Marked> {
    let mark = convert::mark(found).filter(|mark| mark.cluster == search.cluster)?;
    let name = found["name"].as_str()?.to_owned();
    let provider_id = (kind == INSTANCE).then(|| convert::provider_id(&site.project, &site.zone, &name));
    let created = found["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
    Some(Marked { mark, kind: kind.to_owned(), id: name, provider_id, created })
}

pub(super) async fn remove(gcp: &Gcp, search: &Search, orphan: &Marked) -> Result<Deletion, Error> {
    let site = gcp.site(&spec_of(&search.place)?, &search.secrets)?;
    if orphan.kind == DISK {
        let was_there = delete::remove_disk(&site, &orphan.id, &orphan.mark.uid).await?;
        return Ok(if was_there { Deletion::Requested } else { Deletion::Gone });
    }
    let found = site.client.find(&site.instance(&orphan.id)).await;
    let found = found.map_err(|fault| fault.error("cannot look for the instance"))?;
    // Between the list and now, the name may have become another Machine's.
    if found.as_ref().and_then(convert::mark).as_ref() != Some(&orphan.mark) {
        return Ok(Deletion::Gone);
    }
    delete::remove_instance(&site, &orphan.id).await?;
    Ok(Deletion::Requested)
}
