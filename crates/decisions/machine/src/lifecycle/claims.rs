//! An instance belongs to exactly one Machine.
//!
//! While two Machines claim one provider ID, the provider is called for neither, and both say so. The better claim is that of
//! the Machine whose record says that it asked for an instance, then that of the older one. Deleting the other lets go of the
//! instance without touching it or its node. The one with the better claim never lets go while another claims its instance:
//! the instance carries its mark, so no other Machine could remove it.

use api::machine::{Machine, condition as types, severity};
use jiff::Timestamp;

use super::report::{CLAIMED_TWICE, Report};
use super::{Action, Plan, Record, Snapshot, Waiting, has_finalizer, removal};
use crate::condition;

/// Another Machine with the same provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// `namespace/name`.
    pub name: String,
    pub deleting: bool,
    pub standing: Standing,
}

/// How good a claim is; the smallest is the best. Creation times are whole seconds, so the uid settles what they leave open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    is_without_record: bool,
    created: Option<Timestamp>,
    uid: String,
}

impl Standing {
    fn of(machine: &Machine) -> Self {
        Self {
            is_without_record: Record::of(machine).is_none(),
            created: machine.metadata.creation_timestamp.as_ref().map(|time| time.0),
            uid: machine.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

impl Rival {
    /// What `other` is to `machine`, if both claim one instance.
    pub fn between(machine: &Machine, other: &Machine) -> Option<Self> {
        let [mine, theirs] = [machine, other].map(|it| it.spec.provider_id.as_deref().unwrap_or_default());
        let is_same = machine.metadata.uid == other.metadata.uid
            && machine.metadata.name == other.metadata.name
            && machine.metadata.namespace == other.metadata.namespace;
        if mine.is_empty() || mine != theirs || is_same || has_let_go(other) {
            return None;
        }
        Some(Self {
            name: full_name(other),
            deleting: other.metadata.deletion_timestamp.is_some(),
            standing: Standing::of(other),
        })
    }
}

/// Whether a Machine is done with its instance, and only the finalizer of somebody else keeps the object.
fn has_let_go(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some() && !has_finalizer(machine)
}

fn full_name(machine: &Machine) -> String {
    let [namespace, name] = [&machine.metadata.namespace, &machine.metadata.name].map(|part| part.as_deref());
    format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
}

/// Both Machines say what is wrong, and wait for a person.
pub(super) fn plan(snapshot: &Snapshot) -> Plan {
    let mut report = Report::new(snapshot);
    let others = tell(snapshot, &mut report);
    Plan::wait(Vec::new(), report.finish(), Waiting::Claimed(others))
}

/// Lets go of a contested instance. The Machine with the best claim outlives the others and removes it.
pub(super) fn plan_removal(snapshot: &Snapshot, mut report: Report) -> Plan {
    let others = tell(snapshot, &mut report);
    let mine = Standing::of(&snapshot.machine);
    if snapshot.rivals.iter().all(|rival| mine < rival.standing) {
        return Plan::wait(Vec::new(), report.finish(), Waiting::Claimed(others));
    }
    let event = Action::Event {
        warning: true,
        reason: "InstanceKept".to_owned(),
        message: format!("The instance was left alone, because {} claims it too", others.join(", ")),
    };
    removal::let_go(vec![event], report)
}

fn tell(snapshot: &Snapshot, report: &mut Report) -> Vec<String> {
    let mut others: Vec<_> = snapshot.rivals.iter().map(|rival| rival.name.clone()).collect();
    others.sort_unstable();
    let id = snapshot.machine.spec.provider_id.as_deref().unwrap_or_default();
    report.set(condition::is_false(
        types::INSTANCE_UNIQUE,
        severity::ERROR,
        CLAIMED_TWICE,
        format!(
            "spec.providerID {id} is also claimed by {}; the provider is not called until one of them lets go",
            others.join(", ")
        ),
    ));
    others
}
