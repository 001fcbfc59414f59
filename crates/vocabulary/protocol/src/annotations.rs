//! Annotation keys of Nodes.

/// Rendered config that the node runs. Written by the daemon.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Rendered config that the node should run. Written by the rollout controller.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// OS image that a node of a layered pool runs. Written by the daemon.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// OS image that a node of a layered pool should run. Written by the rollout controller.
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// One of [`crate::DaemonState`]. Written by the daemon; missing or empty means that it never reported.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Why the node is in its state; empty without a problem. Written by the daemon.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// `Rebooting` from just before a reboot until the daemon has restarted, otherwise empty. Written by the daemon.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// The daemon's request to the drain controller: `drain-<config>` or `uncordon-<config>`.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// The last [`DESIRED_DRAIN`] that the drain controller has carried out.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// `HighlyAvailable`, `SingleReplica`, …; with a single replica the daemon does not request drains.
pub const CONTROL_PLANE_TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";
/// Resource version of the ControllerConfig whose certificates are on disk. Written by the daemon.
pub const LAST_SYNCED_CONTROLLER_CONFIG: &str =
    "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion";
/// Last value of the ControllerConfig's `service-ca-rotate` that the daemon has seen.
pub const LAST_OBSERVED_SERVER_CA: &str = "machineconfiguration.openshift.io/lastObservedServerCAAnnotation";
/// Rendered config that the node first booted with.
pub const FIRST_PIVOT_CONFIG: &str = "machineconfiguration.openshift.io/firstPivotConfig";
/// Present once a node that first booted in a custom pool got the labels of that pool.
pub const CUSTOM_POOL_LABELS_APPLIED: &str = "machineconfiguration.openshift.io/customPoolLabelsApplied";
/// First error line of the previous boot's staged OS deployment, or empty.
pub const OSTREE_FINALIZE_STAGED_FAILURE: &str = "machineconfiguration.openshift.io/ostree-finalize-staged-failure";

/// Keeps the node on its current config, whatever its pool wants. The value is the reason.
pub const HOLD: &str = "machinist.dev/hold";
/// Applies the change even if a check refuses it. The value is the config this applies to.
pub const FORCE: &str = "machinist.dev/force";
/// The config whose trial was reverted on this node.
pub const REVERTED: &str = "machinist.dev/reverted";
/// Set by our own daemon, which accepts a new target while it works. The value is its version.
pub const DAEMON: &str = "machinist.dev/daemon";
/// While a node is drained: who cordoned it, see [`crate::Cordon`]. Written by the drain controller.
pub const CORDONED_BY: &str = "machinist.dev/cordoned-by";
/// While a node is drained: when the drain started, in RFC 3339. Written by the drain controller.
pub const DRAIN_STARTED: &str = "machinist.dev/drain-started";
/// Changed to make a late write of a deposed rollout controller conflict.
pub const FENCE: &str = "machinist.dev/fence";
