//! Quotas: their status tells the limits in force, and what is used of them as the objects are.
//!
//! Admission charges each write; here everything is counted again from the objects: when the limits change, when something
//! goes or comes to cost less, when a write that was charged was not stored, at the start, and now and then.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use builtin::amounts::{self, Amounts};
use jiff::Timestamp;
use schema::quantity::Quantity;
use serde_json::{Value, json};

use crate::{
    admission::quota::{
        self,
        usage::{Kind, MEASURED, Measured, Scope},
    },
    object::Name,
    registry::Registry,
    server::Api,
    store::{Change, Error, Index},
};

/// As often as the real server counts everything again.
pub(super) const PERIOD: Duration = Duration::from_secs(300);

/// What objects cost, so that counting again reads only those that changed. Of namespaces that have quotas.
#[derive(Default)]
pub(super) struct Ledger(HashMap<String, Costs>);

/// Of each measured kind, objects at the version at which they were read.
type Costs = [BTreeMap<Name, (u64, Measured)>; MEASURED.len()];

/// The namespaces that have quotas.
pub(super) fn namespaces(index: &Index) -> impl Iterator<Item = String> {
    let quotas = index.collection(quota::COLLECTION).into_iter().flat_map(|quotas| quotas.iter(None, None));
    quotas.map(|quota| quota.namespace().to_owned())
}

/// Whether a change may have set something free, or changed what is counted.
pub(super) fn concerns(index: &Index, change: &Change) -> bool {
    let Some(object) = change.object() else { return false };
    if object.namespace().is_empty() || !quota::has_any(index, object.namespace()) {
        return false;
    }
    let (Some(previous), Some(current)) = (&change.previous, &change.current) else {
        // What comes was charged already, but for a quota, whose status has to be made.
        return change.current.is_none() || &*object.key.collection == quota::COLLECTION;
    };
    if &*object.key.collection == quota::COLLECTION {
        return previous.value()["spec"] != current.value()["spec"];
    }
    let kind = MEASURED.iter().find(|(collection, _)| *collection == &*object.key.collection);
    kind.is_some_and(|(_, kind)| kind.measure(&previous.value()) != kind.measure(&current.value()))
}

/// Brings the status of every quota in the namespace up to date.
pub(super) async fn settle(api: &Arc<Api>, ledger: &mut Ledger, namespace: &str) {
    let _quiet = api.quotas.quiet(namespace).await;
    let quotas = quota::stored(api, namespace, None);
    if quotas.is_empty() {
        ledger.0.remove(namespace);
        return;
    }
    let registry = api.registry.load_full();
    let costs = ledger.0.entry(namespace.to_owned()).or_default();
    refresh(&api.store.read(), costs, namespace);
    for stored in quotas {
        let mut stored = Some(stored);
        while let Some(quota) = stored.take() {
            let old = quota.value();
            let Some(new) = observed(&api.store.read(), &registry, costs, namespace, &old) else { break };
            match quota::store_status(api, &quota, "kube-controller-manager", &old, new).await {
                Ok(()) => {}
                Err(Error::Stale) => stored = api.store.get(quota::COLLECTION, &quota.key.name),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot write the status of a quota");
                }
            }
        }
    }
}

/// Reads what changed, and forgets what is gone.
fn refresh(index: &Index, costs: &mut Costs, namespace: &str) {
    for ((collection, kind), costs) in MEASURED.iter().zip(costs) {
        let mut known = std::mem::take(costs);
        let objects = index.collection(collection).into_iter().flat_map(|found| found.iter(Some(namespace), None));
        let current = objects.map(|object| {
            let cost = match known.remove(&object.key.name) {
                Some((version, cost)) if version == object.version => cost,
                _ => kind.measure(&object.value()),
            };
            (object.key.name.clone(), (object.version, cost))
        });
        *costs = current.collect();
    }
}

/// The quota with its status as it should be, if it is not so already.
fn observed(index: &Index, registry: &Registry, costs: &Costs, namespace: &str, quota: &Value) -> Option<Value> {
    let hard = amounts::read(&quota["spec"]["hard"]);
    let status = &quota["status"];
    let before = amounts::read(&status["used"]);
    let scopes = Scope::of_quota(&quota["spec"]);
    let now = Timestamp::now();
    let mut used: Amounts = before.clone();
    used.retain(|name, _| hard.contains_key(name));
    for name in hard.keys() {
        if let Some(count) = count(index, registry, costs, namespace, &scopes, name, now) {
            used.insert(name.clone(), count);
        }
    }
    let told = status["hard"].is_object() && status["used"].is_object();
    if told && amounts::read(&status["hard"]) == hard && before == used {
        return None;
    }
    let mut new = quota.clone();
    new["status"] = json!({"hard": quota["spec"]["hard"].clone(), "used": amounts::write(&used)});
    if hard.is_empty() {
        new["status"] = json!({});
    }
    (new != *quota).then_some(new)
}

/// How much of one resource the objects of a namespace use. `None`: nobody counts it.
fn count(
    index: &Index,
    registry: &Registry,
    costs: &Costs,
    namespace: &str,
    scopes: &[Scope],
    name: &str,
    now: Timestamp,
) -> Option<Quantity> {
    if let Some(at) = MEASURED.iter().position(|(_, kind)| kind.uses(name)) {
        let inside = costs[at].values().map(|(_, cost)| cost).filter(|cost| scopes.iter().all(|own| cost.is_in(own)));
        // The first one says in which form the sum is written.
        let amounts = inside.filter_map(|cost| cost.usage(now).get(name));
        return Some(amounts.fold(Quantity::of(0), |sum, amount| sum.plus(amount)));
    }
    let (plural, group) = match name.strip_prefix("count/") {
        Some(full) => full.split_once('.').unwrap_or((full, "")),
        None => (name, ""),
    };
    let collection = format!("{group}/{plural}");
    let resource = registry.of_collection(&collection)?;
    let Some(Kind::Objects(names)) = Kind::of(resource).filter(|kind| kind.uses(name)) else { return None };
    let found = index.collection(&resource.collection).into_iter().flat_map(|found| found.iter(Some(namespace), None));
    // Objects that only count are in no scope.
    let inside = scopes.iter().all(|scope| Measured::one_of(&names).is_in(scope));
    let count = if inside { found.count() } else { 0 };
    Some(Quantity::of(i64::try_from(count).unwrap_or(i64::MAX)))
}
