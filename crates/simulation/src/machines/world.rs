//! The true state, and the rules that are checked while something happens to it.

use std::collections::{BTreeMap, BTreeSet};

use api::machine::{Machine, MachineHealthCheck};
use api::selector::Selector;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::api::{Api, Guard, Kept, Refused};
use super::cloud::{CLUSTER, Cloud};
use super::etcd::Members;
use super::hosts::Hosts;
use super::owed::Owed;
use super::{Kind, Violation};
use crate::random::Random;

/// A watch may lag behind by as much, and then a write takes its time.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(180);

/// Who asked for the deletion of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A set that wanted so many machines when this was decided.
    Set(String, i32),
    /// A check that judged the Machine at this version.
    Check(String, Option<String>),
    ControlPlane,
    Person,
}

pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) cloud: Cloud,
    pub(crate) hosts: Hosts,
    /// Single writes to the API go wrong now and then.
    pub(crate) whims: bool,
    pub(crate) etcd: Members,
    /// Machines that checks took away and that are not replaced.
    owed: Owed,
    /// Machines that a check deleted, by uid, until they are gone.
    remediated: BTreeMap<String, String>,
    /// Machines of the control plane that their set deleted, by uid.
    replaced: BTreeSet<String>,
    /// When others than their set deleted Machines, by uid.
    taken: BTreeMap<String, Timestamp>,
    /// Machines that had a node: the node's name and uid by the Machine's uid.
    linked: BTreeMap<String, (String, String)>,
    /// When each of them got it.
    linked_at: BTreeMap<String, Timestamp>,
    /// Which process changed sets of a deployment last, and when.
    deployer: Option<(&'static str, Timestamp)>,
    /// Machines that exist, by uid.
    existing: BTreeSet<String>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let mut world = Self {
            api: Api::default(),
            cloud: Cloud::default(),
            hosts: Hosts::default(),
            whims: false,
            etcd: Members::default(),
            owed: Owed::default(),
            remediated: BTreeMap::new(),
            replaced: BTreeSet::new(),
            taken: BTreeMap::new(),
            linked: BTreeMap::new(),
            linked_at: BTreeMap::new(),
            deployer: None,
            existing: BTreeSet::new(),
            violations: Vec::new(),
            trace: None,
        };
        world.api.now = now;
        world.cloud.now = now;
        world
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.api.now
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        let now = self.api.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} {}", crate::violation::clock(now), what()));
        }
    }

    pub(crate) fn violate(&mut self, kind: Kind, sentence: String) {
        self.tell(|| format!("VIOLATION {sentence} [{kind}]"));
        self.violations.push(Violation { kind, at: self.api.now, sentence });
    }

    /// Lets time pass for everything that is not a controller.
    pub(crate) fn pass_to(&mut self, now: Timestamp) {
        self.api.now = now.max(self.api.now);
        self.cloud.pass(self.api.now);
        self.hosts.live(&mut self.api, &self.cloud);
        self.etcd.live(&self.hosts, &self.cloud);
        self.api.collect_garbage();
        self.look();
    }

    /// When something happens next by itself.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.cloud.next().into_iter().chain(self.hosts.next(self.now())).min()
    }

    /// The rules that hold at every moment.
    fn look(&mut self) {
        self.owed.look(&self.api);
        for uid in std::mem::take(&mut self.cloud.doubles) {
            self.violate(Kind::DoubleCreate, format!("two instances of machine {uid} run at once"));
        }
        let existing: BTreeSet<String> = self.api.all::<Machine>().map(|it| it.uid().to_owned()).collect();
        for machine in self.api.all::<Machine>() {
            if let Some(reference) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) {
                let [name, uid] = [&reference.name, &reference.uid].map(|it| it.clone().unwrap_or_default());
                if self.linked.get(machine.uid()).is_none_or(|(_, known)| *known != uid) {
                    self.linked_at.insert(machine.uid().to_owned(), self.api.now);
                }
                self.linked.insert(machine.uid().to_owned(), (name, uid));
            }
        }
        let gone: Vec<_> = self.linked.keys().filter(|uid| !existing.contains(*uid)).cloned().collect();
        for uid in gone {
            let Some((name, node)) = self.linked.remove(&uid) else { continue };
            let is_left = self.api.get::<Node>(&name).is_some_and(|it| it.uid() == node && !it.is_leaving());
            let is_others = self.linked.values().any(|(_, other)| *other == node);
            if is_left && !is_others {
                self.violate(Kind::GhostNode, format!("node {name} outlives its machine {uid}"));
            }
        }
        self.remediated.retain(|uid, _| existing.contains(uid));
        self.replaced.retain(|uid| existing.contains(uid));
        let before = std::mem::replace(&mut self.existing, existing);
        let gone: Vec<&String> = before.difference(&self.existing).collect();
        let left = self.cloud.entries.values().filter(|it| gone.contains(&&it.mark.uid) && it.was_visible(self.now()));
        let left: Vec<String> =
            left.map(|it| format!("machine {} is gone, and {} runs", it.mark.machine, it.id)).collect();
        for sentence in left {
            self.violate(Kind::Leak, sentence);
        }
    }

    /// A deletion of a Machine arrives at the API server.
    pub(crate) fn delete_machine(&mut self, name: &str, uid: &str, why: &Why) -> Result<(), Refused> {
        let Some(machine) = self.api.get::<Machine>(name).filter(|it| it.uid() == uid).cloned() else {
            return Err(Refused::NotFound);
        };
        let judged = if let Why::Check(_, version) = why { version.clone() } else { None };
        if judged.is_some() && judged != machine.metadata.resource_version {
            return Err(Refused::Conflict);
        }
        let is_news = !machine.is_leaving();
        self.tell(|| format!("{why:?} deletes machine {name}"));
        if is_news {
            match why {
                Why::Check(check, _) => self.judge_remediation(&machine, check),
                Why::ControlPlane => self.judge_replacement(&machine),
                Why::Set(..) | Why::Person => {}
            }
        }
        self.api.delete::<Machine>(name, &Guard { uid: Some(uid.to_owned()), version: None })?;
        if !matches!(why, Why::Set(..)) {
            self.taken.insert(uid.to_owned(), self.api.now);
        } else if is_news && let Why::Set(set, wanted) = why {
            self.judge_shrinking(set, *wanted);
        }
        Ok(())
    }

    fn judge_remediation(&mut self, machine: &Machine, check: &str) {
        let Some(object) = self.api.get::<MachineHealthCheck>(check).cloned() else { return };
        let existing: BTreeSet<String> = self.api.all::<Machine>().map(|it| it.uid().to_owned()).collect();
        self.remediated.retain(|uid, _| existing.contains(uid));
        self.remediated.insert(machine.uid().to_owned(), check.to_owned());
        let total = self.selected(&object).count();
        let busy = self.remediated.values().filter(|by| *by == check).count();
        let limit = (total / 10).max(1);
        if busy > limit {
            self.violate(Kind::Brake, format!("check {check} has {busy} of {total} machines under remediation"));
        }
        let owed = self.owed.take(&self.api, check, machine);
        if owed > limit {
            let sentence = format!("check {check} took {owed} of {total} machines away that are not replaced");
            self.violate(Kind::Unreplaced, sentence);
        }
        if let Some(sentence) = self.is_well(machine, &object) {
            self.violate(Kind::Healthy, sentence);
        }
    }

    /// The Machines of a check.
    fn selected(&self, check: &MachineHealthCheck) -> impl Iterator<Item = &Machine> {
        let selector = check.spec.selector.clone().and_then(|it| Selector::parse(&it).ok());
        self.api.all::<Machine>().map(|it| &**it).filter(move |machine| {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            selector.as_ref().is_none_or(|selector| selector.matches(&labels))
        })
    }

    /// Why a machine that a check deletes was not unhealthy for as long as the check asks. The node's clock is not asked.
    fn is_well(&self, machine: &Machine, check: &MachineHealthCheck) -> Option<String> {
        let status = machine.status.as_ref()?;
        if status.phase.as_deref() == Some("Failed") {
            return None;
        }
        let reference = status.node_ref.as_ref()?;
        let node = self.api.get::<Node>(reference.name.as_deref()?)?;
        if Some(node.uid()) != reference.uid.as_deref() {
            return None;
        }
        let is_known = self.linked.get(machine.uid()).is_some_and(|(_, uid)| uid == node.uid());
        let linked_at = *self.linked_at.get(machine.uid())?;
        if !is_known || self.now().duration_since(linked_at) < TOLERANCE {
            // It was judged by what was known before.
            return None;
        }
        let condition = check.spec.unhealthy_conditions.first()?;
        let timeout = machine::duration::parse_positive(condition.timeout.as_deref()?).ok()?;
        let lasted = |from: Timestamp, to: Timestamp| to.duration_since(from) + SignedDuration::from_secs(2) >= timeout;
        let is_ill = match self.hosts.unready.get(node.uid()) {
            None => false,
            Some(stretch) => {
                let to = stretch.to.unwrap_or_else(|| self.now());
                self.now().duration_since(to) <= TOLERANCE && lasted(stretch.from, to + TOLERANCE.min(timeout / 20))
            }
        };
        (!is_ill).then(|| format!("node {} of machine {} was not unwell for {timeout:#}", node.name(), machine.name()))
    }

    fn judge_replacement(&mut self, machine: &Machine) {
        let existing: BTreeSet<String> = self.api.all::<Machine>().map(|it| it.uid().to_owned()).collect();
        self.replaced.retain(|uid| existing.contains(uid));
        self.replaced.insert(machine.uid().to_owned());
        if self.replaced.len() > 1 {
            let leaving = self.replaced.len();
            self.violate(Kind::ControlPlane, format!("{leaving} machines of the control plane are taken away at once"));
        }
    }

    /// After a set took a Machine away, it must not have less than it wants.
    fn judge_shrinking(&mut self, set: &str, wanted: i32) {
        let Some(set) = self.api.get::<api::machine::MachineSet>(set).cloned() else { return };
        let wanted = usize::try_from(set.spec.replicas.unwrap_or(0).min(wanted)).unwrap_or(0);
        // What somebody else took away a moment ago did not show when this was decided.
        let is_fresh = |uid: &str| self.taken.get(uid).is_some_and(|at| self.now().duration_since(*at) < TOLERANCE);
        let own = self.api.all::<Machine>().filter(|it| it.owner() == Some(set.uid()));
        let kept = own.filter(|it| !it.is_leaving()).count() + self.taken.keys().filter(|uid| is_fresh(uid)).count();
        if kept < wanted {
            let name = set.name().to_owned();
            self.violate(Kind::Overkill, format!("set {name} wants {wanted} machines, and takes away all but {kept}"));
        }
    }

    /// Instances are removed for a Machine. What another Machine has stays, and pods were given time to leave.
    pub(crate) fn judge_removal(&mut self, machine: &Machine, taken: &[String]) {
        for id in taken {
            self.tell(|| format!("{} takes instance {id} away", machine.name()));
            let Some(entry) = self.cloud.entries.get(id) else { continue };
            let owner = entry.mark.machine.clone();
            let is_others = if entry.unmarked { owner != machine.name() } else { entry.mark.uid != machine.uid() };
            if is_others && self.api.get::<Machine>(&owner).is_some() {
                self.violate(Kind::Touched, format!("{} removed instance {id} of {owner}", machine.name()));
            }
            let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
            let host = self.hosts.all.get(id).cloned();
            let is_recent =
                self.linked_at.get(machine.uid()).is_none_or(|at| self.now().duration_since(*at) < TOLERANCE);
            if has_node
                && !is_recent
                && let Some(host) = host.filter(|host| host.pods > 0 && self.is_linked(machine, &host.node))
            {
                let (node, pods) = (&host.node, host.pods);
                self.violate(Kind::Undrained, format!("the instance of node {node} went with {pods} pods"));
            }
        }
    }

    fn is_linked(&self, machine: &Machine, node: &str) -> bool {
        let reference = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        let uid = self.api.get::<Node>(node).map(|node| node.uid().to_owned());
        reference.is_some_and(|reference| reference.name.as_deref() == Some(node) && reference.uid == uid)
    }

    /// Something in the cloud is removed because nobody is said to own it.
    pub(crate) fn remove_orphan(&mut self, id: &str, random: &mut Random) {
        self.tell(|| format!("orphan {id} is removed"));
        let Some(entry) = self.cloud.entries.get(id) else { return };
        let is_owned = self
            .api
            .all::<Machine>()
            .any(|machine| machine.uid() == entry.mark.uid || machine.spec.provider_id.as_deref() == Some(id));
        if is_owned || entry.mark.cluster != CLUSTER || entry.unmarked {
            self.violate(Kind::Touched, format!("instance {id} was removed as an orphan, and is none"));
        }
        self.cloud.take_away(id, random);
    }

    /// Whether no other process than this one has changed the sets of a deployment lately. Two that both believe to lead may
    /// each make as many machines as one of them may: a set is changed under its version, and not all of them together.
    pub(crate) fn is_alone(&mut self, process: &'static str) -> bool {
        let now = self.api.now;
        let other = self.deployer.filter(|(name, at)| *name != process && now.duration_since(*at) < TOLERANCE);
        self.deployer = Some((process, now));
        other.is_none()
    }

    /// Whether a write gets through. `None` if it does; else whether it happened all the same.
    pub(crate) fn whim(&self, random: &mut Random) -> Option<bool> {
        (self.whims && random.once_in(20)).then(|| random.once_in(2))
    }
}
