//! Decides which things in a cloud belong to no Machine any more.
//!
//! A creation may land after its Machine is gone: its caller stalled for minutes, another process led meanwhile, found
//! nothing and let the Machine go. What carries a mark of the cluster and belongs to no Machine is the trace of that.
//!
//! `plan` performs nothing. It never touches what a Machine could still claim, and nothing of other clusters.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::provider::Marked;

/// How old something must be before it is an orphan. A Machine whose creation was just asked for may not have reached the
/// list of Machines yet, and no call to a provider lasts for an hour.
pub const GRACE: SignedDuration = SignedDuration::from_hours(1);

/// Everything that is known about the marked things of one place.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cluster's id in the cloud.
    pub cluster: String,
    /// What [`crate::provider::Provider::marked`] listed, once the list of Machines below was complete.
    pub marked: Vec<Marked>,
    /// Uids and provider IDs of all Machines of all namespaces. `None` if they could not be listed.
    pub machines: Option<Machines>,
    pub now: Timestamp,
}

/// What Machines are recognised by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    pub uids: BTreeSet<String>,
    pub provider_ids: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to remove, in any order: a removal may be repeated.
    pub remove: Vec<Marked>,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    OnChange(Waiting),
    After(SignedDuration, Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Everything belongs to a Machine.
    Settled,
    /// Machines could not be listed.
    Machines,
    /// So many things belong to nobody and are not old enough yet.
    Grace(usize),
    /// Orphans are being removed.
    Removal,
}

/// Decides what is removed.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let Snapshot { cluster, marked, machines, now } = snapshot;
    let nothing = |next| Plan { remove: Vec::new(), next };
    let Some(machines) = machines else { return nothing(Next::OnChange(Waiting::Machines)) };
    let adopted = adopted(marked, machines);
    let is_ownerless = |it: &&Marked| {
        let uid = it.mark.uid.as_str();
        // A mark without a uid was not written by us.
        it.mark.cluster == *cluster && !uid.is_empty() && !machines.uids.contains(uid) && !adopted.contains(uid)
    };
    let ownerless = marked.iter().filter(is_ownerless);
    // Something that does not say its age is never old enough: a person has to look at it.
    let (old, young): (Vec<_>, Vec<_>) = ownerless.partition(|it| age(it, *now).is_some_and(|age| age > GRACE));
    let soonest = young.iter().filter_map(|it| age(it, *now)).map(|age| GRACE - age).min();
    match (old.is_empty(), soonest) {
        (false, _) => {
            let next = Next::After(SignedDuration::from_mins(1), Waiting::Removal);
            Plan { remove: old.into_iter().cloned().collect(), next }
        }
        (true, Some(left)) => nothing(Next::After(left + SignedDuration::from_secs(1), Waiting::Grace(young.len()))),
        (true, None) if young.is_empty() => nothing(Next::OnChange(Waiting::Settled)),
        (true, None) => nothing(Next::OnChange(Waiting::Grace(young.len()))),
    }
}

/// Uids in the marks of instances that a Machine names. A Machine that was restored from a backup has a uid of its own and
/// names its instance; the instance's ports, volumes and hosts have nothing but the old uid, and belong to it all the same.
fn adopted<'a>(marked: &'a [Marked], machines: &Machines) -> BTreeSet<&'a str> {
    let is_named = |it: &&Marked| it.provider_id.as_ref().is_some_and(|id| machines.provider_ids.contains(id));
    marked.iter().filter(is_named).map(|it| it.mark.uid.as_str()).collect()
}

fn age(marked: &Marked, now: Timestamp) -> Option<SignedDuration> {
    marked.created.map(|created| now.duration_since(created))
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled => write!(f, "everything in the cloud belongs to a machine"),
            Self::Machines => write!(f, "machines could not be listed"),
            Self::Grace(count) => write!(f, "{count} things in the cloud belong to no machine and are not old enough"),
            Self::Removal => write!(f, "what belongs to no machine is being removed"),
        }
    }
}
