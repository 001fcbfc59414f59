//! Quotas: a write that uses up what a quota counts is charged before it is stored, and refused if there is too little left.
//!
//! A charge is a write of the quota's status at the version that was read, so that two writes never share what is left.
//! Writes of one namespace that come together are charged together, by whoever is first. Housekeeping counts again what
//! quotas have used, and never while a write that was charged is not stored yet; what such a write leaves behind when it
//! fails, it gives back.

pub(crate) mod rules;
pub(crate) mod usage;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use builtin::amounts;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{self, Notify, RwLockReadGuard, RwLockWriteGuard, oneshot};

use self::{
    rules::{Quota, Wish},
    usage::Kind,
};
use crate::{
    object::{Draft, Name, Object, text},
    ownership,
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
    store::{Error, Expect, Index, Write},
    verbs::Request,
};

pub(crate) const COLLECTION: &str = "/resourcequotas";

/// As often as the real server tries when somebody else changes a quota.
const ATTEMPTS: usize = 4;

/// What writes that are under way know of each other.
pub(crate) struct Quotas {
    desks: [Desk; 32],
    /// Namespaces in which a write was charged and then not stored.
    abandoned: Mutex<BTreeSet<String>>,
    woken: Notify,
}

/// Where the writes of a namespace meet. Several namespaces share one.
#[derive(Default)]
struct Desk {
    /// Read by a write from its charge until it is stored; written while used amounts are counted.
    gate: sync::RwLock<()>,
    turn: sync::Mutex<()>,
    waiting: Mutex<Vec<Waiter>>,
}

/// A write that waits for its charge.
struct Waiter {
    namespace: String,
    wish: Wish,
    is_dry_run: bool,
    reply: oneshot::Sender<Verdict>,
}

enum Verdict {
    /// It costs nothing.
    Free,
    Charged,
    Refused(String),
    /// Others changed this quota all the time.
    Contended(String),
}

impl Default for Quotas {
    fn default() -> Self {
        Self { desks: std::array::from_fn(|_| Desk::default()), abandoned: Mutex::default(), woken: Notify::new() }
    }
}

impl Quotas {
    fn desk(&self, namespace: &str) -> &Desk {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(namespace);
        let count = u64::try_from(self.desks.len()).unwrap_or(1);
        &self.desks[usize::try_from(hash % count).unwrap_or(0)]
    }

    /// Waits until every write of the namespace that was charged is stored or given up, and holds up further ones.
    pub(crate) async fn quiet(&self, namespace: &str) -> RwLockWriteGuard<'_, ()> {
        self.desk(namespace).gate.write().await
    }

    /// The namespaces in which something has to be given back.
    pub(crate) fn take_abandoned(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.abandoned.lock())
    }

    /// Ends when something has to be given back.
    pub(crate) async fn abandoned(&self) {
        self.woken.notified().await;
    }

    fn abandon(&self, namespace: &str) {
        self.abandoned.lock().insert(namespace.to_owned());
        self.woken.notify_one();
    }
}

/// Keeps the quotas from being counted until the write that holds it is stored.
pub(crate) struct Held<'a> {
    quotas: &'a Quotas,
    namespace: String,
    is_charged: bool,
    _gate: RwLockReadGuard<'a, ()>,
}

impl Held<'_> {
    /// The write is stored, so that its charge stays.
    pub(crate) fn keep(held: Option<Self>) {
        if let Some(mut held) = held {
            held.is_charged = false;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_charged {
            self.quotas.abandon(&self.namespace);
        }
    }
}

/// Whether a namespace has quotas at all: what most do not have must cost next to nothing.
pub(crate) fn has_any(index: &Index, namespace: &str) -> bool {
    let quotas = index.collection(COLLECTION).filter(|quotas| quotas.len() > 0);
    quotas.is_some_and(|quotas| quotas.iter(Some(namespace), None).next().is_some())
}

/// Charges a write to the quotas of its namespace, or refuses it.
pub(crate) async fn charge<'a>(
    request: &Request<'a>,
    old: Option<&Value>,
    new: &Value,
    is_dry_run: bool,
) -> Answer<Option<Held<'a>>> {
    let Request { api, resource, subresource, namespace, .. } = *request;
    if namespace.is_empty() || !has_any(&api.store.read(), namespace) {
        return Ok(None);
    }
    let Some(wish) = wish(resource, subresource, old, new) else { return Ok(None) };
    let desk = api.quotas.desk(namespace);
    let gate = desk.gate.read().await;
    let verdict = loop {
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { namespace: namespace.to_owned(), wish: wish.clone(), is_dry_run, reply };
        desk.waiting.lock().push(waiter);
        {
            let _turn = desk.turn.lock().await;
            // Whoever had the turn before may have decided this one with its own.
            let mut batch: BTreeMap<String, Vec<Waiter>> = BTreeMap::new();
            for waiter in std::mem::take(&mut *desk.waiting.lock()) {
                batch.entry(waiter.namespace.clone()).or_default().push(waiter);
            }
            for (namespace, waiters) in batch {
                decide(api, &namespace, waiters).await;
            }
        }
        match answer.await {
            Ok(verdict) => break verdict,
            // The one who decided was gone before it could tell; it may have charged this write.
            Err(_) => api.quotas.abandon(namespace),
        }
    };
    let is_charged = match verdict {
        Verdict::Free => false,
        Verdict::Charged => true,
        Verdict::Refused(why) => return Err(Failure::forbidden(resource, text(&new["metadata"]["name"]), &why)),
        Verdict::Contended(quota) => {
            let registry = api.registry.load();
            let quotas = registry.of_collection(COLLECTION).ok_or_else(Failure::no_such_resource)?;
            return Err(Failure::modified(quotas, &quota));
        }
    };
    Ok(Some(Held { quotas: &api.quotas, namespace: namespace.to_owned(), is_charged, _gate: gate }))
}

/// What a write wants of quotas, if it is one that can want something.
fn wish(resource: &Resource, subresource: &str, old: Option<&Value>, new: &Value) -> Option<Wish> {
    let kind = Kind::of(resource)?;
    let wish = || Wish {
        old: old.map(|old| kind.measure(old)),
        new: kind.measure(new),
        unsaid: if kind == Kind::Pods { usage::unsaid(new) } else { BTreeMap::new() },
        kind: kind.clone(),
        is_told: subresource == "status",
        now: Timestamp::now(),
    };
    match (&kind, subresource, old) {
        (_, "", None)
        | (Kind::Services | Kind::StorageClaims | Kind::DeviceClaims, "", Some(_))
        | (Kind::StorageClaims, "status", Some(_))
        | (Kind::Pods, "resize", Some(_)) => Some(wish()),
        // What else a pod can change costs nothing.
        (Kind::Pods, "", Some(_)) => {
            let wish = wish();
            let before = wish.old.as_ref().is_some_and(usage::Measured::is_terminating);
            (before != wish.new.is_terminating()).then_some(wish)
        }
        _ => None,
    }
}

/// Decides about writes of one namespace in the order in which they came, and charges those that fit with one write of
/// each quota.
async fn decide(api: &Arc<Api>, namespace: &str, waiters: Vec<Waiter>) {
    let mut waiters = waiters;
    let mut left: Option<BTreeSet<String>> = None;
    for attempt in 1..=ATTEMPTS {
        let stored = stored(api, namespace, left.as_ref());
        let before: Vec<Quota> = stored.iter().map(|quota| Quota::read(&quota.value())).collect();
        let mut after = before.clone();
        let mut charged = Vec::new();
        for waiter in waiters {
            match rules::check(&after, &waiter.wish) {
                Err(why) => tell(waiter, Verdict::Refused(why)),
                Ok(next) if waiter.is_dry_run || next == after => tell(waiter, Verdict::Free),
                Ok(next) => {
                    after = next;
                    charged.push(waiter);
                }
            }
        }
        let mut contended = BTreeSet::new();
        for ((stored, before), after) in stored.iter().zip(&before).zip(&after).filter(|((_, old), new)| old != new) {
            if !write(api, stored, after).await {
                contended.insert(before.name.clone());
            }
        }
        match contended.first() {
            None => return charged.into_iter().for_each(|waiter| tell(waiter, Verdict::Charged)),
            Some(quota) if attempt == ATTEMPTS => {
                return charged.into_iter().for_each(|waiter| tell(waiter, Verdict::Contended(quota.clone())));
            }
            // The other quotas are charged, so that only these are asked again.
            Some(_) => (waiters, left) = (charged, Some(contended)),
        }
    }
}

fn tell(waiter: Waiter, verdict: Verdict) {
    // Somebody who does not wait any more has given up.
    let _ = waiter.reply.send(verdict);
}

/// The quotas of a namespace, or those of them that are named.
pub(crate) fn stored(api: &Api, namespace: &str, only: Option<&BTreeSet<String>>) -> Vec<Arc<Object>> {
    let index = api.store.read();
    let found = index.collection(COLLECTION).into_iter().flat_map(|quotas| quotas.iter(Some(namespace), None));
    found.filter(|quota| only.is_none_or(|only| only.contains(quota.name()))).cloned().collect()
}

/// Writes what a quota has used. `false`: somebody else wrote it meanwhile.
async fn write(api: &Arc<Api>, stored: &Arc<Object>, quota: &Quota) -> bool {
    let old = stored.value();
    let mut new = old.clone();
    new["status"]["used"] = amounts::write(&quota.used);
    store_status(api, stored, "kube-apiserver", &old, new).await.is_ok()
}

/// Writes the status of a quota at the version that was read, in the name of one of the control plane.
pub(crate) async fn store_status(
    api: &Arc<Api>,
    stored: &Arc<Object>,
    manager: &str,
    old: &Value,
    mut new: Value,
) -> Result<(), Error> {
    if let Some(resource) = api.registry.load().of_collection(COLLECTION) {
        ownership::report(resource, manager, old, &mut new);
    }
    let draft = Draft::new(stored.key.clone(), &new);
    api.store.commit(Write::Put(Box::new(draft), Expect::Version(stored.version))).await.map(drop)
}

/// Ends when every write that was under way before is stored or refused.
pub(crate) async fn barrier(api: &Api) {
    // Writes are decided one after the other, and nobody has an object of this name.
    let key = crate::object::Key { collection: COLLECTION.into(), name: Name::new("", "") };
    let _ = api.store.commit(Write::Delete(key, Expect::Version(0))).await;
}
