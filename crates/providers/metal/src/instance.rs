//! The `Provider` port on Metal3's hosts.

use std::collections::HashMap;

use cluster::error::if_found;
use cluster::write::in_time;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Mark, Marked, PowerWish, Provider, Request, Search,
    SpecRules,
};
use serde_json::{Value, json};

use crate::host::{self, Host};
use crate::spec::{MetalSpec, Rules, usable};

const MANAGER: &str = "machinist-metal";
/// Tries at a host that others want too; each looks anew.
const TRIES: usize = 8;

/// Hosts of Metal3, in the cluster that the Machines are in.
pub struct Metal {
    client: Client,
}

impl Metal {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn resource() -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost"))
    }

    fn hosts_of(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &Self::resource())
    }

    /// All hosts of a namespace, in the order of their names.
    async fn hosts(&self, namespace: &str) -> Result<Vec<Host>, Error> {
        let listed = in_time(self.hosts_of(namespace).list(&ListParams::default())).await;
        let mut hosts: Vec<_> =
            listed.map_err(|error| trouble(&error, "cannot list BareMetalHosts"))?.into_iter().map(Host).collect();
        hosts.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(hosts)
    }

    /// `None` if the host has changed since it was looked at.
    async fn patch(&self, namespace: &str, host: &Host, patch: &Value) -> Result<Option<Host>, Error> {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.hosts_of(namespace);
        match in_time(api.patch(host.name(), &parameters, &Patch::Merge(patch))).await {
            Ok(host) => Ok(Some(Host(host))),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(None),
            Err(error) => Err(trouble(&error, &format!("cannot write BareMetalHost {}", host.name()))),
        }
    }

    async fn looked(&self, requests: &[Request]) -> Vec<Result<Vec<Instance>, Error>> {
        let mut namespaces: Vec<&str> = requests.iter().map(|request| request.mark.namespace.as_str()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let listed = join_all(namespaces.iter().map(|namespace| self.hosts(namespace))).await;
        let listed: HashMap<_, _> = namespaces.into_iter().zip(listed).collect();
        let answer = |request: &Request| match &listed[request.mark.namespace.as_str()] {
            Ok(hosts) => Ok(hosts.iter().filter(|host| host.is_of(&request.mark)).map(Host::instance).collect()),
            Err(error) => Err(error.clone()),
        };
        requests.iter().map(answer).collect()
    }

    /// The host that the Machine has already, or a free one, claimed by a patch that fails if another was faster.
    async fn created(&self, request: &Request, intent: &Intent) -> Result<Instance, Error> {
        let spec = usable(&request.spec).map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))?;
        let namespace = &request.mark.namespace;
        for _ in 0..TRIES {
            let hosts = self.hosts(namespace).await?;
            if let Some(own) = hosts.iter().find(|host| host.is_of(&request.mark)) {
                return Ok(own.instance());
            }
            let chosen = choose(&hosts, &spec, &request.mark)?;
            if let Some(host) =
                self.patch(namespace, chosen, &chosen.claim(&spec, &request.mark, intent.recorded)).await?
            {
                return Ok(host.instance());
            }
        }
        Err(Error::new(ErrorKind::Other, "other machines took every host that was chosen for this one"))
    }

    async fn deleted(&self, request: &Request) -> Result<Deletion, Error> {
        let namespace = &request.mark.namespace;
        let hosts = self.hosts(namespace).await?;
        let mut deletion = Deletion::Gone;
        for host in hosts.iter().filter(|host| host.is_of(&request.mark)) {
            if self.give_back(namespace, host).await? == Deletion::Requested {
                deletion = Deletion::Requested;
            }
        }
        Ok(deletion)
    }

    /// The consumerRef goes last: while it is there, nobody else takes the host.
    async fn give_back(&self, namespace: &str, host: &Host) -> Result<Deletion, Error> {
        if host.is_used() {
            if !host.is_cleared() {
                self.patch(namespace, host, &host.clear()).await?;
            }
            return Ok(Deletion::Requested);
        }
        let released = self.patch(namespace, host, &host.release()).await?;
        Ok(if released.is_some() { Deletion::Gone } else { Deletion::Requested })
    }

    async fn switched(&self, request: &Request, wish: PowerWish) -> Result<(), Error> {
        let namespace = &request.mark.namespace;
        for _ in 0..TRIES {
            let hosts = self.hosts(namespace).await?;
            let Some(host) = hosts.iter().find(|host| host.is_of(&request.mark)) else {
                return Err(Error::new(ErrorKind::NotFound, "there is no host to switch"));
            };
            let mut patch = match wish {
                PowerWish::On => json!({"spec": {"online": true}}),
                PowerWish::Off => json!({"spec": {"online": false}}),
                PowerWish::Cycle => json!({"metadata": {"annotations": {host::REBOOT: r#"{"mode":"hard"}"#}}}),
            };
            patch["metadata"]["resourceVersion"] = json!(host.version());
            if self.patch(namespace, host, &patch).await?.is_some() {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Other, "the host changes all the time"))
    }

    async fn swept(&self, search: &Search) -> Result<Vec<Marked>, Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &Self::resource());
        let listed = in_time(api.list(&ListParams::default())).await;
        let hosts = listed.map_err(|error| trouble(&error, "cannot list BareMetalHosts"))?.into_iter().map(Host);
        let marked = hosts.filter_map(|host| {
            let mark = host.mark().filter(|mark| mark.cluster == search.cluster)?;
            let id = host.provider_id();
            Some(Marked {
                mark,
                kind: "instance".to_owned(),
                id: id.clone(),
                provider_id: Some(id),
                created: host.claimed(),
            })
        });
        Ok(marked.collect())
    }

    async fn removed(&self, orphan: &Marked) -> Result<Deletion, Error> {
        let Some((namespace, name, _)) = host::host_in(&orphan.id) else { return Ok(Deletion::Gone) };
        let found = if_found(in_time(self.hosts_of(namespace).get(name)).await);
        let found = found.map_err(|error| trouble(&error, "cannot look at the BareMetalHost"))?;
        match found.map(Host).filter(|host| host.mark().as_ref() == Some(&orphan.mark)) {
            Some(host) => self.give_back(namespace, &host).await,
            // It has become another Machine's, or nobody's.
            None => Ok(Deletion::Gone),
        }
    }

    /// The smallest host that would do, free or not: the next one may be as small.
    async fn offered(&self, request: &Request) -> Result<Option<Capacity>, Error> {
        let read = machine::spec::read::read::<MetalSpec>(&request.spec);
        let spec = read.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))?.spec;
        let hosts = self.hosts(&request.mark.namespace).await?;
        let matching = hosts.iter().filter(|host| spec.host_selector.matches(&host.labels()));
        Ok(matching.filter_map(Host::capacity).min_by_key(|capacity| (capacity.cpus, capacity.memory_mib)))
    }
}

/// A free host that the selector matches. Machines begin at different places, so that a set does not fight over the first.
fn choose<'a>(hosts: &'a [Host], spec: &MetalSpec, mark: &Mark) -> Result<&'a Host, Error> {
    let matching: Vec<_> = hosts.iter().filter(|host| spec.host_selector.matches(&host.labels())).collect();
    let free: Vec<_> = matching.iter().copied().filter(|host| host.is_free()).collect();
    let start = mark.uid.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    if !free.is_empty() {
        return Ok(free[start % free.len()]);
    }
    let message = match (hosts.len(), matching.len()) {
        (0, _) => format!("namespace {} has no BareMetalHost; add one", mark.namespace),
        (all, 0) => format!("providerSpec.hostSelector: none of {all} BareMetalHosts matches; label one"),
        (_, some) => format!("none of {some} matching BareMetalHosts is free; add one, or scale down"),
    };
    Err(Error::new(ErrorKind::NoCapacity, message))
}

fn trouble(error: &kube::Error, doing: &str) -> Error {
    let kind = match error {
        kube::Error::Api(status) if status.is_not_found() => {
            let message = format!("{doing}: the API has no such kind; install Metal3");
            return Error::new(ErrorKind::NotFound, message);
        }
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => ErrorKind::Credentials,
        kube::Error::Api(status) if status.code == 429 => ErrorKind::Throttled { retry_after: None },
        kube::Error::Api(status) if status.code < 500 => ErrorKind::Other,
        _ => ErrorKind::Unreachable,
    };
    Error::new(kind, format!("{doing}: {error}"))
}

impl Provider for Metal {
    fn name(&self) -> &'static str {
        "baremetal"
    }

    fn rules(&self) -> &dyn SpecRules {
        &Rules
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        self.looked(requests).boxed()
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        self.created(request, intent).boxed()
    }

    /// Nothing of a host changes with its Machine.
    fn update<'a>(&'a self, _: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        std::future::ready(Ok(instance.clone())).boxed()
    }

    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>> {
        self.deleted(request).boxed()
    }

    fn switch_power<'a>(&'a self, request: &'a Request, wish: PowerWish) -> BoxFuture<'a, Result<(), Error>> {
        self.switched(request, wish).boxed()
    }

    fn can_switch_power(&self) -> bool {
        true
    }

    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>> {
        self.swept(search).boxed()
    }

    fn remove<'a>(&'a self, _: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        self.removed(orphan).boxed()
    }

    fn capacity<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Option<Capacity>, Error>> {
        self.offered(request).boxed()
    }
}
