//! What a control plane does by itself: collect orphans, empty namespaces, accept definitions, keep budgets current.
//!
//! One task reads every change of the store, in order. It decides from what is stored now, so a missed or repeated change
//! does no harm, and a first look over everything at the start catches up with what a crash left behind.

pub(crate) mod addresses;
pub(crate) mod api_services;
pub(crate) mod budgets;
mod certificates;
mod collector;
pub(crate) mod definitions;
pub(crate) mod flow;
mod namespaces;
mod policies;
mod protection;
mod quotas;
mod roles;

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{
    admission::quota,
    auth::User,
    http::{Accept, Call, Query},
    object::{Key, Object},
    registry::Resource,
    server::Api,
    store::Change,
    verbs::{Request, patch},
};

pub(crate) use definitions::serve as serve_definitions;

/// The one who reads every change.
pub(crate) struct Keeper {
    feed: UnboundedReceiver<Change>,
    work: Work,
}

impl Keeper {
    /// Begins with a look over everything.
    pub(crate) fn new(api: &Api, feed: UnboundedReceiver<Change>) -> Self {
        let mut work = Work::default();
        work.everything(api);
        Self { feed, work }
    }

    pub(crate) async fn run(mut self, api: Arc<Api>) {
        // The first look over everything has counted already.
        let first = tokio::time::Instant::now() + quotas::PERIOD;
        let mut again = tokio::time::interval_at(first, quotas::PERIOD);
        loop {
            // One object that breaks a rule of ours must not end the care for all others.
            if AssertUnwindSafe(self.work.carry_out(&api)).catch_unwind().await.is_err() {
                tracing::error!("housekeeping panicked; it goes on with the next change");
            }
            tokio::select! {
                change = self.feed.recv() => match change {
                    Some(change) => self.work.note(&api, &change),
                    None => return,
                },
                () = api.quotas.abandoned() => {}
                _ = again.tick() => self.work.quotas.extend(quotas::namespaces(&api.store.read())),
            }
            while let Ok(change) = self.feed.try_recv() {
                self.work.note(&api, &change);
            }
        }
    }

    /// Does all that follows from what happened, and all that follows from that.
    #[cfg(test)]
    pub(crate) async fn settle(&mut self, api: &Arc<Api>, mut see: impl FnMut(&Change)) {
        for _ in 0..200 {
            self.work.carry_out(api).await;
            let Ok(change) = self.feed.try_recv() else { return };
            see(&change);
            self.work.note(api, &change);
            while let Ok(change) = self.feed.try_recv() {
                see(&change);
                self.work.note(api, &change);
            }
        }
        panic!("housekeeping never comes to an end");
    }
}

/// What has to be looked at, each thing once however often it changed.
#[derive(Default)]
struct Work {
    definitions: bool,
    addresses: bool,
    api_services: bool,
    certificates: bool,
    flow: bool,
    policies: bool,
    protection: bool,
    /// Something was deleted and is still used, so that a change of who uses it may let it go.
    kept: bool,
    roles: bool,
    namespaces: BTreeSet<String>,
    budgets: BTreeSet<String>,
    quotas: BTreeSet<String>,
    ledger: quotas::Ledger,
    /// Objects whose owners may be gone.
    dependents: BTreeSet<Key>,
    /// Objects being deleted that wait for their dependents.
    owners: BTreeSet<Key>,
}

impl Work {
    fn everything(&mut self, api: &Api) {
        let index = api.store.read();
        self.definitions = true;
        self.api_services = true;
        self.roles = true;
        self.policies = true;
        self.certificates = true;
        self.flow = true;
        self.addresses = true;
        self.protection = true;
        self.quotas.extend(quotas::namespaces(&index));
        for (name, collection) in index.collections() {
            for object in collection.iter(None, None) {
                if !object.owners.is_empty() {
                    self.dependents.insert(object.key.clone());
                }
                if object.deleting {
                    self.owners.insert(object.key.clone());
                }
                match &**name {
                    "/namespaces" => drop(self.namespaces.insert(object.name().to_owned())),
                    "policy/poddisruptionbudgets" => drop(self.budgets.insert(object.namespace().to_owned())),
                    _ => {}
                }
            }
        }
    }

    fn note(&mut self, api: &Api, change: &Change) {
        let Some(object) = change.object() else { return };
        match &*object.key.collection {
            "apiextensions.k8s.io/customresourcedefinitions" => self.definitions = true,
            // One that names a Service waits for it.
            api_services::COLLECTION => self.api_services = true,
            "/services" => {
                self.api_services = true;
                self.addresses = true;
            }
            addresses::COLLECTION => self.addresses = true,
            "rbac.authorization.k8s.io/clusterroles" => self.roles = true,
            policies::COLLECTION => self.policies = true,
            flow::SCHEMAS | flow::LEVELS => self.flow = true,
            "certificates.k8s.io/certificatesigningrequests" => self.certificates = true,
            "/namespaces" => drop(self.namespaces.insert(object.name().to_owned())),
            "/pods" | "policy/poddisruptionbudgets" | "apps/replicasets" | "apps/deployments" | "apps/statefulsets" => {
                self.budgets.insert(object.namespace().to_owned());
            }
            _ => {}
        }
        if quotas::concerns(&api.store.read(), change) {
            self.quotas.insert(object.namespace().to_owned());
        }
        let protected = protection::COLLECTIONS.contains(&&*object.key.collection);
        let frees = protected || &*object.key.collection == "/pods";
        self.protection |= (protected && object.deleting) || (frees && self.kept);
        match &change.current {
            None => {
                let index = api.store.read();
                self.dependents.extend(index.dependents(&object.uid).iter().map(|dependent| dependent.key.clone()));
                // A definition or a namespace may have waited for this one.
                self.definitions |= object.key.collection.contains('.');
                if !object.namespace().is_empty() {
                    self.namespaces.insert(object.namespace().to_owned());
                }
            }
            Some(current) => {
                let owners_changed = change.previous.as_ref().is_none_or(|previous| previous.owners != current.owners);
                if owners_changed && !current.owners.is_empty() {
                    self.dependents.insert(current.key.clone());
                }
                if current.deleting {
                    self.owners.insert(current.key.clone());
                }
            }
        }
        // An owner that waits for its dependents looks again when one of them goes or lets go.
        if let Some(previous) = &change.previous {
            let index = api.store.read();
            let owners = previous.owners.iter().filter_map(|owner| index.by_uid(&owner.uid));
            self.owners.extend(owners.filter(|owner| owner.deleting).map(|owner| owner.key.clone()));
        }
    }

    async fn carry_out(&mut self, api: &Arc<Api>) {
        if std::mem::take(&mut self.definitions) {
            definitions::settle(api).await;
            self.api_services = true;
        }
        if std::mem::take(&mut self.api_services) {
            api_services::settle(api, api_services::Moment::Change).await;
        }
        if std::mem::take(&mut self.roles) {
            roles::aggregate(api).await;
        }
        if std::mem::take(&mut self.policies) {
            policies::settle(api).await;
        }
        if std::mem::take(&mut self.certificates) {
            certificates::settle(api).await;
        }
        if std::mem::take(&mut self.addresses) {
            addresses::settle(api).await;
        }
        if std::mem::take(&mut self.flow) {
            flow::settle(api).await;
        }
        if std::mem::take(&mut self.protection) {
            self.kept = protection::settle(api).await;
        }
        for key in std::mem::take(&mut self.dependents) {
            collector::dependent(api, &key).await;
        }
        for key in std::mem::take(&mut self.owners) {
            collector::owner(api, &key).await;
        }
        for name in std::mem::take(&mut self.namespaces) {
            namespaces::settle(api, &name).await;
        }
        for namespace in std::mem::take(&mut self.budgets) {
            budgets::settle(api, &namespace).await;
        }
        let abandoned = api.quotas.take_abandoned();
        if !abandoned.is_empty() {
            // Who gave up may have sent its write all the same.
            quota::barrier(api).await;
            self.quotas.extend(abandoned);
        }
        for namespace in std::mem::take(&mut self.quotas) {
            quotas::settle(api, &mut self.ledger, &namespace).await;
        }
    }
}

/// A request of the server itself.
pub(crate) fn system_call() -> Call {
    Call {
        method: Method::PATCH,
        path: String::new(),
        query: Query::default(),
        headers: HeaderMap::new(),
        user: User::system(),
        accept: Accept::default(),
        body: Bytes::new(),
        upgrade: parking_lot::Mutex::default(),
        warnings: parking_lot::Mutex::default(),
    }
}

pub(crate) fn system_request<'a>(
    api: &'a Arc<Api>,
    call: &'a Call,
    resource: &'a Arc<Resource>,
    key: &'a Key,
) -> Request<'a> {
    Request { api, call, resource, subresource: "", namespace: &key.name.namespace, name: &key.name.name }
}

/// The objects of a collection as they are now.
fn all(api: &Api, collection: &str) -> Vec<Arc<Object>> {
    let index = api.store.read();
    index.collection(collection).map(|found| found.iter(None, None).cloned().collect()).unwrap_or_default()
}

/// Writes the status of an object under a name of the control plane's.
async fn apply_status(api: &Arc<Api>, object: &Object, manager: &str, status: &Value) {
    let registry = api.registry.load();
    let Some(resource) = registry.of_collection(&object.key.collection) else { return };
    let mut call = system_call();
    call.query = Query::parse(&format!("fieldManager={manager}&force=true"));
    if let Ok(media) = "application/apply-patch+yaml".parse() {
        call.headers.insert(http::header::CONTENT_TYPE, media);
    }
    let body = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": object.name()},
        "status": status,
    });
    call.body = body.to_string().into();
    let mut request = system_request(api, &call, resource, &object.key);
    request.subresource = "status";
    if let Err(failure) = patch::patch(&request).await {
        let (kind, name) = (&resource.kind, object.name());
        tracing::warn!(kind, name, message = failure.message, "cannot write the status");
    }
}

/// The options of the server's own writes.
pub(crate) fn system_options() -> crate::verbs::Options {
    crate::verbs::Options {
        dry_run: false,
        validation: crate::verbs::FieldValidation::Ignore,
        manager: "apiserver".to_owned(),
        force: None,
    }
}
