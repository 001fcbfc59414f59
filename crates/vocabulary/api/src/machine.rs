//! `machine.openshift.io/v1beta1`: machines, sets of machines, and their health.

#[expect(clippy::module_inception, reason = "the group and its first kind have the same name")]
mod machine;
mod machine_health_check;
mod machine_set;
mod words;

pub use machine::*;
pub use machine_health_check::*;
pub use machine_set::*;
pub use words::*;

/// The API group.
pub const GROUP: &str = "machine.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1beta1";
