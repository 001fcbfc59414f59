//! Whether one machine is unhealthy.

use jiff::{SignedDuration, Timestamp};

use super::{Check, NodeFacts, Target, TargetNode};

/// How long planned work may take before a symptom counts in spite of it. A change that hangs for longer than this is no
/// longer planned.
const PLANNED_WORK: SignedDuration = SignedDuration::from_hours(1);

/// A machine without a node is watched for so long before it is replaced. Links are written within seconds by a process that
/// leads; one that just began to lead sees machines whose nodes registered while nobody did, and a node that was deleted
/// registers again by itself.
const LINKING: SignedDuration = SignedDuration::from_mins(1);

/// On top of every remaining time, so that the next look comes after the timeout and not at it.
const AFTERWARDS: SignedDuration = SignedDuration::from_millis(1);

/// What was found about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Well,
    /// It has no node yet. The time until it is unhealthy, unless it may take for ever.
    Booting(Option<SignedDuration>),
    /// It has had its time to get a node, and was not watched for long enough to know that it has none: the link may only
    /// not be written yet, because nobody led. The time until it is unhealthy.
    Late(SignedDuration),
    /// Its node shows a symptom; the time until it is unhealthy.
    Suspect(SignedDuration),
    /// Its node shows a symptom because of a planned change; the time until that no longer counts.
    PlannedWork(SignedDuration),
    /// Nodes could not be listed, so it is neither healthy nor unhealthy.
    Unknown,
    Unhealthy(Cause),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The Machine has failed.
    Failed,
    /// It never got a node.
    NeverJoined,
    /// Its node is gone.
    NodeMissing,
    /// The node's condition lasts for too long.
    Symptom { type_: String, status: String },
}

impl Verdict {
    /// When to look at the machine again.
    pub fn next_look(&self) -> Option<SignedDuration> {
        match self {
            Self::Booting(left) => *left,
            Self::Late(left) | Self::Suspect(left) | Self::PlannedWork(left) => Some(*left),
            Self::Well | Self::Unknown | Self::Unhealthy(_) => None,
        }
    }

    pub fn needs_remediation(&self) -> bool {
        matches!(self, Self::Unhealthy(_))
    }
}

/// Decides about one machine. `seen` is since when its symptoms were seen, if anybody kept that.
pub(super) fn of(check: &Check, target: &Target, seen: Option<Timestamp>, now: Timestamp) -> Verdict {
    if target.failed {
        return Verdict::Unhealthy(Cause::Failed);
    }
    match &target.node {
        TargetNode::None => starting(check, target, seen, now),
        TargetNode::Missing(_) => match unlinked_for(seen, now) {
            Some(left) => Verdict::Suspect(left),
            None => Verdict::Unhealthy(Cause::NodeMissing),
        },
        TargetNode::Unknown(_) => Verdict::Unknown,
        TargetNode::Present(node) => of_node(check, node, seen, now),
    }
}

fn starting(check: &Check, target: &Target, seen: Option<Timestamp>, now: Timestamp) -> Verdict {
    let Some(timeout) = check.startup else { return Verdict::Booting(None) };
    let Some(since) = target.started else { return Verdict::Booting(Some(timeout)) };
    let lasted = now.duration_since(since);
    if lasted > timeout {
        unlinked_for(seen, now).map_or(Verdict::Unhealthy(Cause::NeverJoined), Verdict::Late)
    } else {
        Verdict::Booting(Some(timeout - lasted + AFTERWARDS))
    }
}

/// How much longer a machine that has no node, or another one of its name, is only watched.
fn unlinked_for(seen: Option<Timestamp>, now: Timestamp) -> Option<SignedDuration> {
    let left = LINKING - seen.map_or(LINKING, |seen| now.duration_since(seen));
    left.is_positive().then_some(left)
}

fn of_node(check: &Check, node: &NodeFacts, seen: Option<Timestamp>, now: Timestamp) -> Verdict {
    let mut soonest: Option<SignedDuration> = None;
    for symptom in &check.symptoms {
        let shown = node.conditions.iter().find(|(type_, ..)| *type_ == symptom.type_);
        let Some((type_, status, since)) = shown.filter(|(_, status, _)| *status == symptom.status) else { continue };
        // A condition without a time has lasted since for ever.
        let lasted = since.map_or(SignedDuration::MAX, |since| now.duration_since(since));
        // A kubelet writes the time by its own clock, which may be days behind.
        let lasted = seen.map_or(lasted, |seen| lasted.min(now.duration_since(seen)));
        let allowed = if node.planned_work { symptom.timeout.saturating_add(PLANNED_WORK) } else { symptom.timeout };
        if lasted > allowed {
            let (type_, status) = (type_.clone(), status.clone());
            return Verdict::Unhealthy(Cause::Symptom { type_, status });
        }
        let left = allowed - lasted + AFTERWARDS;
        soonest = Some(soonest.map_or(left, |other| other.min(left)));
    }
    match soonest {
        None => Verdict::Well,
        Some(left) if node.planned_work => Verdict::PlannedWork(left),
        Some(left) => Verdict::Suspect(left),
    }
}

/// Whether the machine counts as healthy.
pub(super) fn is_healthy(target: &Target, verdict: &Verdict) -> bool {
    let fine = match verdict {
        Verdict::Well | Verdict::PlannedWork(_) => true,
        Verdict::Booting(_) | Verdict::Late(_) | Verdict::Suspect(_) | Verdict::Unknown | Verdict::Unhealthy(_) => {
            false
        }
    };
    fine && !target.deleting && !target.externally_remediated
}

/// Whether the machine counts neither as healthy nor as unhealthy, because it has not had the time to be either.
pub(super) fn is_booting(target: &Target, verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Booting(_) | Verdict::Late(_)) && !target.deleting && !target.externally_remediated
}
