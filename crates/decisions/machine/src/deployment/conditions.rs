//! The conditions of a deployment: whether it serves, whether it gets on, and why not.
//!
//! The kind has no field for conditions, and it is not ours to add one, so they stand in an annotation, as a list in the form
//! that other kinds have in their status.

use std::collections::BTreeMap;

use api::machine::{MachineDeploymentStatus, annotation};
use api::names::status::{FALSE, TRUE, UNKNOWN};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Action, Goal, Invalid, Snapshot, Waiting};

pub const AVAILABLE: &str = "Available";
pub const PROGRESSING: &str = "Progressing";

/// How long nothing may move, unless `spec.progressDeadlineSeconds` says otherwise.
const DEADLINE: SignedDuration = SignedDuration::from_secs(600);

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Timestamp,
    /// When anything moved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
}

/// What the annotation of a deployment says; nothing if it cannot be read.
pub fn of(deployment: &api::machine::MachineDeployment) -> Vec<Condition> {
    let text = deployment.metadata.annotations.as_ref().and_then(|all| all.get(annotation::CONDITIONS));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The conditions of a deployment that is acted on, and how long until the deadline for progress.
pub(super) fn judge(
    snapshot: &Snapshot,
    goal: &Goal,
    status: &MachineDeploymentStatus,
    waiting: &Waiting,
) -> (Option<Action>, Option<SignedDuration>) {
    let old = of(&snapshot.deployment);
    let before = old.iter().find(|condition| condition.type_ == PROGRESSING).and_then(|it| it.last_update_time);
    let has_moved = before.is_none() || snapshot.deployment.status.as_ref() != Some(status);
    let moved = if has_moved { cut(snapshot.now) } else { before.unwrap_or(snapshot.now) };
    let left = deadline(goal) - snapshot.now.duration_since(moved);
    let is_late = matches!(waiting, Waiting::Progress { .. }) && !left.is_positive();
    let progressing = match waiting {
        Waiting::Complete => (TRUE, "NewMachineSetAvailable"),
        Waiting::Paused => (UNKNOWN, "DeploymentPaused"),
        Waiting::Deletion { .. } => (UNKNOWN, "WaitingForDeletion"),
        _ if is_late => (FALSE, "ProgressDeadlineExceeded"),
        _ => (TRUE, "MachineSetUpdated"),
    };
    let available = status.available_replicas.unwrap_or(0);
    let needed = (goal.replicas - goal.allowance.unavailable).max(0);
    let serves = match available >= needed {
        true => (TRUE, "MinimumReplicasAvailable"),
        false => (FALSE, "MinimumReplicasUnavailable"),
    };
    let conditions = [
        condition(
            &old,
            AVAILABLE,
            serves,
            format!("{available} of {} machines are available", goal.replicas),
            snapshot,
        ),
        Condition {
            last_update_time: Some(moved),
            ..condition(&old, PROGRESSING, progressing, waiting.to_string(), snapshot)
        },
    ];
    let waits = matches!(waiting, Waiting::Progress { .. }) && !is_late;
    (written(&old, &conditions), waits.then_some(left))
}

/// Those of a deployment that cannot be acted on: what it has serves on, and nothing moves.
pub(super) fn of_invalid(snapshot: &Snapshot, problem: &Invalid) -> Option<Action> {
    let old = of(&snapshot.deployment);
    let stands = condition(&old, PROGRESSING, (FALSE, "InvalidSpec"), problem.to_string(), snapshot);
    let serves = old.iter().find(|condition| condition.type_ == AVAILABLE).cloned();
    let conditions: Vec<_> = serves.into_iter().chain([stands]).collect();
    written(&old, &conditions)
}

fn deadline(goal: &Goal) -> SignedDuration {
    let seconds = goal.deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds > 0);
    seconds.map_or(DEADLINE, |seconds| SignedDuration::from_secs(seconds.into()))
}

fn condition(
    old: &[Condition],
    type_: &str,
    (status, reason): (&str, &str),
    message: String,
    snapshot: &Snapshot,
) -> Condition {
    let before = old.iter().find(|condition| condition.type_ == type_ && condition.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: before.map_or_else(|| cut(snapshot.now), |before| before.last_transition_time),
        last_update_time: None,
    }
}

/// Whole seconds, as in every other condition.
fn cut(now: Timestamp) -> Timestamp {
    crate::condition::whole_seconds(now).0
}

fn written(old: &[Condition], new: &[Condition]) -> Option<Action> {
    let text = serde_json::to_string(new).unwrap_or_default();
    (old != new).then(|| Action::Annotate(BTreeMap::from([(annotation::CONDITIONS.to_owned(), text)])))
}
