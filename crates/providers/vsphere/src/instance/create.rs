//! Makes a virtual machine, or finishes making it.

use machine::provider::{Error, ErrorKind, Instance, Intent, Request, State};
use tokio::time::Instant;

use super::lookup::{self, Vm};
use super::{Site, Vsphere, clone, convert};
use crate::client::inventory::{Inventory, Sought};
use crate::client::task::Outcome;
use crate::client::{Client, Fault, Reference};
use crate::mark::{KEY, Label, Stage};
use crate::spec::{self, VsphereSpec};
use crate::xml::{Element, leaf, node};

/// vCenter takes no longer names.
const LONGEST_NAME: usize = 80;

pub(super) async fn create(vsphere: &Vsphere, request: &Request, intent: &Intent) -> Result<Instance, Error> {
    let spec =
        spec::usable(&request.spec).map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))?;
    if request.mark.machine.len() > LONGEST_NAME {
        let message = format!("vCenter takes names of up to {LONGEST_NAME} characters; give the Machine a shorter one");
        return Err(Error::new(ErrorKind::InvalidSpec, message));
    }
    let site = vsphere.site(&spec, &request.secrets).await?;
    let known = lookup::list(&site).await?;
    let found = match ours(&known, request) {
        Some(vm) => Some(vm),
        None => match cloned(vsphere, &site, &spec, request, intent, &known).await? {
            Clone::Vm(vm) => Some(*vm),
            Clone::UnderWay(instance) => return Ok(*instance),
        },
    };
    let Some(vm) = found else {
        return Err(Error::new(ErrorKind::Other, "the virtual machine was cloned and is gone"));
    };
    vsphere.seen.forget(&request.mark.uid);
    if !vm.is_half_made() {
        return Ok(vsphere.shown(&site.workspace, &vm));
    }
    finish(vsphere, &site, &spec, request, &vm).await
}

fn ours(known: &[Vm], request: &Request) -> Option<Vm> {
    known.iter().find(|vm| lookup::belongs(vm, request)).cloned()
}

/// What a clone has come to.
enum Clone {
    Vm(Box<Vm>),
    UnderWay(Box<Instance>),
}

/// Clones the template, unless that is being done already.
async fn cloned(
    vsphere: &Vsphere,
    site: &Site,
    spec: &VsphereSpec,
    request: &Request,
    intent: &Intent,
    known: &[Vm],
) -> Result<Clone, Error> {
    let under_way = |task: &Reference| Ok(Clone::UnderWay(Box::new(convert::under_way(task, request))));
    if let Some(task) = lookup::recorded_task(request) {
        let outcome =
            site.client.outcome(&task).await.map_err(|fault| fault.error("cannot look at the recorded task"))?;
        match outcome {
            Outcome::Running => return under_way(&task),
            Outcome::Failed(fault) => {
                let error = fault.error("vCenter could not clone the template");
                let failed = Instance { state: State::Failed(error), ..convert::under_way(&task, request) };
                return Ok(Clone::UnderWay(Box::new(failed)));
            }
            Outcome::Done(_) | Outcome::Forgotten => {}
        }
    }
    let ground = clone::ground(vsphere, site, spec, request, known).await?;
    refuse_taken_name(site, &ground.inventory, &ground.folder, request, known)?;
    let label =
        Label { mark: request.mark.clone(), stage: Stage::Making, created: Some(whole_seconds(intent.recorded)) };
    let arguments = clone::arguments(&ground, spec, request, &label)?;
    let doing = "vCenter could not clone the template";
    let task = site.client.start(&ground.template, "CloneVM_Task", arguments).await;
    let task = task.map_err(|fault| fault.error("cannot clone the template"))?;
    let result = match site.await_task(&task).await {
        Ok(None) => return under_way(&task),
        Ok(Some(result)) => result,
        // Another process was faster, or an earlier call whose answer got lost: its clone has the name.
        Err(fault) if fault.is("DuplicateName") => None,
        Err(fault) => return Err(fault.error(doing)),
    };
    let vm = match result {
        Some(reference) => lookup::by_reference(&site.client, &reference).await?,
        None => {
            let known = lookup::list(site).await?;
            match ours(&known, request) {
                Some(vm) => Some(vm),
                None => {
                    refuse_taken_name(site, &ground.inventory, &ground.folder, request, &known)?;
                    return under_way(&task);
                }
            }
        }
    };
    let vm = vm.ok_or_else(|| Error::new(ErrorKind::Other, "the virtual machine was cloned and is gone"))?;
    Ok(Clone::Vm(Box::new(vm)))
}

/// A name that somebody else has in the folder is an error. One without a configuration is being cloned, maybe by us.
fn refuse_taken_name(
    site: &Site,
    inventory: &Inventory,
    folder: &Reference,
    request: &Request,
    known: &[Vm],
) -> Result<(), Error> {
    let is_taken =
        |vm: &&Vm| vm.name == request.mark.machine && vm.parent.as_ref() == Some(folder) && vm.uuid.is_some();
    let Some(other) = known.iter().find(is_taken) else { return Ok(()) };
    let path = if *folder == site.datacenter.vm_folder { "the datacenter" } else { inventory.path(folder) };
    let message = format!(
        "{path} has another virtual machine {} ({}) that does not belong to this Machine; remove it or give the Machine \
         another name",
        other.name, other.reference.value
    );
    Err(Error::new(ErrorKind::Other, message))
}

/// From a clone to a machine that runs. Every step may be repeated.
async fn finish(
    vsphere: &Vsphere,
    site: &Site,
    spec: &VsphereSpec,
    request: &Request,
    vm: &Vm,
) -> Result<Instance, Error> {
    attach_tags(&site.client, &vm.reference, &spec.tag_ids).await?;
    vsphere.seen.remember_tags(&request.mark.uid, &spec.tag_ids);
    if !site.workspace.vm_group.is_empty() {
        join_group(site, &vm.reference).await?;
    }
    let doing = "vCenter could not switch the virtual machine on";
    let task = site.client.start(&vm.reference, "PowerOnVM_Task", Vec::new()).await;
    let task = task.map_err(|fault| fault.error("cannot switch the virtual machine on"))?;
    match site.await_task(&task).await {
        Ok(None) => return Ok(convert::under_way(&task, request)),
        Ok(Some(_)) => {}
        // Another process was faster.
        Err(fault) if fault.is("InvalidPowerState") => {}
        Err(fault) => return Err(fault.error(doing)),
    }
    let created = vm.label.as_ref().and_then(|label| label.created);
    let label = Label { mark: request.mark.clone(), stage: Stage::Made, created };
    write_label(&site.client, &vm.reference, &label, site.until).await?;
    let vm = lookup::by_reference(&site.client, &vm.reference).await?;
    let vm = vm.ok_or_else(|| Error::new(ErrorKind::Other, "the virtual machine was switched on and is gone"))?;
    Ok(vsphere.shown(&site.workspace, &vm))
}

pub(super) async fn attach_tags(client: &Client, vm: &Reference, tags: &[String]) -> Result<(), Error> {
    let attached = client.attach_tags(vm, tags).await;
    attached.map_err(|fault| match fault {
        // A tag may yet be made.
        fault if fault.is("NotFound") => fault.error("cannot attach providerSpec.tagIDs"),
        fault => fault.error("cannot attach the tags of the virtual machine"),
    })
}

/// Writes the mark. The task is not waited for beyond the patience: a mark that comes late is written again.
pub(super) async fn write_label(client: &Client, vm: &Reference, label: &Label, until: Instant) -> Result<(), Error> {
    let spec = node("spec", [option(KEY, &label.text())]);
    let written = async {
        let task = client.start(vm, "ReconfigVM_Task", vec![spec]).await?;
        match client.follow(&task, until).await? {
            Outcome::Failed(fault) => Err(fault),
            Outcome::Running | Outcome::Done(_) | Outcome::Forgotten => Ok(()),
        }
    };
    written.await.map_err(|fault: Fault| fault.error("cannot mark the virtual machine"))
}

/// An entry of the extra configuration.
pub(super) fn option(key: &str, value: &str) -> Element {
    node("extraConfig", [leaf("key", key), leaf("value", value).typed("xsd:string")]).typed("OptionValue")
}

/// Adds the machine to the group that keeps machines on some hosts.
async fn join_group(site: &Site, vm: &Reference) -> Result<(), Error> {
    let field = "providerSpec.workspace.vmGroup";
    let group = &site.workspace.vm_group;
    let cannot = |fault: Fault| fault.error(&format!("cannot use {field}"));
    let inventory = Inventory::load(&site.client, &site.datacenter).await.map_err(cannot)?;
    let pool = inventory.one_or_only(
        Sought::ResourcePool,
        "providerSpec.workspace.resourcePool",
        &site.workspace.resource_pool,
    )?;
    let owner = site.client.of(&pool, &["owner"]).await.map_err(cannot)?;
    let missing = || {
        let message = format!("{field}: the cluster of the resource pool has no group {group:?}");
        Error::new(ErrorKind::NotFound, message)
    };
    let cluster = owner.and_then(|pool| pool.reference("owner")).ok_or_else(missing)?;
    let found = site.client.of(&cluster, &["configurationEx"]).await.map_err(cannot)?;
    let groups = found.as_ref().and_then(|cluster| cluster.get("configurationEx"));
    let members = groups.and_then(|groups| {
        let mut groups = groups.all("group").filter(|it| it.kind() == Some("ClusterVmGroup"));
        groups.find(|it| it.text_at(&["name"]) == Some(group.as_str()))
    });
    let members = members.ok_or_else(missing)?;
    let mut members: Vec<Reference> = members.all("vm").filter_map(Reference::of).collect();
    if members.contains(vm) {
        return Ok(());
    }
    members.push(vm.clone());
    let info = std::iter::once(leaf("name", group)).chain(members.iter().map(|vm| vm.element("vm")));
    let change = node("groupSpec", [leaf("operation", "edit"), node("info", info).typed("ClusterVmGroup")]);
    let arguments = vec![node("spec", [change]).typed("ClusterConfigSpecEx"), leaf("modify", true)];
    site.carry_out(&cluster, "ReconfigureComputeResource_Task", arguments).await.map(|_| ()).map_err(cannot)
}

/// Times are read by people too.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    time.round(jiff::TimestampRound::new().smallest(jiff::Unit::Second)).unwrap_or(time)
}
