//! Removes a machine and nothing that belongs to others.

use jiff::{SignedDuration, Timestamp};
use machine::provider::{Deletion, Error, Request};

use super::lookup::{self, Vm};
use super::{Site, Vsphere, devices, spec_of};
use crate::client::Fault;
use crate::client::task::{Outcome, Recent};
use crate::spec::CLAIM;
use crate::xml::{Element, node};

/// Clocks of vCenter and ours may differ by as much.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// No deletion waits longer than this for clones that may be anybody's. One that lands later carries the mark of a Machine
/// that is gone, and the search for orphans finds it.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

pub(super) async fn delete(vsphere: &Vsphere, request: &Request) -> Result<Deletion, Error> {
    let spec = spec_of(&request.spec)?;
    let site = vsphere.site(&spec, &request.secrets).await?;
    let found = lookup::find(&site, &[request]).await?.pop().unwrap_or_default();
    vsphere.seen.bury(&request.mark.uid);
    let now = Timestamp::now();
    let span = Span { asked: vsphere.seen.deleting_since(&request.mark.uid, now), now };
    if found.is_empty() && is_being_cloned(&site, request, &span).await? {
        return Ok(Deletion::Requested);
    }
    for vm in &found {
        if remove(&site, vm).await? == Deletion::Requested {
            return Ok(Deletion::Requested);
        }
    }
    // Nobody else gets the addresses before the machine is gone.
    let children = request.intent.iter().flat_map(|intent| &intent.children);
    let claims: Vec<String> =
        children.filter(|(key, _)| key.starts_with(CLAIM)).map(|(_, name)| name.clone()).collect();
    if !claims.is_empty() {
        vsphere.claims.release(&request.mark, &claims).await?;
    }
    vsphere.seen.deleted(&request.mark.uid);
    Ok(Deletion::Gone)
}

/// From the first call that asked for a deletion until now.
struct Span {
    asked: Timestamp,
    now: Timestamp,
}

impl Span {
    /// Whether a task may be the clone that somebody asked for after the intent was recorded and before the deletion. What it
    /// grows from is not compared: vCenter names that otherwise than specs do.
    fn may_hold(&self, task: &Recent, recorded: Timestamp) -> bool {
        let is_in_time = task
            .queued
            .is_none_or(|queued| queued.duration_since(recorded) > -SKEW && queued.duration_since(self.asked) < SKEW);
        let is_clone = task.outcome == Outcome::Running && task.description.starts_with("VirtualMachine.clone");
        is_clone && is_in_time && self.now.duration_since(self.asked) < LONGEST
    }
}

/// Whether a clone may still appear. A clone that we know is asked to end; one whose task nobody wrote down cannot be told
/// from clones of others, so that deletion waits for those that may be the machine's, and no longer than an hour.
async fn is_being_cloned(site: &Site, request: &Request, span: &Span) -> Result<bool, Error> {
    if let Some(task) = lookup::recorded_task(request) {
        let outcome =
            site.client.outcome(&task).await.map_err(|fault| fault.error("cannot look at the recorded task"))?;
        if outcome == Outcome::Running {
            site.client.cancel(&task).await;
        }
        return Ok(outcome == Outcome::Running);
    }
    let Some(intent) = request.intent.as_ref().filter(|_| request.provider_id.is_none()) else { return Ok(false) };
    let recent = site.client.recent_tasks().await.map_err(|fault| fault.error("cannot look at vCenter's tasks"))?;
    Ok(recent.iter().any(|task| span.may_hold(task, intent.recorded)))
}

/// Off, without the volumes of others, and away. Each is a task; what takes longer goes on at the next call.
pub(super) async fn remove(site: &Site, vm: &Vm) -> Result<Deletion, Error> {
    if vm.is_on() {
        match site.carry_out(&vm.reference, "PowerOffVM_Task", Vec::new()).await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Deletion::Requested),
            // Somebody else was faster.
            Err(fault) if fault.is("InvalidPowerState") => {}
            Err(fault) if fault.is_gone() => return Ok(Deletion::Gone),
            Err(fault) => return Err(fault.error("cannot switch the virtual machine off")),
        }
    }
    if !detached(site, vm).await.map_err(|fault| fault.error("cannot detach volumes from the virtual machine"))? {
        return Ok(Deletion::Requested);
    }
    match site.carry_out(&vm.reference, "Destroy_Task", Vec::new()).await {
        Ok(Some(_)) => Ok(Deletion::Gone),
        Ok(None) => Ok(Deletion::Requested),
        Err(fault) if fault.is_gone() => Ok(Deletion::Gone),
        Err(fault) => Err(fault.error("cannot delete the virtual machine")),
    }
}

/// Takes the disks away that are not the machine's own: vCenter would delete them with it. Whether that is done.
async fn detached(site: &Site, vm: &Vm) -> Result<bool, Fault> {
    let paths = ["config.hardware.device", "config.files.vmPathName"];
    let Some(found) = site.client.of(&vm.reference, &paths).await? else { return Ok(true) };
    let home = found.text("config.files.vmPathName").and_then(folder).unwrap_or_default();
    let hardware = found.get("config.hardware.device").map(Element::children).unwrap_or_default();
    let strangers = hardware.iter().filter(|device| devices::is_disk(device) && is_strange(device, &home));
    let changes: Vec<Element> = strangers.map(devices::removal).collect();
    if changes.is_empty() {
        return Ok(true);
    }
    let done = site.carry_out(&vm.reference, "ReconfigVM_Task", vec![node("spec", changes)]).await?;
    Ok(done.is_some())
}

/// A first-class disk is a volume of the cluster, and so is one whose file is not in the machine's own folder.
fn is_strange(disk: &Element, home: &str) -> bool {
    let is_volume = disk.at(&["vDiskId"]).is_some();
    let file = disk.text_at(&["backing", "fileName"]).and_then(folder);
    is_volume || file.is_some_and(|folder| !home.is_empty() && folder != home)
}

/// `[datastore] folder` of `[datastore] folder/file`, without the datastore: disks of one machine may be on several, each in
/// a folder of its name.
fn folder(file: &str) -> Option<String> {
    let path = file.split_once("] ").map_or(file, |(_, path)| path);
    path.rsplit_once('/').map(|(folder, _)| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_waits_for_clones_that_may_be_its_own_and_not_for_ever() {
        let at = |minute: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        let clone = |queued: Option<i64>| Recent {
            description: "VirtualMachine.clone".to_owned(),
            queued: queued.map(at),
            outcome: Outcome::Running,
        };
        // Recorded at minute 100, asked to go at minute 120.
        let waits = |task: &Recent, now: i64| Span { asked: at(120), now: at(now) }.may_hold(task, at(100));
        assert!(waits(&clone(Some(110)), 121));
        assert!(waits(&clone(None), 121), "what is not known is no reason to let go");
        assert!(!waits(&clone(Some(90)), 121), "before the intent");
        assert!(!waits(&clone(Some(126)), 127), "after the deletion was asked for");
        assert!(!waits(&clone(Some(110)), 180), "for an hour");
        let done = Recent { outcome: Outcome::Done(None), ..clone(Some(110)) };
        assert!(!waits(&done, 121));
    }

    #[test]
    fn volumes_are_told_from_the_machines_own_disks() {
        let disk = |file: &str, more: &str| {
            let text = format!("<d><backing><fileName>{file}</fileName></backing>{more}</d>");
            is_strange(&Element::parse(&text).unwrap(), "m-1")
        };
        assert!(!disk("[ds] m-1/m-1.vmdk", ""));
        assert!(!disk("[other] m-1/m-1_1.vmdk", ""), "a data disk elsewhere");
        assert!(disk("[ds] kubevols/pvc-1.vmdk", ""));
        assert!(disk("[ds] fcd/1.vmdk", ""));
        assert!(disk("[ds] m-1/m-1_2.vmdk", "<vDiskId><id>1</id></vDiskId>"));
    }
}
