//! The `Provider` port on libvirt.
//!
//! A creation defines the domain first, with the Machine's mark and the list of its volumes, then makes the volumes, and
//! starts it last. A process that dies in between leaves a defined domain, which the next creation finishes and a deletion
//! or the sweep removes with all its volumes. Names follow from the mark, so repeating any step repeats it on the same thing.

mod convert;
mod create;
mod delete;
mod lookup;
mod orphans;
mod seen;

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use machine::provider::{
    Deletion, Error, ErrorKind, Instance, Intent, Marked, PowerWish, Provider, Request, Search, SpecRules,
};
use machine::spec::read;
use serde_json::Value;

use crate::client::{Host, Program, Virsh};
use crate::mark::{Label, Stage};
use crate::settings::Settings;
use crate::spec::{LibvirtSpec, Rules, uri};
use seen::Seen;

/// libvirt on all hosts that the Machines of a cluster name.
pub struct Libvirt {
    virsh: Arc<dyn Virsh>,
    settings: Settings,
    seen: Seen,
}

impl Libvirt {
    /// With the `virsh` of this path.
    pub fn new(virsh: &Path, settings: Settings) -> Self {
        let program = Program::new(virsh, settings.patience);
        Self::with(Arc::new(program), settings)
    }

    pub fn with(virsh: Arc<dyn Virsh>, settings: Settings) -> Self {
        Self { virsh, settings, seen: Seen::default() }
    }

    /// The host of a spec, or of what is left of one.
    fn host(&self, spec: &LibvirtSpec) -> Result<Host, Error> {
        // Checked here too: not every Machine has been through the webhook.
        match uri::fault(&spec.uri) {
            Some(fault) => Err(Error::new(ErrorKind::InvalidSpec, format!("providerSpec.uri: {fault}"))),
            None => Ok(Host::new(Arc::clone(&self.virsh), &spec.uri)),
        }
    }

    async fn updated(&self, request: &Request, instance: &Instance) -> Result<Instance, Error> {
        let spec = spec_of(&request.spec)?;
        let host = self.host(&spec)?;
        let uuid = convert::uuid(instance.provider_id.as_deref());
        let uuid = uuid.ok_or_else(|| Error::new(ErrorKind::Other, "the instance has no id yet"))?;
        let domain = match self.seen.recall(&host.uri, uuid) {
            Some(domain) => Some(domain),
            None => lookup::by_id(&host, uuid).await?,
        };
        let Some(mut domain) = domain else {
            return Err(Error::new(ErrorKind::NotFound, format!("domain {uuid} is gone")));
        };
        let label = Label::of(&domain.definition);
        if label.as_ref().is_none_or(|label| label.stage == Stage::Making) {
            // It runs, so it is made; or OpenShift's controller made it, and it has no mark yet.
            let label = label.unwrap_or_else(|| lookup::adopted(&request.mark, &spec));
            let label = Label { stage: Stage::Made, ..label };
            let is_running = convert::is_active(&domain);
            host.label(uuid, &label, is_running).await.map_err(|fault| fault.error("cannot mark the domain"))?;
            self.seen.forget(&host.uri, uuid);
            domain = lookup::by_id(&host, uuid).await?.unwrap_or(domain);
        }
        // A place has no opinion on it.
        if spec.domain_vcpu > 0 && domain.starts_with_host != spec.autostart {
            let set = host.set_autostart(uuid, spec.autostart).await;
            set.map_err(|fault| fault.error("cannot say whether the domain starts with its host"))?;
            domain.starts_with_host = spec.autostart;
        }
        self.seen.remember(&host.uri, &domain);
        Ok(convert::instance(&domain))
    }

    async fn switched(&self, request: &Request, wish: PowerWish) -> Result<(), Error> {
        let host = self.host(&spec_of(&request.spec)?)?;
        let found = lookup::find(&host, &[request]).await?.pop().unwrap_or_default();
        let Some(domain) = found.first() else {
            return Err(Error::new(ErrorKind::NotFound, "there is no domain to switch"));
        };
        let result = match wish {
            PowerWish::On => host.start(domain.uuid).await,
            PowerWish::Off => host.destroy(domain.uuid).await,
            PowerWish::Cycle => host.reset(domain.uuid).await,
        };
        result.map_err(|fault| fault.error("cannot switch the power of the domain"))
    }
}

impl Provider for Libvirt {
    fn name(&self) -> &'static str {
        "libvirt"
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
fn spec_of(value: &Value) -> Result<LibvirtSpec, Error> {
    let read = read::read::<LibvirtSpec>(value).map(|read| read.spec);
    read.map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))
}
