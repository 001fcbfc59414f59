//! The `Provider` port on vSphere.
//!
//! A creation clones the template with everything that the machine needs, switched off; then come tags and groups; then it
//! is switched on. Each of these is a task of vCenter, which may outlive the call that started it. The clone carries the
//! Machine's mark from the start and its name is unique in its folder, so that a process which lost a task, or its answer,
//! finds what came of it and goes on from there: a machine that is cloned and was never switched on is no instance yet, and
//! the next creation finishes it.

mod clone;
mod convert;
mod create;
mod delete;
mod devices;
mod first_boot;
mod lookup;
mod orphans;
mod seen;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use machine::provider::{
    Deletion, Error, ErrorKind, Instance, Intent, Marked, PowerWish, Provider, Request, Search, SpecRules,
};
use machine::spec::read;
use serde_json::Value;
use tokio::time::Instant;

use crate::claims::Claims;
use crate::client::accounts::Accounts;
use crate::client::inventory::Datacenter;
use crate::client::task::Outcome;
use crate::client::{Client, Fault, Reference};
use crate::mark::{Label, Stage};
use crate::settings::Settings;
use crate::spec::{Rules, VsphereSpec, Workspace};
use lookup::Vm;
use seen::Seen;

/// The vCenters that the Machines of a cluster name.
pub struct Vsphere {
    accounts: Accounts,
    claims: Arc<dyn Claims>,
    seen: Seen,
}

/// Where a spec's machine is, or is to be.
struct Site {
    client: Arc<Client>,
    datacenter: Datacenter,
    workspace: Workspace,
    /// Until when the calls of this pass watch their tasks.
    until: Instant,
}

impl Vsphere {
    pub fn new(settings: Settings, claims: Arc<dyn Claims>) -> Self {
        Self { accounts: Accounts::new(settings), claims, seen: Seen::default() }
    }

    async fn site(&self, spec: &VsphereSpec, request: &machine::provider::Secrets) -> Result<Site, Error> {
        let client = self.accounts.client(spec, request)?;
        let workspace = spec.workspace.clone().unwrap_or_default();
        let datacenter = client.datacenter(&workspace.datacenter).await?;
        let until = Instant::now() + self.accounts.settings().patience;
        Ok(Site { client, datacenter, workspace, until })
    }

    fn shown(&self, workspace: &Workspace, vm: &Vm) -> Instance {
        convert::instance(vm, self.accounts.settings().domain(workspace))
    }

    async fn updated(&self, request: &Request, instance: &Instance) -> Result<Instance, Error> {
        let spec = spec_of(&request.spec)?;
        // A clone under way has nothing to change, and nobody can see it.
        if instance.provider_id.is_none() {
            return Ok(instance.clone());
        }
        let workspace = spec.workspace.clone().unwrap_or_default();
        let vm = match self.seen.recall(&request.mark.uid) {
            Some(vm) => vm,
            None => {
                let site = self.site(&spec, &request.secrets).await?;
                let found = lookup::find(&site, &[request]).await?.pop().unwrap_or_default().into_iter().next();
                found.ok_or_else(|| Error::new(ErrorKind::NotFound, "the virtual machine is gone"))?
            }
        };
        let is_marked = vm.label.as_ref().is_some_and(|label| label.stage == Stage::Made);
        let has_tags = spec.tag_ids.is_empty() || self.seen.has_tags(&request.mark.uid, &spec.tag_ids);
        if is_marked && has_tags {
            return Ok(self.shown(&workspace, &vm));
        }
        let client = self.accounts.client(&spec, &request.secrets)?;
        if !is_marked {
            // It runs, so it is made; or OpenShift's controller made it, and it has no mark yet.
            let created = vm.label.as_ref().and_then(|label| label.created);
            let label = Label { mark: request.mark.clone(), stage: Stage::Made, created };
            let until = Instant::now() + self.accounts.settings().patience;
            create::write_label(&client, &vm.reference, &label, until).await?;
            self.seen.forget(&request.mark.uid);
        }
        if !has_tags {
            create::attach_tags(&client, &vm.reference, &spec.tag_ids).await?;
            self.seen.remember_tags(&request.mark.uid, &spec.tag_ids);
        }
        Ok(self.shown(&workspace, &vm))
    }

    async fn switched(&self, request: &Request, wish: PowerWish) -> Result<(), Error> {
        let spec = spec_of(&request.spec)?;
        let site = self.site(&spec, &request.secrets).await?;
        let found = lookup::find(&site, &[request]).await?.pop().unwrap_or_default();
        let Some(vm) = found.first() else {
            return Err(Error::new(ErrorKind::NotFound, "there is no virtual machine to switch"));
        };
        self.seen.forget(&request.mark.uid);
        let method = match wish {
            PowerWish::On if vm.is_on() => return Ok(()),
            PowerWish::Off if !vm.is_on() => return Ok(()),
            PowerWish::On => "PowerOnVM_Task",
            PowerWish::Off => "PowerOffVM_Task",
            PowerWish::Cycle => "ResetVM_Task",
        };
        let done = site.carry_out(&vm.reference, method, Vec::new()).await;
        done.map(|_| ()).map_err(|fault| fault.error("cannot switch the power of the virtual machine"))
    }
}

impl Site {
    /// Starts a task and watches it for a while. `None` says that it still runs.
    async fn carry_out(
        &self,
        object: &Reference,
        method: &str,
        arguments: Vec<crate::xml::Element>,
    ) -> Result<Option<Option<Reference>>, Fault> {
        let task = self.client.start(object, method, arguments).await?;
        self.await_task(&task).await
    }

    async fn await_task(&self, task: &Reference) -> Result<Option<Option<Reference>>, Fault> {
        match self.client.follow(task, self.until).await? {
            Outcome::Running => Ok(None),
            Outcome::Done(result) => Ok(Some(result)),
            Outcome::Failed(fault) => Err(fault),
            Outcome::Forgotten => Ok(Some(None)),
        }
    }
}

impl Provider for Vsphere {
    fn name(&self) -> &'static str {
        "vsphere"
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
}

/// A spec, or what is left of one, in its type.
fn spec_of(value: &Value) -> Result<VsphereSpec, Error> {
    let read = read::read::<VsphereSpec>(value).map(|read| read.spec);
    read.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))
}
