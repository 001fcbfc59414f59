//! What the status of the control plane's set says.

use api::machine::ControlPlaneMachineSetStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Snapshot, Trouble, Waiting};
use crate::condition::whole_seconds;

/// Counts and the conditions `Available`, `Degraded` and `Progressing`.
pub(super) fn of(snapshot: &Snapshot, waiting: &Waiting) -> ControlPlaneMachineSetStatus {
    let masters = &snapshot.masters;
    let wanted = usize::try_from(snapshot.set.spec.replicas.unwrap_or(3)).unwrap_or(0);
    let ready = masters.iter().filter(|master| master.ready).count();
    let updated = masters.iter().filter(|master| master.up_to_date && master.ready).count();
    let outdated = masters.iter().filter(|master| !master.up_to_date).count();
    let unavailable = wanted.saturating_sub(ready);
    let available = match unavailable {
        0 => ("Available", true, "AllReplicasAvailable", String::new()),
        missing => ("Available", false, "UnavailableReplicas", format!("Missing {missing} available replica(s)")),
    };
    let degraded = match waiting {
        Waiting::Degraded(trouble) => ("Degraded", true, reason(trouble), trouble.to_string()),
        _ => ("Degraded", false, "AsExpected", String::new()),
    };
    let progressing = match waiting {
        Waiting::Degraded(_) => ("Progressing", false, "OperatorDegraded", String::new()),
        _ if masters.len() > wanted => {
            let excess = masters.len() - wanted;
            ("Progressing", true, "ExcessReplicas", format!("Waiting for {excess} old replica(s) to be removed"))
        }
        _ if outdated > 0 => {
            ("Progressing", true, "NeedsUpdateReplicas", format!("Observed {outdated} replica(s) in need of update"))
        }
        _ => ("Progressing", false, "AllReplicasUpdated", String::new()),
    };
    let old = snapshot.set.status.clone().unwrap_or_default();
    let conditions = [available, degraded, progressing];
    let conditions = conditions.map(|(type_, status, reason, message)| {
        let status = if status { api::names::status::TRUE } else { api::names::status::FALSE };
        let before = old.conditions.iter().find(|condition| condition.type_ == type_ && condition.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: snapshot.set.metadata.generation,
            last_transition_time: before
                .map_or_else(|| whole_seconds(snapshot.now), |before| before.last_transition_time.clone()),
        }
    });
    ControlPlaneMachineSetStatus {
        conditions: conditions.into(),
        observed_generation: snapshot.set.metadata.generation,
        replicas: count(masters.len()),
        ready_replicas: count(ready),
        updated_replicas: count(updated),
        unavailable_replicas: count(unavailable),
    }
}

fn reason(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::InvalidStrategy(_) => "InvalidStrategy",
        Trouble::MachinesAlreadyOwned(_) => "MachinesAlreadyOwned",
        Trouble::NoReadyMachines => "NoReadyMachines",
        Trouble::UnmanagedNodes(_) => "UnmanagedNodes",
        Trouble::ExcessIndexes { .. } => "ExcessIndexes",
        Trouble::NoIndex(_) => "MissingIndexes",
        Trouble::FailedReplacement(_) => "FailedReplacement",
        Trouble::NoTemplate | Trouble::Domains(_) => "InvalidTemplate",
    }
}

fn count(number: usize) -> Option<i32> {
    Some(i32::try_from(number).unwrap_or(i32::MAX))
}
