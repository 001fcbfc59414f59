//! `machineconfiguration.openshift.io/v1`: what runs on each host, and how a change reaches a fleet.

mod machine_config;
mod machine_config_pool;

pub use machine_config::{MachineConfig, MachineConfigSpec};
pub use machine_config_pool::{
    CertExpiry, MachineConfigPool, MachineConfigPoolCondition, MachineConfigPoolConfiguration,
    MachineConfigPoolSpec, MachineConfigPoolStatus, OSImageStreamReference,
    PinnedImageSetReference, PoolSynchronizerStatus,
};

/// The API group.
pub const GROUP: &str = "machineconfiguration.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1";
