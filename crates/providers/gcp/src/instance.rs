//! The `Provider` port on Google Compute Engine.
//!
//! Google accepts a creation and says later, in an operation, whether it can be done; an instance that could not be made is
//! simply not there. The name of the operation is therefore kept in the Machine's status, with the attempt that it belongs
//! to. Names of instances are unique in a zone and follow from the Machine, so that repeating a creation never makes two.

mod balancers;
mod body;
mod convert;
mod create;
mod delete;
mod lookup;
mod operation;
mod orphans;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Marked, PowerWish, Provider, Request, Search, Secrets,
    SpecRules,
};
use machine::spec::read;
use serde_json::Value;

use crate::client::Client;
use crate::client::accounts::Accounts;
use crate::settings::Settings;
use crate::spec::{GcpSpec, Rules};

/// Google, in all projects that the Machines of a cluster name.
pub struct Gcp {
    accounts: Accounts,
}

/// Where a spec's instance is, or is to be.
struct Site {
    client: Arc<Client>,
    project: String,
    region: String,
    zone: String,
}

impl Site {
    fn zonal(&self, rest: &str) -> String {
        format!("projects/{}/zones/{}/{rest}", self.project, self.zone)
    }

    fn regional(&self, rest: &str) -> String {
        format!("projects/{}/regions/{}/{rest}", self.project, self.region)
    }

    fn instance(&self, name: &str) -> String {
        self.zonal(&format!("instances/{name}"))
    }
}

impl Gcp {
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Self { accounts: Accounts::new(settings)? })
    }

    fn site(&self, spec: &GcpSpec, secrets: &Secrets) -> Result<Site, Error> {
        let client = self.accounts.client(spec, secrets)?;
        let named = [&spec.project_id, &self.accounts.settings().project, &client.project];
        let project = named.into_iter().find(|project| !project.is_empty()).cloned().unwrap_or_default();
        let site = Site { project, region: spec.region.clone(), zone: spec.zone.clone(), client };
        for (field, value) in [("projectID", &site.project), ("region", &site.region), ("zone", &site.zone)] {
            if !is_name(value) {
                let message =
                    format!("providerSpec.{field}: {value:?} is no name of Google's; it becomes part of addresses");
                return Err(Error::new(ErrorKind::InvalidSpec, message));
            }
        }
        Ok(site)
    }

    async fn updated(&self, request: &Request, instance: &Instance) -> Result<Instance, Error> {
        let spec = spec_of(&request.spec)?;
        if instance.provider_id.is_none() || !request.control_plane {
            return Ok(instance.clone());
        }
        let site = self.site(&spec, &request.secrets)?;
        if instance.state == machine::provider::State::Running {
            balancers::register(&site, &spec, &request.mark.machine).await?;
        }
        Ok(instance.clone())
    }

    async fn switched(&self, request: &Request, wish: PowerWish) -> Result<(), Error> {
        let site = self.site(&spec_of(&request.spec)?, &request.secrets)?;
        let word = match wish {
            PowerWish::On => "start",
            PowerWish::Off => "stop",
            PowerWish::Cycle => "reset",
        };
        let path = format!("{}/{word}", site.instance(&request.mark.machine));
        let done = site.client.post(&path, &[], None).await;
        done.map(|_| ()).map_err(|fault| fault.error("cannot switch the power of the instance"))
    }

    /// Google's catalogue knows what a type offers.
    async fn offer(&self, request: &Request) -> Result<Option<Capacity>, Error> {
        let spec = spec_of(&request.spec)?;
        let site = self.site(&spec, &request.secrets)?;
        let found = site.client.find(&site.zonal(&format!("machineTypes/{}", spec.machine_type))).await;
        let found = found.map_err(|fault| fault.error("cannot look at the machine type"))?;
        Ok(found.map(|found| Capacity {
            cpus: found["guestCpus"].as_u64().unwrap_or_default(),
            memory_mib: found["memoryMb"].as_u64().unwrap_or_default(),
            gpus: Some(spec.gpus.iter().filter_map(|gpu| u64::try_from(gpu.count).ok()).sum()),
            ..Capacity::default()
        }))
    }
}

impl Provider for Gcp {
    fn name(&self) -> &'static str {
        "gcp"
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
        delete::delete(self, request).boxed()
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
        self.offer(request).boxed()
    }
}

/// A spec, or what is left of one, in its type.
fn spec_of(value: &Value) -> Result<GcpSpec, Error> {
    let read = read::read::<GcpSpec>(value).map(|read| read.spec);
    read.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))
}

/// Names become parts of addresses, so nothing else may be in them. Projects of old organizations have a colon and dots.
fn is_name(name: &str) -> bool {
    let is_good =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '-' | ':' | '.');
    !name.is_empty() && name.len() <= 100 && name.chars().all(is_good)
}
