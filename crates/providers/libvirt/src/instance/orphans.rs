//! Everything on a host that carries a cluster's mark.
//!
//! Only domains are listed: whatever belongs to a Machine is named on its domain, and goes with it.

use machine::provider::{Deletion, Error, Marked, Search};
use uuid::Uuid;

use super::{Libvirt, convert, delete, lookup, spec_of};
use crate::mark::Label;

const INSTANCE: &str = "instance";

pub(super) async fn marked(libvirt: &Libvirt, search: &Search) -> Result<Vec<Marked>, Error> {
    let host = libvirt.host(&spec_of(&search.place)?)?;
    let listed = host.domains().await.map_err(|fault| fault.error("cannot list domains"))?;
    let all: Vec<Uuid> = listed.into_iter().map(|(uuid, _)| uuid).collect();
    let domains = host.describe(&all).await.map_err(|fault| fault.error("cannot look at domains"))?;
    let marked = domains.iter().filter_map(|domain| {
        let label = Label::of(&domain.definition).filter(|label| label.mark.cluster == search.cluster)?;
        Some(Marked {
            mark: label.mark,
            kind: INSTANCE.to_owned(),
            id: domain.uuid.to_string(),
            provider_id: Some(convert::provider_id(domain.uuid)),
            created: label.created,
        })
    });
    Ok(marked.collect())
}

pub(super) async fn remove(libvirt: &Libvirt, search: &Search, orphan: &Marked) -> Result<Deletion, Error> {
    let host = libvirt.host(&spec_of(&search.place)?)?;
    let Ok(uuid) = orphan.id.parse() else { return Ok(Deletion::Gone) };
    let Some(domain) = lookup::by_id(&host, uuid).await? else { return Ok(Deletion::Gone) };
    // Between the list and now, the id may have become another Machine's.
    if let Some(label) = Label::of(&domain.definition).filter(|label| label.mark == orphan.mark) {
        delete::remove(&host, &domain, &label).await?;
        libvirt.seen.forget(&host.uri, uuid);
    }
    Ok(Deletion::Gone)
}
