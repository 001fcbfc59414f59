//! Decides the next move for one `Machine`.

use api::machine::MachineCondition;

use crate::condition;

/// Condition of a Machine whose instance could not be made. It is there only while there is something to tell.
pub const INSTANCE_CREATED: &str = "InstanceCreated";

/// Whether the provider had no capacity or no quota when the instance was to be made.
pub fn is_starved(conditions: &[MachineCondition]) -> bool {
    condition::find(conditions, INSTANCE_CREATED)
        .and_then(|condition| condition.reason.as_deref())
        .is_some_and(|reason| matches!(reason, "NoCapacity" | "Quota"))
}
