//! What the image build of a layered pool does to the pool's conditions.

use api::names::{pool_condition, status};

use super::conditions::Conditions;
use crate::goal::{BuildStage, Layering};
use crate::snapshot::Snapshot;

/// Lets `Updating` tell about the build instead of the nodes.
pub(super) fn set_updating(conditions: &mut Conditions, snapshot: &Snapshot, all_updated: bool) {
    let Some(layering) = &snapshot.nodes.goal().layering else { return };
    let Some(config) = &layering.config else { return };
    let (is_true, message) = if snapshot.pool.paused {
        while_paused(config, layering)
    } else if is_degraded_otherwise(snapshot) {
        (false, "Pool update paused due to degraded condition".to_owned())
    } else if all_updated && layering.build.as_ref().is_some_and(|build| build.stage == BuildStage::Succeeded) {
        return;
    } else {
        while_running(config, layering)
    };
    conditions.set(pool_condition::UPDATING, is_true, "", &message);
}

fn while_running(config: &str, layering: &Layering) -> (bool, String) {
    let Some(build) = &layering.build else {
        return (true, format!("Pool is waiting for a new OS image build to start (mosc: {config})"));
    };
    let name = &build.name;
    match build.stage {
        BuildStage::Initial | BuildStage::Prepared => {
            (true, format!("Pool is waiting for OS image build to start (mosb: {name})"))
        }
        BuildStage::Building => (true, format!("Pool is waiting for OS image build to complete (mosb: {name})")),
        BuildStage::Succeeded => (true, format!("Pool is waiting for nodes to apply OS image (mosb: {name})")),
        BuildStage::Failed => (false, format!("Pool update stopped due to OS image build failure (mosb: {name})")),
        BuildStage::Interrupted => {
            (false, format!("Pool update stopped due to OS image build being interrupted (mosb: {name})"))
        }
    }
}

fn while_paused(config: &str, layering: &Layering) -> (bool, String) {
    let Some(build) = &layering.build else {
        return (true, format!("Pool is paused; waiting for a new OS image build to start (mosc: {config})"));
    };
    let name = &build.name;
    let (is_true, what) = match build.stage {
        BuildStage::Initial => (true, "has been created but not yet started"),
        BuildStage::Prepared => (true, "has been prepared but will not rollout"),
        BuildStage::Building => (true, "in progress"),
        BuildStage::Succeeded => (false, "completed successfully"),
        BuildStage::Failed => (false, "failed"),
        BuildStage::Interrupted => (false, "was interrupted"),
    };
    (is_true, format!("Pool is paused; OS image build {what} (mosb: {name})"))
}

/// Whether the pool was degraded, when its status was last written, for a reason that is not its build.
fn is_degraded_otherwise(snapshot: &Snapshot) -> bool {
    let is_cause = |type_: &str| {
        matches!(
            type_,
            pool_condition::RENDER_DEGRADED
                | pool_condition::NODE_DEGRADED
                | pool_condition::PINNED_IMAGE_SETS_DEGRADED
        )
    };
    let mut conditions = snapshot.pool.status.conditions.iter();
    conditions.any(|condition| is_cause(&condition.type_) && condition.status == status::TRUE)
}

/// Takes back `ImageBuildDegraded` once a newer build is on its way, or none is wanted any more.
pub(super) fn clear_degraded(conditions: &mut Conditions, layering: Option<&Layering>) {
    let was_degraded = conditions.message_if_true(pool_condition::IMAGE_BUILD_DEGRADED).is_some();
    let build = layering.and_then(|layering| layering.build.as_ref());
    let cleared = match build.map(|build| build.stage) {
        Some(BuildStage::Prepared | BuildStage::Building) => Some(("Building", "New build started")),
        Some(BuildStage::Succeeded) => Some(("BuildSuccess", "Build completed successfully")),
        Some(BuildStage::Initial | BuildStage::Failed | BuildStage::Interrupted) => None,
        None if !was_degraded => None,
        None if layering.is_some() => {
            Some(("BuildPending", "MachineOSConfig updated/created, waiting for MachineOSBuild"))
        }
        None => Some(("NoLayeredObjects", "No layered pool objects found, clearing stale build degraded condition")),
    };
    if let Some((reason, message)) = cleared {
        conditions.set(pool_condition::IMAGE_BUILD_DEGRADED, false, reason, message);
    }
}
