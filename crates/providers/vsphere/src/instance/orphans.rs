//! Everything in a datacenter that carries a cluster's mark.
//!
//! Only virtual machines are listed: their disks go with them.

use machine::provider::{Deletion, Error, Marked, Search};

use super::{Vsphere, convert, delete, lookup, spec_of};
use crate::client::Reference;

const INSTANCE: &str = "instance";

pub(super) async fn marked(vsphere: &Vsphere, search: &Search) -> Result<Vec<Marked>, Error> {
    let site = vsphere.site(&spec_of(&search.place)?, &search.secrets).await?;
    let all = lookup::list(&site).await?;
    let marked = all.iter().filter(|vm| !vm.is_template).filter_map(|vm| {
        let label = vm.label.as_ref().filter(|label| label.mark.cluster == search.cluster)?;
        Some(Marked {
            mark: label.mark.clone(),
            kind: INSTANCE.to_owned(),
            id: vm.reference.value.clone(),
            provider_id: vm.uuid.as_deref().map(convert::provider_id),
            created: label.created,
        })
    });
    Ok(marked.collect())
}

pub(super) async fn remove(vsphere: &Vsphere, search: &Search, orphan: &Marked) -> Result<Deletion, Error> {
    let site = vsphere.site(&spec_of(&search.place)?, &search.secrets).await?;
    let reference = Reference::new("VirtualMachine", &orphan.id);
    let Some(vm) = lookup::by_reference(&site.client, &reference).await? else { return Ok(Deletion::Gone) };
    // Between the list and now, it may have become another Machine's, or a template.
    let is_same = vm.label.as_ref().is_some_and(|label| label.mark == orphan.mark) && !vm.is_template;
    if !is_same {
        return Ok(Deletion::Gone);
    }
    vsphere.seen.bury(&orphan.mark.uid);
    delete::remove(&site, &vm).await
}
