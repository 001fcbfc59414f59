//! Namespaces, well-known object names, finalizers and values of annotations.

/// Namespace of the machine configuration workloads, and of events about cluster-scoped objects.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
/// Namespace of Machines and of their controllers.
pub const MACHINE_API_NAMESPACE: &str = "openshift-machine-api";

/// Name of the only ControllerConfig.
pub const CONTROLLER_CONFIG: &str = "machine-config-controller";
/// Name of the only MachineConfiguration, and of the only ClusterSettings.
pub const CLUSTER: &str = "cluster";
pub const POOL_MASTER: &str = "master";
pub const POOL_WORKER: &str = "worker";
pub const POOL_ARBITER: &str = "arbiter";
/// A rendered config is named `rendered-<pool>-<hash>`.
pub const RENDERED_PREFIX: &str = "rendered-";
/// ClusterOperator of machine configuration.
pub const CLUSTER_OPERATOR: &str = "machine-config";
/// ClusterOperator of the Machine API.
pub const MACHINE_API_CLUSTER_OPERATOR: &str = "machine-api";
/// The Secret with the certificates and pull secrets that belong on every host; nodes may read it.
pub const NODE_CREDENTIALS: &str = "machine-config-node-credentials";
/// What a MachineConfigNode shows for a config that is not known yet.
pub const NOT_YET_SET: &str = "not-yet-set";

pub const LEASE_OPERATOR: &str = "machine-config";
pub const LEASE_CONTROLLER: &str = "machine-config-controller";

/// Finalizer of a Machine.
pub const MACHINE_FINALIZER: &str = "machine.machine.openshift.io";

/// Values of the node annotation `state`.
pub mod state {
    pub const DONE: &str = "Done";
    pub const WORKING: &str = "Working";
    pub const DEGRADED: &str = "Degraded";
    pub const UNRECONCILABLE: &str = "Unreconcilable";
    /// Only in the annotation `post-config-action`, never as a state.
    pub const REBOOTING: &str = "Rebooting";
}

/// The first word of a drain annotation, before the `-`.
pub mod drain {
    pub const DRAIN: &str = "drain";
    pub const UNCORDON: &str = "uncordon";
}

/// Values of the annotation `cordoned-by`: who cordoned the node.
pub mod cordon {
    /// The drain controller, which uncordons the node when the change is complete.
    pub const MACHINIST: &str = "machinist";
    /// A person, before the drain. Such a cordon is left alone.
    pub const PERSON: &str = "person";
}

/// Condition types of a MachineConfigPool.
pub mod pool_condition {
    pub const UPDATED: &str = "Updated";
    pub const UPDATING: &str = "Updating";
    pub const DEGRADED: &str = "Degraded";
    pub const NODE_DEGRADED: &str = "NodeDegraded";
    pub const RENDER_DEGRADED: &str = "RenderDegraded";
    pub const PINNED_IMAGE_SETS_DEGRADED: &str = "PinnedImageSetsDegraded";
    pub const POOL_SYNCHRONIZER_DEGRADED: &str = "PoolSynchronizerDegraded";
    pub const IMAGE_BUILD_DEGRADED: &str = "ImageBuildDegraded";
    /// Ours: the config server requires no token from this pool's machines.
    pub const CONFIG_SERVER_OPEN: &str = "ConfigServerOpen";
    pub const BUILD_PENDING: &str = "BuildPending";
    pub const BUILDING: &str = "Building";
    pub const BUILD_SUCCESS: &str = "BuildSuccess";
    pub const BUILD_FAILED: &str = "BuildFailed";
    pub const BUILD_INTERRUPTED: &str = "BuildInterrupted";
}

/// Condition types of a MachineConfigNode.
pub mod node_condition {
    pub const UPDATE_PREPARED: &str = "UpdatePrepared";
    pub const UPDATE_EXECUTED: &str = "UpdateExecuted";
    pub const UPDATE_POST_ACTION_COMPLETE: &str = "UpdatePostActionComplete";
    pub const UPDATE_COMPLETE: &str = "UpdateComplete";
    pub const UPDATED: &str = "Updated";
    pub const RESUMED: &str = "Resumed";
    pub const CORDONED: &str = "Cordoned";
    pub const DRAINED: &str = "Drained";
    pub const APPLIED_FILES_AND_OS: &str = "AppliedFilesAndOS";
    pub const APPLIED_FILES: &str = "AppliedFiles";
    pub const APPLIED_OS_IMAGE: &str = "AppliedOSImage";
    pub const IMAGE_PULLED_FROM_REGISTRY: &str = "ImagePulledFromRegistry";
    pub const REBOOTED_NODE: &str = "RebootedNode";
    pub const UNCORDONED: &str = "Uncordoned";
    pub const NODE_DEGRADED: &str = "NodeDegraded";
    pub const PINNED_IMAGE_SETS_PROGRESSING: &str = "PinnedImageSetsProgressing";
    pub const PINNED_IMAGE_SETS_DEGRADED: &str = "PinnedImageSetsDegraded";
    pub const INTERNAL_RELEASE_IMAGE_DEGRADED: &str = "InternalReleaseImageDegraded";
    /// Ours: several custom pools want the node, so it follows none. Written by the controller; [`NODE_DEGRADED`] is the
    /// daemon's alone.
    pub const MULTIPLE_CUSTOM_POOLS: &str = "MultipleCustomPools";
    /// Reason of a condition that has not happened yet.
    pub const NOT_YET_OCCURRED: &str = "NotYetOccurred";
}

/// Values of a condition's status.
pub mod status {
    pub const TRUE: &str = "True";
    pub const FALSE: &str = "False";
    pub const UNKNOWN: &str = "Unknown";
}
