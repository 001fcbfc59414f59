//! Decides the next move for one `Machine`.
//!
//! `plan` performs nothing and remembers nothing. A pass over a Machine may take several rounds: when a plan ends with
//! [`Next::Ask`], the caller carries out the actions, writes the status, makes that one call to the provider, puts the answer
//! into the snapshot and plans again. Every other [`Next`] ends the pass. Whatever a crash interrupts, the next pass starts
//! from the objects and the cloud alone; the intent on the Machine is what makes that safe.

mod claims;
mod creation;
mod facts;
mod record;
mod removal;
mod report;
mod retry;
mod validation;

use std::collections::BTreeMap;
use std::fmt;

use api::machine::{Machine, MachineCondition, MachineStatus, condition as types, phase};
use api::names::MACHINE_FINALIZER;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::condition;
use crate::provider::{Deletion, Error, Instance, Intent, State};

pub use claims::Rival;
pub use record::{Record, request_spec, token};
pub use retry::pause;
pub use validation::{Invalid, provider_spec};

pub(crate) use report::hook_list;

use report::Report;

/// Instances take tens of seconds to change; asking more often only spends the provider's rate limit.
pub const POLL: SignedDuration = SignedDuration::from_secs(30);

/// Some clouds are quicker. What was only just asked for is looked at after this time, and then less and less often.
const FIRST_POLL: SignedDuration = SignedDuration::from_secs(2);

/// Most machines have a node by then. One that has none says so from then on, also where nobody sees its first boot.
const JOINS_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// How much of a machine's own words a condition shows.
const LONGEST_WORDS: usize = 500;

/// Everything that is known about one Machine.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub machine: Machine,
    /// Other Machines that claim the same provider ID.
    pub rivals: Vec<Rival>,
    /// A node whose address other Machines have too.
    pub contested: Option<Contested>,
    pub node: LinkedNode,
    /// The provider's answer to a lookup, once it was asked in this pass or by a batch shortly before.
    pub sighting: Option<Result<Vec<Instance>, Error>>,
    /// When the sighting was made, if that was before this pass. `None` for one that this pass asked for: whoever puts a new
    /// answer into `sighting` has to take this away.
    pub seen: Option<Timestamp>,
    /// When this pass made the call that `sighting` or `answer` tell of. A process may stand still between an answer and its
    /// plan, and what the provider did meanwhile is not in the answer.
    pub asked: Option<Timestamp>,
    /// The answer to the call that the previous plan of this pass asked for.
    pub answer: Option<Answer>,
    pub draft: Draft,
    /// How far the instance's first boot is, as far as anybody saw it.
    pub joining: Option<Joining>,
    /// For how long this process has known that the provider was asked as often as the Machine's record says. The time in the
    /// record is of the clock of whoever led then, which may be hours behind. `None` where nobody counts.
    pub known: Option<SignedDuration>,
    /// How long the provider may take to show a new instance.
    pub settling: SignedDuration,
    pub now: Timestamp,
}

/// A node that is linked to no Machine, because several have its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    pub node: String,
    /// The other Machines, as `namespace/name`.
    pub others: Vec<String>,
}

/// The pure half of an intent, from the provider's rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub children: BTreeMap<String, String>,
    pub place: Value,
}

/// How far a machine without a node has come on its way to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joining {
    /// It has not asked the config server yet.
    NotServed,
    /// It got its config and has not been heard of since.
    Served,
    /// Its first boot failed, in its own words.
    IgnitionFailed(String),
    /// Its kubelet waits for a certificate; the name of the request.
    CertificatePending(String),
    /// It has a certificate, and its kubelet is silent.
    KubeletSilent,
}

impl Joining {
    /// Reason and message of the condition `NodeJoined`.
    fn told(&self) -> (&'static str, String) {
        match self {
            Self::NotServed => ("NotServed", "the machine has not asked the config server for its config".to_owned()),
            Self::Served => ("Served", "the machine got its config and has not been heard of since".to_owned()),
            Self::IgnitionFailed(words) => ("IgnitionFailed", format!("the first boot failed: {}", presentable(words))),
            Self::CertificatePending(request) => {
                ("CertificatePending", format!("certificate signing request {request} waits for approval"))
            }
            Self::KubeletSilent => ("KubeletSilent", "the kubelet has a certificate and does not report".to_owned()),
        }
    }
}

/// What a booting machine said, as far as everybody may read it: addresses lose their queries, which may carry its
/// credential, and no machine writes more than a few lines into a status.
fn presentable(words: &str) -> String {
    let without_query = |word: &str| match word.split_once('?') {
        Some((address, _)) if word.contains("://") => format!("{address}?…"),
        _ => word.to_owned(),
    };
    let words: Vec<_> = words.split_whitespace().map(without_query).collect();
    words.join(" ").chars().take(LONGEST_WORDS).collect()
}

/// The node that `status.nodeRef` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkedNode {
    /// The Machine has no nodeRef.
    #[default]
    Unlinked,
    /// Nodes could not be listed, so nothing follows.
    Unknown,
    Missing,
    Present {
        name: String,
        uid: String,
        /// Its kubelet reports that it is ready, so something runs there.
        ready: bool,
        /// It is open to pods again since the Machine was drained.
        undrained: bool,
    },
}

/// A call to the provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Look,
    Create(Box<Intent>),
    Update(Box<Instance>),
    Delete,
}

/// What a call was answered. A lookup's answer is [`Snapshot::sighting`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Created(Result<Instance, Error>),
    Updated(Result<Instance, Error>),
    Deleted(Result<Deletion, Error>),
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In this order; one that fails ends the pass.
    pub actions: Vec<Action>,
    /// Written after the actions if it differs from what the Machine has.
    pub status: MachineStatus,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    AddFinalizer,
    RemoveFinalizer,
    /// Write the record into the annotation. Must have succeeded before the provider is called.
    RecordIntent(Box<Record>),
    /// Add these to the Machine; other labels and annotations stay.
    Amend(Amendment),
    /// Delete this node and no other of its name.
    DeleteNode {
        name: String,
        uid: String,
    },
    Event {
        warning: bool,
        reason: String,
        message: String,
    },
}

/// Facts of an instance that live outside the Machine's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amendment {
    /// What `spec.providerID` becomes. An empty text says that the Machine has no instance any more.
    pub provider_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Labels for `spec.metadata.labels`, which the node gets.
    pub node_labels: BTreeMap<String, String>,
}

/// How the pass goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Call the provider and plan again with its answer.
    Ask(Call),
    OnChange(Waiting),
    After(SignedDuration, Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// The Machine runs.
    Settled,
    /// A write of this plan comes back as an event.
    OwnWrite,
    Invalid(Invalid),
    /// Other Machines claim the same instance.
    Claimed(Vec<String>),
    /// The Machine has failed for good; only its deletion helps.
    Failed,
    /// A creation was asked for so recently that the instance may not be visible yet.
    Settling,
    /// The provider shows no instance, and the node is Ready or cannot be looked at.
    Missing,
    /// The instance has neither an identity nor an address yet.
    Identity,
    /// The instance has no node yet.
    Node,
    /// The instance goes away.
    Instance,
    Drain,
    PreTerminateHook(Vec<String>),
    /// Others still hold finalizers.
    OtherFinalizers,
    /// Nodes could not be listed.
    Nodes,
    /// The provider refused or failed; it is asked again.
    Provider(Error),
}

/// Decides the next move for one Machine.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let machine = &snapshot.machine;
    if has_finalizer(machine)
        && let Some(record) = Record::from_the_future(machine, snapshot.now)
    {
        let record = Action::RecordIntent(Box::new(record));
        return Plan::wait(vec![record], Report::new(snapshot).unchanged(), Waiting::OwnWrite);
    }
    if machine.metadata.deletion_timestamp.is_some() {
        return removal::plan(snapshot);
    }
    let mut report = Report::new(snapshot);
    // What is wrong with a Machine must not let it go without its instance.
    let may_have_instance = report.was_provisioned() || Record::of(machine).is_some();
    if let Err(problem) = validation::validate(machine)
        && (has_finalizer(machine) || !may_have_instance)
    {
        return invalid(snapshot, problem);
    }
    if !has_finalizer(machine) {
        return Plan::wait(vec![Action::AddFinalizer], report.unchanged(), Waiting::OwnWrite);
    }
    if !snapshot.rivals.is_empty() {
        return claims::plan(snapshot);
    }
    if report.phase() == Some(phase::FAILED) {
        return Plan::wait(Vec::new(), report.unchanged(), Waiting::Failed);
    }
    report.clear(types::VALID);
    report.clear_claim();
    report.contest(snapshot.contested.as_ref());
    match (&snapshot.answer, snapshot.current_sighting()) {
        (Some(Answer::Created(answer)), _) => creation::created(snapshot, report, answer),
        (Some(Answer::Updated(answer)), _) => updated(snapshot, report, answer),
        (Some(Answer::Deleted(answer)), _) => creation::cleaned_up(snapshot, report, answer),
        (None, None) => Plan::ask(Vec::new(), report.unchanged(), Call::Look),
        (None, Some(Err(error))) => unseen(report, error),
        (None, Some(Ok(instances))) => match facts::choose(machine, instances) {
            Some(instance) => found(snapshot, report, instance),
            None => creation::absent(snapshot, report),
        },
    }
}

impl Snapshot {
    /// The sighting, unless the provider was asked for an instance since: then it proves nothing.
    fn current_sighting(&self) -> Option<&Result<Vec<Instance>, Error>> {
        let asked = Record::of(&self.machine).map(|record| record.last_try);
        let is_outdated = self.seen.is_some_and(|seen| asked.is_some_and(|asked| seen <= asked));
        self.sighting.as_ref().filter(|_| !is_outdated)
    }

    /// How long after the last creation was asked for the provider gave its answer, as far as that is certain.
    fn told_after(&self, asked: Timestamp) -> SignedDuration {
        let told = self.told_at();
        let by_record = told.duration_since(asked);
        self.known.map_or(by_record, |known| by_record.min(known - self.now.duration_since(told)))
    }

    /// The time that the provider's answers speak of.
    fn told_at(&self) -> Timestamp {
        self.seen.or(self.asked).unwrap_or(self.now).min(self.now)
    }
}

/// Whether the provider had no capacity or no quota when the instance was to be made.
pub fn is_starved(conditions: &[MachineCondition]) -> bool {
    condition::find(conditions, types::INSTANCE_CREATED)
        .and_then(|condition| condition.reason.as_deref())
        .is_some_and(|reason| matches!(reason, "NoCapacity" | "Quota"))
}

fn has_finalizer(machine: &Machine) -> bool {
    machine.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == MACHINE_FINALIZER)
}

fn invalid(snapshot: &Snapshot, problem: Invalid) -> Plan {
    let mut report = Report::new(snapshot);
    let is_new = report.trouble(types::VALID, "InvalidConfiguration", problem.to_string());
    let event = is_new.then(|| Action::Event {
        warning: true,
        reason: "FailedValidate".to_owned(),
        message: problem.to_string(),
    });
    Plan::wait(event.into_iter().collect(), report.bare(), Waiting::Invalid(problem))
}

/// The cloud could not be asked, so nothing is known and nothing is done.
fn unseen(mut report: Report, error: &Error) -> Plan {
    report.set(condition::is_unknown(
        types::INSTANCE_EXISTS,
        "ErrorCheckingProvider",
        format!("Failed to check if machine exists: {error}"),
    ));
    let delay = retry::after(error, report.lasting(types::INSTANCE_EXISTS));
    Plan::after(Vec::new(), report.finish(), delay, Waiting::Provider(error.clone()))
}

fn found(snapshot: &Snapshot, report: Report, instance: &Instance) -> Plan {
    match &instance.state {
        State::Failed(error) if snapshot.node == LinkedNode::Unlinked => {
            return creation::failed_in_the_cloud(snapshot, report, error);
        }
        // What is left of an attempt that the cloud gave up on is not the Machine's instance any more.
        State::Deleting if creation::gave_up(snapshot, &report) => {
            return Plan::after(Vec::new(), report.finish(), POLL, Waiting::Instance);
        }
        State::Pending | State::Running | State::Stopped | State::Deleting | State::Failed(_) => {}
    }
    Plan::ask(Vec::new(), report.unchanged(), Call::Update(Box::new(instance.clone())))
}

fn updated(snapshot: &Snapshot, mut report: Report, answer: &Result<Instance, Error>) -> Plan {
    match answer {
        Ok(instance) => {
            if let State::Failed(error) = &instance.state {
                let message = format!("the provider has given up on the instance: {error}");
                report.trouble(types::INSTANCE_UPDATED, "InstanceFailed", message);
            } else if Record::of(&snapshot.machine).is_some_and(|record| record.has_moved(&snapshot.draft)) {
                let message = "the spec names another place (region, project or endpoint) than the one in \
                               which the instance was made; the instance stays where it is";
                report.trouble(types::INSTANCE_UPDATED, "PlaceChanged", message.to_owned());
            } else {
                report.clear(types::INSTANCE_UPDATED);
            }
            settle_into(snapshot, report, instance)
        }
        Err(error) => {
            report.trouble(types::INSTANCE_UPDATED, &error.kind.to_string(), error.to_string());
            let delay = error.retry_after().unwrap_or(POLL);
            Plan::after(Vec::new(), report.finish(), delay, Waiting::Provider(error.clone()))
        }
    }
}

/// Takes over what is known of a living instance, and the phase that follows from it.
fn settle_into(snapshot: &Snapshot, mut report: Report, instance: &Instance) -> Plan {
    report.set(condition::is_true(types::INSTANCE_EXISTS));
    report.clear(types::INSTANCE_CREATED);
    report.clear(types::INSTANCE_DELETED);
    let amendment = report.absorb(instance);
    report.several(snapshot.sighting.as_ref());
    let actions: Vec<_> = amendment.map(Action::Amend).into_iter().collect();
    if !report.is_identified(instance) {
        let waited = Record::of(&snapshot.machine).map(|record| snapshot.now.duration_since(record.last_try));
        return Plan::after(actions, report.finish(), poll(waited.unwrap_or(POLL)), Waiting::Identity);
    }
    if snapshot.node == LinkedNode::Unlinked {
        // A Machine that once ran does not begin anew because its link was taken away.
        if report.phase() != Some(phase::RUNNING) {
            report.set_phase(phase::PROVISIONED);
        }
        if let Some(joining) = &snapshot.joining {
            let (reason, message) = joining.told();
            report.trouble(types::NODE_JOINED, reason, message);
        } else if waited(snapshot, &report) > JOINS_WITHIN {
            let message = "no node has registered with the instance's provider ID or address";
            report.trouble(types::NODE_JOINED, "NoNode", message.to_owned());
        }
        return Plan::after(actions, report.finish(), POLL, Waiting::Node);
    }
    report.clear(types::NODE_JOINED);
    report.node(&snapshot.node);
    report.set_phase(phase::RUNNING);
    Plan::wait(actions, report.finish(), Waiting::Settled)
}

/// For how long the instance has been there, as far as that is known. A condition may carry the time of a clock that was ahead.
fn waited(snapshot: &Snapshot, report: &Report) -> SignedDuration {
    let asked = Record::of(&snapshot.machine).map(|record| snapshot.now.duration_since(record.last_try));
    report.lasting(types::INSTANCE_EXISTS).max(asked.unwrap_or_default())
}

/// When to look again at an instance that has been waited for so long.
fn poll(waited: SignedDuration) -> SignedDuration {
    waited.clamp(FIRST_POLL, POLL)
}

impl Plan {
    fn wait(actions: Vec<Action>, status: MachineStatus, waiting: Waiting) -> Self {
        Self { actions, status, next: Next::OnChange(waiting) }
    }

    fn after(actions: Vec<Action>, status: MachineStatus, delay: SignedDuration, waiting: Waiting) -> Self {
        Self { actions, status, next: Next::After(delay.max(SignedDuration::ZERO), waiting) }
    }

    fn ask(actions: Vec<Action>, status: MachineStatus, call: Call) -> Self {
        Self { actions, status, next: Next::Ask(call) }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled => write!(f, "the machine runs"),
            Self::OwnWrite => write!(f, "a change of ours is on its way"),
            Self::Invalid(problem) => write!(f, "{problem}"),
            Self::Claimed(others) => write!(f, "its instance is also claimed by {}", others.join(", ")),
            Self::Failed => write!(f, "the machine has failed; delete it to have it replaced"),
            Self::Settling => write!(f, "the instance was just asked for and may not be visible yet"),
            Self::Missing => {
                write!(f, "the provider shows no instance, and the machine's node is not known to be down")
            }
            Self::Identity => write!(f, "the instance has neither an identity nor an address yet"),
            Self::Node => write!(f, "the instance has no node yet"),
            Self::Instance => write!(f, "the instance is being removed"),
            Self::Drain => write!(f, "the node is being drained"),
            Self::PreTerminateHook(hooks) => write!(f, "held by preTerminate hooks {}", hooks.join(", ")),
            Self::OtherFinalizers => write!(f, "others still hold finalizers"),
            Self::Nodes => write!(f, "nodes could not be listed"),
            Self::Provider(error) => write!(f, "the provider answered: {error}"),
        }
    }
}
