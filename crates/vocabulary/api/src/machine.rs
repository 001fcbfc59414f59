//! `machine.openshift.io`: machines, sets of machines, and their health. All kinds are `v1beta1` except
//! ControlPlaneMachineSet, which is `v1`.

mod control_plane_machine_set;
#[expect(clippy::module_inception, reason = "the group and its first kind have the same name")]
mod machine;
mod machine_deployment;
mod machine_health_check;
mod machine_set;
mod words;

pub use control_plane_machine_set::*;
pub use machine::*;
pub use machine_deployment::*;
pub use machine_health_check::*;
pub use machine_set::*;
pub use words::*;

/// The API group.
pub const GROUP: &str = "machine.openshift.io";
/// The version of every kind in the group except ControlPlaneMachineSet, which is `v1`.
pub const VERSION: &str = "v1beta1";
