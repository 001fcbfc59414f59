//! Nobody gets an address or a port of a service that somebody else has, or is about to have.

use std::{cell::LazyCell, collections::BTreeSet};

use builtin::services;
use parking_lot::Mutex;
use rand::RngExt;
use serde_json::Value;

use crate::{
    housekeeping::addresses,
    object::text,
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
};

const SERVICES: &str = "/services";
const RANGES: &str = "networking.k8s.io/servicecidrs";

/// What writes that are under way have taken.
#[derive(Default)]
pub(crate) struct Allocations(Mutex<BTreeSet<String>>);

/// Holds what one write took until it is stored or given up.
pub(crate) struct Held<'a> {
    all: &'a Allocations,
    keys: BTreeSet<String>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        all.retain(|key| !self.keys.contains(key));
    }
}

/// Gives a service what it needs; what it had it keeps.
pub(crate) fn allocate<'a>(
    api: &'a Api,
    resource: &Resource,
    old: Option<&Value>,
    service: &mut Value,
) -> Answer<Option<Held<'a>>> {
    if !resource.is(SERVICES) {
        return Ok(None);
    }
    let name = text(&service["metadata"]["name"]).to_owned();
    let own = old.map(services::held).unwrap_or_default();
    let mut under_way = api.allocations.0.lock();
    // Most changes of services ask for nothing.
    let taken = LazyCell::new(|| taken(api));
    let random = || rand::rng().random::<u32>();
    let pool = services::Pool {
        ranges: ranges(api),
        is_taken: &|key| taken.contains(key) || under_way.contains(key),
        random: &random,
    };
    services::allocate(service, &own, &pool)
        .map_err(|errors| Failure::invalid(&resource.group, &resource.kind, &name, &errors))?;
    let keys: BTreeSet<String> = services::held(service).difference(&own).cloned().collect();
    under_way.extend(keys.iter().cloned());
    Ok(Some(Held { all: &api.allocations, keys }))
}

fn taken(api: &Api) -> BTreeSet<String> {
    let index = api.store.read();
    let services = index.collection(SERVICES);
    let services = services.into_iter().flat_map(|services| services.iter(None, None));
    let held = services.flat_map(|service| services::held(&service.value()));
    // Somebody may keep an address for what is no service.
    let kept = index.collection(addresses::COLLECTION);
    let kept = kept.into_iter().flat_map(|kept| kept.iter(None, None)).map(|address| address.name().to_owned());
    held.chain(kept).collect()
}

fn ranges(api: &Api) -> Vec<(u32, u32)> {
    let index = api.store.read();
    let found = index.collection(RANGES);
    let found = found.into_iter().flat_map(|ranges| ranges.iter(None, None)).filter(|range| !range.deleting);
    let found = found.flat_map(|range| range.value()["spec"]["cidrs"].as_array().cloned().unwrap_or_default());
    found.filter_map(|range| services::range(text(&range))).collect()
}
