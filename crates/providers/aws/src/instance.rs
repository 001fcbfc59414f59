//! The `Provider` port on EC2.
//!
//! Instances are found by tags that are written in the same call that makes them. A creation carries the intent's token, so
//! AWS itself sees to it that repeating one makes no second instance.

mod balancers;
mod capacity;
mod convert;
mod hosts;
mod launch;
mod lookup;
mod memory;
mod orphans;
mod resolve;
mod tags;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Marked, PowerWish, Provider, Request, Search, Secrets,
    SpecRules, State,
};
use machine::spec::read;
use serde_json::Value;

use crate::Settings;
use crate::client::Client;
use crate::client::accounts::Accounts;
use crate::ec2::wire;
use crate::spec::{AwsSpec, Rules};
use memory::Memory;

/// A new instance shows in lists within seconds; AWS promises nothing, and upstream has seen longer than twenty.
const SETTLING: SignedDuration = SignedDuration::from_secs(60);

/// EC2, for all accounts and regions that the Machines of a cluster name.
pub struct Aws {
    accounts: Accounts,
    memory: Memory,
}

impl Aws {
    /// Fails when the system's or the cluster's certificate authorities cannot be read.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Self { accounts: Accounts::new(settings)?, memory: Memory::default() })
    }

    async fn client(&self, spec: &AwsSpec, secrets: &Secrets) -> Result<Arc<Client>, Error> {
        self.accounts.client(spec, secrets).await
    }

    /// The machine's view of an instance.
    async fn seen(&self, client: &Client, spec: &AwsSpec, instance: &wire::Instance) -> Instance {
        let domains = self.memory.domains(client, &instance.vpc_id).await;
        convert::instance(instance, client.region(), &domains, hosts::is_dynamic(spec))
    }

    /// The machine's instances that are not terminated, straight from AWS.
    async fn living(&self, client: &Client, request: &Request) -> Result<Vec<wire::Instance>, Error> {
        let requests = [request];
        let mut found = lookup::find(client, &requests).await?;
        let found = found.pop().unwrap_or_default();
        Ok(found.into_iter().filter(|instance| !lookup::is_terminated(instance)).collect())
    }

    async fn updated(&self, request: &Request, instance: &Instance) -> Result<Instance, Error> {
        let spec = spec_of(&request.spec)?;
        let client = self.client(&spec, &request.secrets).await?;
        let id = convert::instance_id(instance.provider_id.as_deref());
        let id = id.ok_or_else(|| Error::new(ErrorKind::Other, "the instance has no id yet"))?;
        let mut found = match self.memory.recall(id) {
            Some(found) => found,
            None => lookup::by_id(&client, id).await?,
        };
        let missing = tags::missing(&found.tags, &tags::wanted(&spec, &request.mark, self.accounts.settings()));
        if !missing.is_empty() {
            let result = client.create_tags(&found.instance_id, &missing).await;
            result.map_err(|fault| fault.error("cannot write the tags of the instance"))?;
            tags::add(&mut found.tags, &missing);
            self.memory.remember(&found);
        }
        if found.instance_state.name == "running" {
            balancers::register(&client, &spec.load_balancers, &found).await?;
        }
        Ok(self.seen(&client, &spec, &found).await)
    }

    async fn deleted(&self, request: &Request) -> Result<Deletion, Error> {
        let spec = spec_of(&request.spec)?;
        let client = self.client(&spec, &request.secrets).await?;
        let living = self.living(&client, request).await?;
        for instance in &living {
            balancers::deregister(&client, &spec.load_balancers, instance).await?;
            self.memory.forget(&instance.instance_id);
        }
        let leaving = |instance: &&wire::Instance| instance.instance_state.name != "shutting-down";
        let ids: Vec<&str> = living.iter().filter(leaving).map(|instance| instance.instance_id.as_str()).collect();
        if !ids.is_empty() {
            match client.terminate_instances(&ids).await {
                Err(fault) if fault.is_not_found() => {}
                result => result.map_err(|fault| fault.error("cannot terminate the instance"))?,
            }
        }
        if !living.is_empty() {
            return Ok(Deletion::Requested);
        }
        // A host can be given back only when nothing runs on it.
        let hosts_left = hosts::is_dynamic(&spec) && hosts::release(&client, &request.mark).await?;
        Ok(if hosts_left { Deletion::Requested } else { Deletion::Gone })
    }

    async fn switched(&self, request: &Request, wish: PowerWish) -> Result<(), Error> {
        let spec = spec_of(&request.spec)?;
        let client = self.client(&spec, &request.secrets).await?;
        let living = self.living(&client, request).await?;
        let Some(instance) = living.first() else {
            return Err(Error::new(ErrorKind::NotFound, "there is no instance to switch"));
        };
        let result = match wish {
            PowerWish::On => client.start_instance(&instance.instance_id).await,
            PowerWish::Off => client.stop_instance(&instance.instance_id).await,
            PowerWish::Cycle => client.reboot_instance(&instance.instance_id).await,
        };
        result.map_err(|fault| fault.error("cannot switch the power of the instance"))
    }
}

impl Provider for Aws {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn rules(&self) -> &dyn SpecRules {
        &Rules
    }

    fn settling_time(&self) -> SignedDuration {
        SETTLING
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        lookup::instances(self, requests).boxed()
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        launch::create(self, request, intent).boxed()
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
        capacity::capacity(self, request).boxed()
    }
}

/// A spec, or what is left of one, in its type.
fn spec_of(value: &Value) -> Result<AwsSpec, Error> {
    let read = read::read::<AwsSpec>(value).map(|read| read.spec);
    read.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))
}

/// An instance that AWS let go before it ran.
fn failed(instance: Option<Instance>, error: Error) -> Instance {
    Instance { state: State::Failed(error), ..instance.unwrap_or_default() }
}
