//! Keys of a Node's annotations.

/// Rendered config that the node runs. Written by the daemon.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Rendered config that the node shall reach. Written by the rollout controller.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// OS image that a node of a layered pool runs. Written by the daemon.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// OS image that a node of a layered pool shall reach. Written by the rollout controller.
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// One of [`crate::DaemonState`]. Written by the daemon; missing or empty means that it never reported.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Why the node is in its state, empty when all is well. Written by the daemon.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// `Rebooting` from just before a reboot until the daemon is back, else empty. Written by the daemon.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// `drain-<config>` or `uncordon-<config>`: what the daemon asks of the drain controller.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// The last [`DESIRED_DRAIN`] that the drain controller has carried out.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// `HighlyAvailable`, `SingleReplica`, …; on a single replica the daemon does not ask for drains.
pub const CONTROL_PLANE_TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";
/// Resource version of the ControllerConfig whose certificates are on disk. Written by the daemon.
pub const LAST_SYNCED_CONTROLLER_CONFIG: &str =
    "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion";
/// Last value of the ControllerConfig's `service-ca-rotate` that the daemon has seen.
pub const LAST_OBSERVED_SERVER_CA: &str = "machineconfiguration.openshift.io/lastObservedServerCAAnnotation";
/// Rendered config the node was born with.
pub const FIRST_PIVOT_CONFIG: &str = "machineconfiguration.openshift.io/firstPivotConfig";
/// Present once the labels of a custom pool were given to a node born in it.
pub const CUSTOM_POOL_LABELS_APPLIED: &str = "machineconfiguration.openshift.io/customPoolLabelsApplied";
/// First error line of the previous boot's staged OS deployment, or empty.
pub const OSTREE_FINALIZE_STAGED_FAILURE: &str = "machineconfiguration.openshift.io/ostree-finalize-staged-failure";

/// Keeps the node at the config it runs, whatever its pool wants. The value says why.
pub const HOLD: &str = "machinist.dev/hold";
/// Carry out the change although a check refuses it. The value is the config it is meant for.
pub const FORCE: &str = "machinist.dev/force";
/// The config whose trial was reverted here.
pub const REVERTED: &str = "machinist.dev/reverted";
/// The daemon is ours, which accepts a new target while it works. The value is the daemon's version.
pub const DAEMON: &str = "machinist.dev/daemon";
/// On a node that is drained: whose cordon it is, [`crate::Cordon`]. Written by the drain controller.
pub const CORDONED_BY: &str = "machinist.dev/cordoned-by";
/// On a node that is drained: since when, RFC 3339. Written by the drain controller.
pub const DRAIN_STARTED: &str = "machinist.dev/drain-started";
/// Touched to make a late write of a deposed rollout controller conflict.
pub const FENCE: &str = "machinist.dev/fence";
