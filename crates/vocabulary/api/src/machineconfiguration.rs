//! `machineconfiguration.openshift.io/v1`: the configuration of hosts, and the state of its rollout.

mod container_runtime_config;
mod controller_config;
mod kubelet_config;
mod machine_config;
mod machine_config_node;
mod machine_config_pool;
mod machine_os_build;
mod machine_os_config;
mod pinned_image_set;
mod references;

pub use container_runtime_config::*;
pub use controller_config::*;
pub use kubelet_config::*;
pub use machine_config::*;
pub use machine_config_node::*;
pub use machine_config_pool::*;
pub use machine_os_build::*;
pub use machine_os_config::*;
pub use pinned_image_set::*;
pub use references::*;

/// The API group.
pub const GROUP: &str = "machineconfiguration.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1";

/// A condition of a KubeletConfig has the same fields as a pool's.
pub type KubeletConfigCondition = MachineConfigPoolCondition;
/// A condition of a ContainerRuntimeConfig has the same fields as a pool's.
pub type ContainerRuntimeConfigCondition = MachineConfigPoolCondition;
