//! What the planner knows of one node, read from its object once.
//!
//! Annotations are written by daemons and by people, so nothing here can fail: what cannot be read counts as unsaid.

use std::collections::BTreeMap;
use std::fmt;

use api::managed::{self, Writer};
use api::names::cordon;
use api::{annotations, labels, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The facts of one node that rollouts depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    pub name: String,
    pub uid: Option<String>,
    pub resource_version: ResourceVersion,
    pub zone: Option<String>,
    pub created: Option<Timestamp>,
    /// Why workloads cannot be placed here; nothing when they can.
    pub unready: Option<Unready>,
    /// The kubelet does not report that it is ready, whatever else is wrong.
    pub kubelet_down: bool,
    pub current: Option<String>,
    pub desired: Option<String>,
    pub current_image: Option<String>,
    pub desired_image: Option<String>,
    pub state: State,
    pub reason: Option<String>,
    /// A person pinned the node to what it runs; the value says why.
    pub hold: Option<String>,
    /// The person who set the desired config; nobody if a controller or daemon did.
    pub set_by: Option<Writer>,
    /// The desired config of a person that a hold has answered already.
    pub held_config: Option<String>,
    /// The daemon is ours, which can be given a new target while it works.
    pub ours: bool,
    /// The config whose trial was reverted here.
    pub reverted: Option<String>,
    /// What the daemon was last asked to repeat, and what it last repeated. A daemon that knows of probes always says
    /// something.
    pub probe: Option<String>,
    pub answered: Option<String>,
    pub taints: Vec<Taint>,
    pub topology: Option<String>,
    /// What the daemon asks of the drain controller, and what was last carried out.
    pub desired_drain: Option<String>,
    pub last_applied_drain: Option<String>,
    /// Who cordoned the node, and since when it is being drained; the drain controller's own notes.
    pub cordoned_by: Option<String>,
    pub drain_started: Option<Timestamp>,
    pub unschedulable: bool,
    /// The rendered config the node was born with.
    pub first_pivot: Option<String>,
    /// It was given the labels of the custom pool it was born into.
    pub labels_applied: bool,
    pub labels: BTreeMap<String, String>,
    /// How the host updates its operating system, in the word of our daemon.
    pub os_updates: Option<String>,
    pub software: Software,
}

/// What runs on a machine beside the daemon, as its kubelet says. No rule of a rollout looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Software {
    /// For example `v1.33.1+k3s1`.
    pub kubelet: String,
    /// For example `containerd://2.1.0`.
    pub runtime: String,
    pub os_image: String,
    /// kubeadm joined the node to the cluster.
    pub is_kubeadm: bool,
    /// The PinnedImageSets that its daemon is told of.
    pub pinned: Option<String>,
}

/// A resource version. Servers count them up, so that of two versions of nodes the later one can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceVersion {
    pub text: String,
    pub number: u64,
}

/// The first thing that keeps workloads off a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    NotReady(String),
    OutOfDisk(String),
    NetworkUnavailable(String),
    Unschedulable,
}

/// What the daemon says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It never spoke.
    #[default]
    Unreported,
    Done,
    Working,
    Degraded,
    Unreconcilable,
    /// A word that no daemon writes.
    Unknown(String),
}

impl ResourceVersion {
    /// Reads a version. One that is no number is never newer than another.
    pub fn parse(text: &str) -> Self {
        Self { text: text.to_owned(), number: Self::number_of(text) }
    }

    /// The number that a version is, or 0.
    pub(crate) fn number_of(text: &str) -> u64 {
        text.parse().unwrap_or(0)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady(status) => write!(f, "NotReady={status}"),
            Self::OutOfDisk(status) => write!(f, "OutOfDisk={status}"),
            Self::NetworkUnavailable(status) => write!(f, "NetworkUnavailable={status}"),
            Self::Unschedulable => write!(f, "Unschedulable"),
        }
    }
}

impl State {
    fn parse(text: &str) -> Self {
        match text {
            "" => Self::Unreported,
            names::state::DONE => Self::Done,
            // Older daemons wrote `Rebooting` here; it means that they are not finished.
            names::state::WORKING | names::state::REBOOTING => Self::Working,
            names::state::DEGRADED => Self::Degraded,
            names::state::UNRECONCILABLE => Self::Unreconcilable,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreported => "",
            Self::Done => names::state::DONE,
            Self::Working => names::state::WORKING,
            Self::Degraded => names::state::DEGRADED,
            Self::Unreconcilable => names::state::UNRECONCILABLE,
            Self::Unknown(word) => word,
        })
    }
}

/// kubeadm writes it on every node that it joins.
const KUBEADM: &str = "kubeadm.alpha.kubernetes.io/cri-socket";

impl Software {
    fn from_object(node: &Node) -> Self {
        let is_kubeadm = node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(KUBEADM));
        let pinned =
            node.metadata.annotations.as_ref().and_then(|all| all.get(annotations::PINNED_IMAGE_SETS)).cloned();
        let Some(info) = node.status.as_ref().and_then(|status| status.node_info.as_ref()) else {
            return Self { is_kubeadm, pinned, ..Self::default() };
        };
        Self {
            kubelet: info.kubelet_version.clone(),
            runtime: info.container_runtime_version.clone(),
            os_image: info.os_image.clone(),
            is_kubeadm,
            pinned,
        }
    }
}

impl NodeFacts {
    /// Reads a node.
    pub fn from_object(node: &Node) -> Self {
        let metadata = &node.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        let said = |key: &str| annotation(key).filter(|value| !value.is_empty());
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            resource_version: ResourceVersion::parse(metadata.resource_version.as_deref().unwrap_or_default()),
            zone: metadata.labels.as_ref().and_then(|labels| labels.get(labels::ZONE)).cloned(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            unready: unready(node),
            kubelet_down: conditions(node).any(|condition| condition.type_ == "Ready" && condition.status != "True"),
            current: said(annotations::CURRENT_CONFIG),
            desired: said(annotations::DESIRED_CONFIG),
            // An image annotation that is there but empty is a node on its way out of layering.
            current_image: annotation(annotations::CURRENT_IMAGE),
            desired_image: annotation(annotations::DESIRED_IMAGE),
            state: State::parse(annotation(annotations::STATE).as_deref().unwrap_or_default()),
            reason: said(annotations::REASON),
            hold: annotation(annotations::HOLD).filter(|value| value != "false"),
            set_by: set_by(metadata),
            held_config: said(annotations::HELD_CONFIG),
            ours: annotation(annotations::DAEMON).is_some(),
            reverted: said(annotations::REVERTED),
            probe: said(annotations::PROBE),
            answered: annotation(annotations::ANSWERED),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            topology: said(annotations::CONTROL_PLANE_TOPOLOGY),
            desired_drain: said(annotations::DESIRED_DRAIN),
            last_applied_drain: said(annotations::LAST_APPLIED_DRAIN),
            cordoned_by: said(annotations::CORDONED_BY),
            drain_started: said(annotations::DRAIN_STARTED).and_then(|time| time.parse().ok()),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            first_pivot: said(annotations::FIRST_PIVOT_CONFIG),
            labels_applied: annotation(annotations::CUSTOM_POOL_LABELS_APPLIED).is_some(),
            labels: metadata.labels.clone().unwrap_or_default(),
            os_updates: said(annotations::OS_UPDATES),
            software: Software::from_object(node),
        }
    }

    /// Workloads can be placed here.
    pub fn is_serving(&self) -> bool {
        self.unready.is_none()
    }

    /// The machine itself is up, whether or not workloads may be placed on it.
    pub fn is_running(&self) -> bool {
        !self.kubelet_down && !matches!(self.unready, Some(Unready::NotReady(_)))
    }

    /// The node runs what it was asked to run, and its daemon rests.
    pub fn is_done(&self) -> bool {
        self.current.is_some() && self.current == self.desired && self.is_image_done() && self.state == State::Done
    }

    /// The node runs the image that it was asked to run, if any.
    pub fn is_image_done(&self) -> bool {
        match (&self.current_image, &self.desired_image) {
            (None, None) => true,
            (Some(current), Some(desired)) => !desired.is_empty() && current == desired,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The daemon gave up on a change.
    pub fn is_failing(&self) -> bool {
        self.current != self.desired && self.is_degraded()
    }

    /// The daemon reports that something is wrong.
    pub fn is_degraded(&self) -> bool {
        matches!(self.state, State::Degraded | State::Unreconcilable)
    }

    /// The node is down, is being changed, or might be at any moment.
    pub fn is_unavailable(&self) -> bool {
        !self.is_serving() || (!self.is_done() && !self.is_failing())
    }

    /// The node holds a share of the budget, whoever caused that.
    pub fn consumes_budget(&self) -> bool {
        (self.is_unavailable() && !self.is_unattended()) || self.is_failing()
    }

    /// The daemon changes the node, or may begin to at any moment. That is read from everything that was asked of it:
    /// a daemon that failed before keeps saying `Degraded` while it tries again.
    pub fn is_in_motion(&self) -> bool {
        let is_asked = self.desired.is_some() && (self.desired != self.current || !self.is_image_done());
        is_asked || self.state == State::Working || (!self.is_done() && self.has_asked_for_drain())
    }

    /// The daemon works on an emptied node and waits for nobody. One that works without a drain still serves, and what it
    /// is asked next may empty it.
    pub fn is_at_work(&self) -> bool {
        self.state == State::Working && self.has_asked_for_drain() && !self.is_draining()
    }

    /// The daemon works and has not asked for a drain: it changes a node that serves, or is about to ask. One that runs its
    /// target only has to say so.
    pub fn works_undrained(&self) -> bool {
        self.state == State::Working && self.desired != self.current && !self.is_emptied()
    }

    /// The node was asked for a config, and its daemon has not shown yet that it knows.
    pub fn is_unanswered(&self) -> bool {
        let is_asked = self.desired.is_some() && self.desired != self.current;
        is_asked && matches!(self.state, State::Done | State::Unreported) && !self.has_asked_for_drain()
    }

    /// The daemon has not answered the last probe. What is not known to answer probes is silent only while it is down.
    pub fn is_silent(&self, goal: &str) -> bool {
        let has_answered = self.answered.is_some() && self.answered == self.probe;
        if self.is_running() {
            let can_answer = self.ours || self.state == State::Unreported;
            self.probe.is_some() && can_answer && !has_answered && !self.is_in_motion()
        } else {
            !has_answered || !self.was_asked_for(goal)
        }
    }

    /// What the daemon is to repeat to show that it is there. The version makes it another question each time.
    pub fn question(&self, goal: &str) -> String {
        format!("{goal}/{}", self.resource_version)
    }

    /// Whether the last probe was about this goal.
    pub fn was_asked_for(&self, goal: &str) -> bool {
        self.probe.as_deref().and_then(|probe| probe.strip_prefix(goal)).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The node serves, has nothing to do with any config, and nobody looks after it as far as we know.
    fn is_unattended(&self) -> bool {
        self.is_blank() && self.is_serving() && self.probe.is_some() && self.answered != self.probe
    }

    /// The node has no config and is asked for none.
    pub fn is_blank(&self) -> bool {
        self.current.is_none() && self.desired.is_none()
    }

    /// The daemon refused the target, or reverted its trial. It does not try again by itself, and the node, which is not kept
    /// empty, serves until it gets another target.
    pub fn has_given_up(&self) -> bool {
        let is_refused = self.state == State::Unreconcilable;
        let is_reverted = self.is_degraded() && self.reverted.is_some() && self.reverted == self.desired;
        self.waits_for_a_fix() && !self.is_kept_empty() && (is_refused || is_reverted)
    }

    /// The daemon fails at its target, and the node is not kept empty for that. Unless it has given up, it tries again from
    /// time to time. One that asks for a drain, or has had it, is at it again, whoever has lifted its cordon since; a config
    /// is refused before any drain, so of one that refuses such a request is about an earlier one.
    pub fn waits_for_a_fix(&self) -> bool {
        let is_at_it = self.has_asked_for_drain() && self.state != State::Unreconcilable;
        let is_kept = self.unschedulable && self.is_emptied();
        self.is_failing() && !is_kept && !is_at_it
    }

    /// Nothing is asked of the node that it does not run, and its daemon says that it rests or never spoke.
    pub fn is_at_rest(&self) -> bool {
        !self.is_in_motion() && matches!(self.state, State::Done | State::Unreported)
    }

    /// The node was emptied for a change, or is being, and was not given back yet. A cordon that a person made beside that
    /// is no such thing.
    pub fn is_emptied(&self) -> bool {
        let is_cordoned_by_us = self.unschedulable && self.cordoned_by.as_deref() == Some(cordon::MACHINIST);
        let is_begun = self.unschedulable && self.drain_started.is_some();
        self.has_asked_for_drain() || self.is_uncordoning() || is_cordoned_by_us || is_begun
    }

    /// The node was emptied, or has begun to be. One whose daemon only asks for that is not.
    pub fn is_kept_empty(&self) -> bool {
        let is_ours = self.cordoned_by.as_deref() == Some(cordon::MACHINIST);
        let only_asks = self.is_draining() && self.drain_started.is_none() && !is_ours;
        self.is_emptied() && !only_asks
    }

    fn has_asked_for_drain(&self) -> bool {
        self.desired_drain.as_deref().is_some_and(|desired| desired.starts_with("drain-"))
    }

    /// The config that the daemon asks to be emptied for, or was emptied for.
    pub fn drains_for(&self) -> Option<&str> {
        self.desired_drain.as_deref()?.strip_prefix("drain-")
    }

    fn is_uncordoning(&self) -> bool {
        let is_asked = self.desired_drain.as_deref().is_some_and(|desired| desired.starts_with("uncordon-"));
        is_asked && self.desired_drain != self.last_applied_drain
    }

    /// The daemon waits for the drain controller to empty the node.
    pub fn is_draining(&self) -> bool {
        self.has_asked_for_drain() && self.desired_drain != self.last_applied_drain
    }

    /// A daemon that is not ours works on a target and must not get another one.
    pub fn is_foreign_and_working(&self) -> bool {
        !self.ours && self.state == State::Working
    }

    /// A person set the desired config, and nothing has answered that yet.
    pub fn is_hand_set(&self) -> bool {
        self.set_by.is_some() && self.hold.is_none() && self.desired.is_some() && self.desired != self.held_config
    }

    /// The taint that keeps evicted pods from moving to nodes whose turn is still to come.
    pub fn has_update_taint(&self) -> bool {
        self.taints.iter().any(is_update_taint)
    }

    /// This node's taints, with or without the one of updates.
    pub fn taints_with_update(&self, wanted: bool) -> Vec<Taint> {
        let mut taints: Vec<_> = self.taints.iter().filter(|taint| !is_update_taint(taint)).cloned().collect();
        if wanted {
            taints.push(Taint {
                key: labels::TAINT_UPDATE_IN_PROGRESS.to_owned(),
                effect: "PreferNoSchedule".to_owned(),
                ..Taint::default()
            });
        }
        taints
    }
}

/// Controllers and daemons that set a node's desired config in the course of a rollout, ours and upstream's. Anybody else
/// is a person, whatever tool they use. The last one stands for everybody who wrote before the API server kept records.
const CONTROLLERS: [&str; 3] = ["machinist", "machine-config-", "before-first-apply"];

/// The person who set the desired config. What a node was created with is nobody's request.
fn set_by(metadata: &ObjectMeta) -> Option<Writer> {
    let is_controller = |writer: &Writer| CONTROLLERS.iter().any(|prefix| writer.manager.starts_with(prefix));
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut writers = managed::writers(metadata, managed::DESIRED_CONFIG);
    let first = writers.next()?;
    let others: Vec<_> = writers.collect();
    if is_controller(&first) || others.iter().any(is_controller) {
        return None;
    }
    let last = others.into_iter().chain([first]).max_by_key(|writer| writer.at)?;
    (last.at > created).then_some(last)
}

fn is_update_taint(taint: &Taint) -> bool {
    taint.key == labels::TAINT_UPDATE_IN_PROGRESS && taint.effect == "PreferNoSchedule"
}

fn conditions(node: &Node) -> impl Iterator<Item = &NodeCondition> {
    node.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

/// Upstream names the first thing that is wrong, in the order in which the kubelet lists them.
fn unready(node: &Node) -> Option<Unready> {
    for condition in conditions(node) {
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Ready", status) if status != "True" => return Some(Unready::NotReady(status.to_owned())),
            ("DiskPressure", status) if status != "False" => return Some(Unready::OutOfDisk(status.to_owned())),
            ("NetworkUnavailable", status) if status != "False" => {
                return Some(Unready::NetworkUnavailable(status.to_owned()));
            }
            (_, _) => {}
        }
    }
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    unschedulable.then_some(Unready::Unschedulable)
}
