//! Finds the virtual machines of many Machines with few calls: those of a whole datacenter come in pages of hundreds.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use machine::provider::{Error, Instance, Request, State};

use super::{Site, Vsphere, convert, spec_of};
use crate::client::property::Object;
use crate::client::task::{self, Outcome};
use crate::client::{Client, Fault, Reference};
use crate::mark::{KEY, Label, Stage, instance_uuid};
use crate::xml::Element;

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vm {
    pub(crate) reference: Reference,
    pub(crate) name: String,
    pub(crate) parent: Option<Reference>,
    /// The BIOS UUID, which its node knows too. A clone under way has none yet.
    pub(crate) uuid: Option<String>,
    pub(crate) instance_uuid: Option<String>,
    pub(crate) is_template: bool,
    pub(crate) power: String,
    pub(crate) label: Option<Label>,
    pub(crate) addresses: Vec<String>,
}

impl Vm {
    fn read(object: &Object) -> Self {
        let text = |path| object.text(path).map(str::to_owned);
        let label = object.get(&mark_path()).and_then(|option| option.text_at(&["value"])).and_then(Label::parse);
        Self {
            reference: object.reference.clone(),
            name: text("name").unwrap_or_default(),
            parent: object.reference("parent"),
            uuid: text("config.uuid").map(|uuid| uuid.to_lowercase()),
            instance_uuid: text("config.instanceUuid").map(|uuid| uuid.to_lowercase()),
            is_template: object.text("config.template") == Some("true"),
            power: text("runtime.powerState").unwrap_or_default(),
            label,
            addresses: Vec::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.power == "poweredOn"
    }

    /// Whether a creation has not been finished yet.
    pub(crate) fn is_half_made(&self) -> bool {
        let is_making = self.label.as_ref().is_some_and(|label| label.stage == Stage::Making);
        is_making && !self.is_on()
    }
}

fn mark_path() -> String {
    format!("config.extraConfig[\"{KEY}\"]")
}

/// One answer for each request, in order.
pub(super) async fn instances(vsphere: &Vsphere, requests: &[Request]) -> Vec<Result<Vec<Instance>, Error>> {
    let mut answers: Vec<_> = requests.iter().map(|_| Ok(Vec::new())).collect();
    let mut groups: Vec<(Arc<Client>, String, Vec<usize>)> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let client = spec_of(&request.spec).and_then(|spec| {
            let datacenter = spec.workspace.as_ref().map(|workspace| workspace.datacenter.clone()).unwrap_or_default();
            Ok((vsphere.accounts.client(&spec, &request.secrets)?, datacenter))
        });
        match client {
            Ok((client, datacenter)) => {
                let known =
                    groups.iter_mut().find(|(other, name, _)| Arc::ptr_eq(other, &client) && *name == datacenter);
                match known {
                    Some((_, _, members)) => members.push(index),
                    None => groups.push((client, datacenter, vec![index])),
                }
            }
            Err(error) => answers[index] = Err(error),
        }
    }
    let looked = join_all(groups.iter().map(|(_, _, members)| look(vsphere, requests, members))).await;
    for (index, answer) in looked.into_iter().flatten() {
        answers[index] = answer;
    }
    answers
}

type Answer = (usize, Result<Vec<Instance>, Error>);

/// Looks at the machines of one datacenter.
async fn look(vsphere: &Vsphere, requests: &[Request], members: &[usize]) -> Vec<Answer> {
    let asked: Vec<&Request> = members.iter().map(|index| &requests[*index]).collect();
    match look_at(vsphere, &asked).await {
        Ok(shown) => members.iter().copied().zip(shown).collect(),
        Err(error) => members.iter().map(|index| (*index, Err(error.clone()))).collect(),
    }
}

async fn look_at(vsphere: &Vsphere, asked: &[&Request]) -> Result<Vec<Result<Vec<Instance>, Error>>, Error> {
    let Some(first) = asked.first() else { return Ok(Vec::new()) };
    let site = vsphere.site(&spec_of(&first.spec)?, &first.secrets).await?;
    let mut found = find(&site, asked).await?;
    add_addresses(&site.client, &mut found).await?;
    let half_made = asked.iter().zip(&found).filter(|(_, vms)| vms.iter().all(Vm::is_half_made));
    let tasks: Vec<Reference> = half_made.filter_map(|(request, _)| recorded_task(request)).collect();
    let outcomes = site.client.outcomes(&tasks).await;
    let outcomes = outcomes.map_err(|fault| fault.error("cannot look at the recorded tasks"))?;
    Ok(asked.iter().zip(found).map(|(request, vms)| show(vsphere, &outcomes, request, vms)).collect())
}

/// The machines of one request as instances. What is half made is for `create` to finish, so it is no instance yet, unless
/// vCenter is still at it.
fn show(
    vsphere: &Vsphere,
    outcomes: &HashMap<Reference, Outcome>,
    request: &Request,
    vms: Vec<Vm>,
) -> Result<Vec<Instance>, Error> {
    let workspace = spec_of(&request.spec)?.workspace.unwrap_or_default();
    let is_half_made = vms.iter().all(Vm::is_half_made);
    if !is_half_made {
        let whole = vms.iter().filter(|vm| !vm.is_half_made());
        let seen = whole.inspect(|vm| vsphere.seen.remember(&request.mark.uid, vm));
        return Ok(seen.map(|vm| vsphere.shown(&workspace, vm)).collect());
    }
    vsphere.seen.forget(&request.mark.uid);
    let Some(task) = recorded_task(request) else { return Ok(Vec::new()) };
    Ok(match outcomes.get(&task) {
        Some(Outcome::Running) => vec![convert::under_way(&task, request)],
        // Of a machine that is there, another task has failed, and it is tried again.
        Some(Outcome::Failed(fault)) if vms.is_empty() => {
            let error = fault.error("vCenter could not clone the template");
            vec![Instance { state: State::Failed(error), ..convert::under_way(&task, request) }]
        }
        Some(Outcome::Failed(_) | Outcome::Done(_) | Outcome::Forgotten) | None => Vec::new(),
    })
}

/// The task of the present attempt, as the Machine's status has it.
pub(super) fn recorded_task(request: &Request) -> Option<Reference> {
    let status = request.provider_status.as_ref()?;
    let attempt = request.intent.as_ref().map(|intent| intent.attempt);
    let is_present = status["attempt"].as_u64().is_none_or(|of| attempt.is_none_or(|now| u64::from(now) == of));
    let name = status["taskRef"].as_str().filter(|name| !name.is_empty() && is_present)?;
    Some(task::named(name))
}

/// The machines of each request, half-made ones among them. All requests are of one datacenter.
pub(super) async fn find(site: &Site, requests: &[&Request]) -> Result<Vec<Vec<Vm>>, Error> {
    let all = list(site).await?;
    let of = |request: &&Request| all.iter().filter(|vm| belongs(vm, request)).cloned().collect();
    Ok(requests.iter().map(of).collect())
}

/// Every virtual machine of a datacenter.
pub(super) async fn list(site: &Site) -> Result<Vec<Vm>, Error> {
    let mark = mark_path();
    let paths = [
        "name",
        "parent",
        "config.uuid",
        "config.instanceUuid",
        "config.template",
        "runtime.powerState",
        mark.as_str(),
    ];
    let found = site.client.below(&site.datacenter.reference, &[("VirtualMachine", &paths)]).await;
    let found = found.map_err(|fault| fault.error("cannot list virtual machines"))?;
    Ok(found.iter().map(Vm::read).collect())
}

pub(super) async fn by_reference(client: &Client, reference: &Reference) -> Result<Option<Vm>, Error> {
    let mark = mark_path();
    let paths = [
        "name",
        "parent",
        "config.uuid",
        "config.instanceUuid",
        "config.template",
        "runtime.powerState",
        mark.as_str(),
    ];
    let found =
        client.of(reference, &paths).await.map_err(|fault| fault.error("cannot look at the virtual machine"))?;
    Ok(found.as_ref().map(Vm::read))
}

/// Adds what the guests say of their networks.
async fn add_addresses(client: &Client, found: &mut [Vec<Vm>]) -> Result<(), Error> {
    let on: Vec<Reference> = found.iter().flatten().filter(|vm| vm.is_on()).map(|vm| vm.reference.clone()).collect();
    let nets = match client.properties(&on, &["guest.net"]).await {
        // One has gone since it was listed; the next look shows which.
        Err(fault) if fault.is_gone() => return Err(fault.error("a virtual machine went away while it was looked at")),
        nets => nets.map_err(|fault: Fault| fault.error("cannot look at the addresses of virtual machines"))?,
    };
    let nets: HashMap<&Reference, Vec<String>> =
        nets.iter().map(|object| (&object.reference, addresses(object))).collect();
    for vm in found.iter_mut().flatten() {
        vm.addresses = nets.get(&vm.reference).cloned().unwrap_or_default();
    }
    Ok(())
}

/// Addresses of real networks: containers on the machine have networks too, which vSphere does not know, and link-local
/// addresses lead nowhere.
fn addresses(object: &Object) -> Vec<String> {
    let cards = object.get("guest.net").map(Element::children).unwrap_or_default();
    let of_vsphere = cards.iter().filter(|card| card.text_at(&["deviceConfigId"]).is_none_or(|id| id != "-1"));
    let all = of_vsphere.flat_map(|card| card.all("ipAddress").map(|address| address.text().to_owned()));
    let mut addresses: Vec<String> = Vec::new();
    for address in all {
        let is_local = address.to_lowercase().starts_with("fe80:") || address.starts_with("169.254.");
        if !address.is_empty() && !is_local && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// The mark decides, and of it only the uid: labels of a Machine may be edited or lost. A machine without a mark is the
/// Machine's if it has the Machine's uid, which OpenShift's controller gives to its machines, or if the Machine knows it by
/// its id. A name is no proof: somebody may have a machine of that name, which must not go when the Machine goes.
pub(super) fn belongs(vm: &Vm, request: &Request) -> bool {
    if vm.is_template {
        return false;
    }
    match &vm.label {
        Some(label) => label.mark.uid == request.mark.uid,
        None => {
            let uuid = instance_uuid(&request.mark.uid).to_string();
            let known = convert::uuid(request.provider_id.as_deref());
            vm.instance_uuid.as_deref() == Some(uuid.as_str()) || (known.is_some() && vm.uuid == known)
        }
    }
}
