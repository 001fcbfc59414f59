//! The `Provider` port on OpenStack.
//!
//! Nova has no client tokens. What keeps a repeated creation from making a second server are the ports: their names are
//! recorded before anything is made, and a port belongs to one server at most.

mod children;
mod convert;
mod create;
mod floating;
mod lookup;
mod memory;
mod orphans;
mod ports;
mod resolve;
mod volumes;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Marked, PowerWish, Provider, Request, Search, Secrets,
    SpecRules,
};
use machine::spec::read;
use serde_json::{Value, json};

use crate::Settings;
use crate::client::Client;
use crate::client::accounts::Accounts;
use crate::mark;
use crate::services::wire::Server;
use crate::spec::{OpenStackSpec, Rules};
use memory::Memory;

/// Servers of OpenStack, on all clouds that the Machines of a cluster name.
pub struct OpenStack {
    accounts: Accounts,
    settings: Settings,
    memory: Memory,
}

impl OpenStack {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { accounts: Accounts::default(), settings, memory: Memory::default() }
    }

    fn client(&self, spec: &OpenStackSpec, secrets: &Secrets) -> Result<Arc<Client>, Error> {
        self.accounts.client(spec, secrets)
    }

    fn place(&self, request: &Request) -> Result<(Arc<Client>, OpenStackSpec), Error> {
        let spec = spec_of(&request.spec)?;
        let client = self.client(&spec, &request.secrets)?;
        Ok((client, spec))
    }

    /// The machine's view of a server, which is remembered for the update that follows.
    fn seen(&self, client: &Client, request: &Request, server: &Server) -> Instance {
        self.memory.remember(server);
        convert::instance(server, client.region(), request.provider_id.as_deref(), self.settings.regional)
    }

    async fn updated(&self, request: &Request, instance: &Instance) -> Result<Instance, Error> {
        let (client, spec) = self.place(request)?;
        let id = convert::server_id(instance.provider_id.as_deref());
        let id = id.ok_or_else(|| Error::new(ErrorKind::Other, "the server has no id yet"))?;
        let mut server = match self.memory.recall(id) {
            Some(server) => server,
            None => lookup::by_id(&client, id).await?,
        };
        let is_marked = mark_server(&client, request, &mut server).await?;
        let is_floating = floating::associate(&client, &spec, &server).await?;
        if is_marked || is_floating {
            server = lookup::by_id(&client, id).await?;
        }
        Ok(self.seen(&client, request, &server))
    }

    /// While a server is there, its ports are in use; they go once it is gone.
    async fn deleted(&self, request: &Request) -> Result<Deletion, Error> {
        let (client, _) = self.place(request)?;
        let servers = lookup::find(&client, &[request]).await?.pop().unwrap_or_default();
        let names = children::names(request);
        for server in &servers {
            children::adopt(&client, server, &names, &request.mark).await?;
            let doing = format!("cannot delete server {}", server.id);
            client.delete_server(&server.id).await.map_err(|fault| fault.error(&doing))?;
            self.memory.forget(&server.id);
        }
        if !servers.is_empty() {
            return Ok(Deletion::Requested);
        }
        let is_left = children::remove(&client, &request.mark, &names).await?;
        Ok(if is_left { Deletion::Requested } else { Deletion::Gone })
    }

    async fn switched(&self, request: &Request, wish: PowerWish) -> Result<(), Error> {
        let (client, _) = self.place(request)?;
        let servers = lookup::find(&client, &[request]).await?.pop().unwrap_or_default();
        let Some(server) = servers.first() else {
            return Err(Error::new(ErrorKind::NotFound, "there is no server to switch"));
        };
        let action = match wish {
            PowerWish::On => json!({"os-start": null}),
            PowerWish::Off => json!({"os-stop": null}),
            PowerWish::Cycle => json!({"reboot": {"type": "HARD"}}),
        };
        match client.act(&server.id, &action).await {
            // It is on, or off, already.
            Err(fault) if fault.is_busy() && wish != PowerWish::Cycle && is_switched(server, wish) => Ok(()),
            answer => answer.map_err(|fault| fault.error("cannot switch the power of the server")),
        }
    }

    async fn offered(&self, request: &Request) -> Result<Option<Capacity>, Error> {
        let (client, spec) = self.place(request)?;
        if spec.flavor.is_empty() {
            return Ok(None);
        }
        let flavors = client.flavors().await.map_err(|fault| fault.error("cannot list flavors"))?;
        let flavor = resolve::flavor_in(&flavors, &spec.flavor);
        Ok(flavor.map(|flavor| Capacity { cpus: flavor.vcpus, memory_mib: flavor.ram, ..Capacity::default() }))
    }
}

fn is_switched(server: &Server, wish: PowerWish) -> bool {
    match wish {
        PowerWish::On => server.status == "ACTIVE",
        PowerWish::Off => server.status == "SHUTOFF",
        PowerWish::Cycle => false,
    }
}

/// Writes the mark on a server that OpenShift's controller made, or whose mark somebody took away.
async fn mark_server(client: &Client, request: &Request, server: &mut Server) -> Result<bool, Error> {
    let wanted = mark::metadata(&request.mark);
    let missing: serde_json::Map<String, Value> = wanted
        .into_iter()
        .filter(|(key, value)| server.metadata.get(key) != Some(value))
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    let tags = [mark::cluster_tag(&request.mark.cluster), mark::uid_tag(&request.mark.uid)];
    let tags: Vec<_> = tags.into_iter().filter(|tag| !server.tags.contains(tag)).collect();
    let is_marked = !missing.is_empty() || !tags.is_empty();
    if !missing.is_empty() {
        let added = client.add_metadata(&server.id, &Value::Object(missing)).await;
        added.map_err(|fault| fault.error("cannot mark the server"))?;
    }
    for tag in tags {
        let added = client.add_server_tag(&server.id, &tag).await;
        added.map_err(|fault| fault.error("cannot tag the server"))?;
    }
    Ok(is_marked)
}

impl Provider for OpenStack {
    fn name(&self) -> &'static str {
        "openstack"
    }

    fn rules(&self) -> &dyn SpecRules {
        &Rules
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        lookup::instances(self, requests).boxed()
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        create::create(self, request, intent).boxed()
    }

    fn update<'a>(&'a self, request: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        self.updated(request, instance).boxed()
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
        orphans::marked(self, search).boxed()
    }

    fn remove<'a>(&'a self, search: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        orphans::remove(self, search, orphan).boxed()
    }

    fn capacity<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Option<Capacity>, Error>> {
        self.offered(request).boxed()
    }
}

/// A spec, or what is left of one, in its type.
fn spec_of(value: &Value) -> Result<OpenStackSpec, Error> {
    let read = read::read::<OpenStackSpec>(value).map(|read| read.spec);
    read.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))
}
