//! Decides which pods of a node to evict now, which to wait for, and what blocks.
//!
//! Everything is derived from the pods that are there, so a drain can be taken up again by anyone at any time. What the
//! API server answered to earlier evictions only delays the next try.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::known::{Fresh, Reading};
use jiff::{SignedDuration, Timestamp};

use crate::pod::{DisruptionBudget, Owner, PodFacts};

/// How many evictions are asked for at once. Each can start a replacement elsewhere; a node's hundred pods at once
/// would be a wave that the rest of the cluster feels.
pub const AT_ONCE: usize = 16;

/// When a refused eviction is tried again although no budget or pod has changed.
pub const RETRY: SignedDuration = SignedDuration::from_secs(60);

/// An eviction that fails for a reason of its own is tried again soon.
const RETRY_FAILED: SignedDuration = SignedDuration::from_secs(5);

/// A budget that allows it is asked again almost at once.
const RETRY_ALLOWED: SignedDuration = SignedDuration::from_secs(1);

/// What the API server answered to the last eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub at: Timestamp,
    pub cause: Cause,
}

/// Why an eviction was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// 429: a disruption budget has nothing left. The message and the causes of the answer.
    Budget { message: String },
    /// 500: the pod has more than one budget, which the API server cannot honour.
    SeveralBudgets { message: String },
    /// 403: the namespace is being deleted, and its pods with it.
    NamespaceTerminating,
    /// Anything else.
    Failed { message: String },
}

impl Cause {
    /// Reads the API server's answer to an eviction. Nothing means that the pod is evicted or gone already.
    pub fn of_answer(code: u16, message: &str, causes: &[String]) -> Option<Self> {
        let full = || {
            let details = causes.iter().filter(|cause| !message.contains(cause.as_str()));
            details.fold(message.to_owned(), |text, cause| format!("{text} {cause}")).trim().to_owned()
        };
        match code {
            200..=299 | 404 => None,
            429 => Some(Self::Budget { message: full() }),
            403 if full().contains("is being terminated") => Some(Self::NamespaceTerminating),
            500 if full().contains("more than one PodDisruptionBudget") => {
                Some(Self::SeveralBudgets { message: full() })
            }
            _ => Some(Self::Failed { message: full() }),
        }
    }
}

/// How a drain is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Pods that have been terminating for longer than this are no longer waited for. For nodes that are gone, whose
    /// kubelet can no longer confirm a deletion.
    pub skip_terminating_after: Option<SignedDuration>,
    /// The pods that carry the drain out, where it is one of ours.
    pub ours: Option<Ours>,
}

/// Pods without which nobody would go on with the drain, nor bring the node back. They leave when all others have left,
/// and only if another node takes them; else they stay, and come back with the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    pub namespace: String,
    /// Values of their label `k8s-app`.
    pub apps: Vec<String>,
    /// Whether another node takes them. A node that was seen long ago may be gone.
    pub may_leave: Reading<bool>,
}

impl Ours {
    pub(crate) fn has(&self, pod: &PodFacts) -> bool {
        let app = pod.labels.get(api::labels::K8S_APP);
        pod.namespace == self.namespace && app.is_some_and(|app| self.apps.contains(app))
    }
}

/// What there is to do on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Evict these now: `(namespace, name, uid)`, with the uid as a precondition.
    pub evict: Vec<PodFacts>,
    /// More pods are to be evicted once these answers are there.
    pub queued: usize,
    /// Pods of our own that go when all others have gone.
    pub deferred: usize,
    /// Pods that are on their way out.
    pub terminating: Vec<String>,
    pub blocked: Vec<Blocked>,
    /// When a refused eviction is tried again at the latest.
    pub retry_at: Option<Timestamp>,
}

/// One pod that does not get out of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub pod: String,
    pub name: String,
    pub namespace: String,
    pub owner: Option<Owner>,
    /// `namespace/name` of the budgets that protect it.
    pub budgets: Vec<String>,
    pub cause: Cause,
}

impl Work {
    /// Nothing is left on the node that a drain moves.
    pub fn is_done(&self) -> bool {
        let is_nothing_left = self.evict.is_empty() && self.queued == 0 && self.deferred == 0;
        is_nothing_left && self.terminating.is_empty() && self.blocked.is_empty()
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod: _, name, namespace, owner, budgets, cause } = self;
        write!(f, "error when evicting pods/{name:?} -n {namespace:?} (will retry after 5s): ")?;
        match cause {
            Cause::Budget { message } | Cause::SeveralBudgets { message } | Cause::Failed { message } => {
                f.write_str(cut(message))?;
            }
            Cause::NamespaceTerminating => write!(f, "its namespace is being terminated")?,
        }
        let owner = owner.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
        match budgets.as_slice() {
            [] => write!(f, " (controlled by {owner})"),
            [budget] => write!(f, " (disruption budget {budget}, controlled by {owner})"),
            budgets => write!(f, " (disruption budgets {}, controlled by {owner})", budgets.join(", ")),
        }
    }
}

/// How many blocked pods a text names, and how much of the API server's answer it repeats, in characters. Conditions,
/// events and statuses carry it, and each has a limit.
const NAMED: usize = 5;
const ANSWER: usize = 500;

/// What blocks a drain, in as many words as people read.
pub fn list(blocked: &[Blocked]) -> String {
    let named: Vec<_> = blocked.iter().take(NAMED).map(ToString::to_string).collect();
    let named = named.join(", ");
    match blocked.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(ANSWER).map_or(text, |(end, _)| &text[..end])
}

/// Decides about the pods of one node. `daemon_sets` are those that exist, as `namespace/name`.
pub fn work(
    pods: Fresh<&[PodFacts]>,
    budgets: &[DisruptionBudget],
    refusals: &BTreeMap<String, Refusal>,
    daemon_sets: Fresh<&BTreeSet<String>>,
    options: &Options,
    now: Timestamp,
) -> Work {
    let mut work = Work::default();
    let is_ours = |pod: &PodFacts| options.ours.as_ref().is_some_and(|ours| ours.has(pod));
    let going = || pods.iter().filter(|pod| !is_left_alone(pod, daemon_sets));
    for pod in going().filter(|pod| !is_ours(pod)) {
        work.look_at(pod, budgets, refusals, options, now);
    }
    let may_leave = options.ours.as_ref().map(|ours| ours.may_leave.fresh("nodes", now).map(|may| *may.into_inner()));
    if !matches!(may_leave, None | Some(Ok(false))) {
        // Where it is not known they neither go nor are left behind.
        let go = work.is_done() && may_leave.is_some_and(|may_leave| may_leave.is_ok());
        for pod in going().filter(|pod| is_ours(pod)) {
            if go {
                work.look_at(pod, budgets, refusals, options, now);
            } else {
                work.deferred += 1;
            }
        }
    }
    work
}

impl Work {
    fn look_at(
        &mut self,
        pod: &PodFacts,
        budgets: &[DisruptionBudget],
        refusals: &BTreeMap<String, Refusal>,
        options: &Options,
        now: Timestamp,
    ) {
        if let Some(since) = pod.terminating {
            let given_up = options.skip_terminating_after.is_some_and(|after| now.duration_since(since) > after);
            if !given_up {
                self.terminating.push(pod.full_name());
            }
            return;
        }
        let protecting: Vec<_> = budgets.iter().filter(|budget| budget.protects(pod)).collect();
        let refusal = refusals.get(&pod.uid);
        if let Some(refusal) = refusal {
            // An answer from a time to come was noted by a clock that has been set back since.
            let retry_at = if refusal.at > now { now } else { retry_at(refusal, &protecting) };
            self.blocked.push(blocked(pod, refusal, &protecting));
            if retry_at > now {
                self.retry_at = Some(self.retry_at.map_or(retry_at, |other| other.min(retry_at)));
                return;
            }
        }
        if self.evict.len() < AT_ONCE {
            self.evict.push(pod.clone());
        } else if refusal.is_none() {
            self.queued += 1;
        }
    }
}

/// Pods that a drain does not touch: those that the kubelet runs by itself, those that would come back at once, and
/// those that have ended. Pods without a controller and pods with local data are evicted like all others.
pub fn is_left_alone(pod: &PodFacts, daemon_sets: Fresh<&BTreeSet<String>>) -> bool {
    pod.mirror || pod.finished || pod.daemon_set().is_some_and(|owner| daemon_sets.contains(&owner))
}

/// Whether a drain waits until this pod is gone, for whoever may not have read the DaemonSets: a pod of one stays unless its
/// DaemonSet is known to be gone.
#[must_use]
pub fn is_moved(pod: &PodFacts, daemon_sets: &Reading<BTreeSet<String>>, now: Timestamp) -> bool {
    match daemon_sets.fresh("daemonsets", now) {
        Ok(known) => !is_left_alone(pod, known),
        Err(_) => !pod.mirror && !pod.finished && !pod.is_of_daemon_set(),
    }
}

/// A budget that has something to give again, or that is gone, is the event that a refused eviction waits for; the clock
/// is only there for what cannot be seen.
fn retry_at(refusal: &Refusal, protecting: &[&DisruptionBudget]) -> Timestamp {
    let pause = match &refusal.cause {
        // The budget that refused is gone, or budgets cannot be seen at all.
        Cause::Budget { .. } if protecting.is_empty() => RETRY_FAILED,
        // The answer may be a moment younger than the budget that we see, so it is not asked again at once.
        Cause::Budget { .. } if protecting.iter().all(|budget| budget.disruptions_allowed > 0) => RETRY_ALLOWED,
        Cause::SeveralBudgets { .. } if protecting.len() < 2 => RETRY_FAILED,
        Cause::Budget { .. } | Cause::SeveralBudgets { .. } | Cause::NamespaceTerminating => RETRY,
        Cause::Failed { .. } => RETRY_FAILED,
    };
    refusal.at.saturating_add(pause).unwrap_or(refusal.at)
}

fn blocked(pod: &PodFacts, refusal: &Refusal, protecting: &[&DisruptionBudget]) -> Blocked {
    Blocked {
        pod: pod.full_name(),
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        owner: pod.owner.clone(),
        budgets: protecting.iter().map(|budget| format!("{}/{}", budget.namespace, budget.name)).collect(),
        cause: refusal.cause.clone(),
    }
}
