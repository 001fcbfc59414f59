//! Annotation keys. On a node they are the protocol between controller and daemon.

/// Rendered config that the node runs. Written by the daemon.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Rendered config that the node shall reach. Written by the rollout controller.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// OS image that a node of a layered pool runs. Written by the daemon.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// OS image that a node of a layered pool shall reach. Written by the rollout controller.
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// One of [`crate::names::state`]. Written by the daemon; missing or empty means `Done`.
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
/// On the Secret of nodes' credentials: the resource version of the ControllerConfig that it was made from.
pub const CONTROLLER_CONFIG_VERSION: &str = "machinist.dev/controller-config-version";
/// Last value of [`SERVICE_CA_ROTATE`] that the daemon has seen.
pub const LAST_OBSERVED_SERVER_CA: &str = "machineconfiguration.openshift.io/lastObservedServerCAAnnotation";
/// Rendered config the node was born with.
pub const FIRST_PIVOT_CONFIG: &str = "machineconfiguration.openshift.io/firstPivotConfig";
/// Present once the labels of a custom pool were given to a node born in it.
pub const CUSTOM_POOL_LABELS_APPLIED: &str = "machineconfiguration.openshift.io/customPoolLabelsApplied";
/// First error line of the previous boot's staged OS deployment, or empty.
pub const OSTREE_FINALIZE_STAGED_FAILURE: &str = "machineconfiguration.openshift.io/ostree-finalize-staged-failure";

/// Version of the controller that generated a MachineConfig.
pub const GENERATED_BY_CONTROLLER_VERSION: &str = "machineconfiguration.openshift.io/generated-by-controller-version";
/// Release version, on rendered configs and ControllerConfig.
pub const RELEASE_IMAGE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
/// `true` on a rendered config whose OS image was set by a user's fragment.
pub const OS_IMAGE_URL_OVERRIDDEN: &str = "machineconfiguration.openshift.io/os-image-url-overridden";
/// A pre-built OS image, on rendered configs of image-mode installations.
pub const PRE_BUILT_IMAGE: &str = "machineconfiguration.openshift.io/pre-built-image";
/// Version of the operator that wrote a ControllerConfig.
pub const GENERATED_BY_VERSION: &str = "machineconfiguration.openshift.io/generated-by-version";
/// `true` on a ControllerConfig while nodes have to rewrite their kubeconfig for a new serving CA.
pub const SERVICE_CA_ROTATE: &str = "machineconfiguration.openshift.io/service-ca-rotate";
/// Suffix of the MachineConfig generated from a KubeletConfig or ContainerRuntimeConfig.
pub const MC_NAME_SUFFIX: &str = "machineconfiguration.openshift.io/mc-name-suffix";
/// The build that a MachineOSConfig follows.
pub const CURRENT_MACHINE_OS_BUILD: &str = "machineconfiguration.openshift.io/current-machine-os-build";
/// Asks for a new build of a MachineOSConfig.
pub const REBUILD: &str = "machineconfiguration.openshift.io/rebuild";
/// When managed boot images became the default on this cluster.
pub const BOOT_IMAGE_OPTED_IN_AT: &str = "machineconfiguration.openshift.io/boot-image-updates-opted-in-at";

/// `<namespace>/<name>` of a node's Machine.
pub const MACHINE: &str = "machine.openshift.io/machine";
/// The same, as it was spelled in 2019.
pub const MACHINE_OLD: &str = "machine";
/// The provider's own word for the instance's state.
pub const INSTANCE_STATE: &str = "machine.openshift.io/instance-state";
/// Its presence on a Machine skips the drain before deletion.
pub const EXCLUDE_NODE_DRAINING: &str = "machine.openshift.io/exclude-node-draining";
/// A value here makes a Machine the first to go when its set shrinks.
pub const DELETE_MACHINE: &str = "machine.openshift.io/delete-machine";
/// Older spelling of [`DELETE_MACHINE`].
pub const DELETE_MACHINE_OLD: &str = "machine.openshift.io/cluster-api-delete-machine";
/// Its presence pauses a MachineHealthCheck.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// How a MachineHealthCheck remediates.
pub const REMEDIATION_STRATEGY: &str = "machine.openshift.io/remediation-strategy";
/// Asks the bare metal provider to power-cycle a Machine.
pub const EXTERNAL_REMEDIATION: &str = "host.metal3.io/external-remediation";
/// Deployment bookkeeping: the revision of a MachineSet.
pub const REVISION: &str = "machinedeployment.clusters.k8s.io/revision";
/// Deployment bookkeeping: earlier revisions of a MachineSet.
pub const REVISION_HISTORY: &str = "machinedeployment.clusters.k8s.io/revision-history";
/// Deployment bookkeeping: replicas that the deployment wants.
pub const DESIRED_REPLICAS: &str = "machinedeployment.clusters.k8s.io/desired-replicas";
/// Deployment bookkeeping: replicas that the deployment may have while it rolls.
pub const MAX_REPLICAS: &str = "machinedeployment.clusters.k8s.io/max-replicas";

/// On a node: keeps it at the config it runs, whatever its pool wants. The value says why.
pub const HOLD: &str = "machinist.dev/hold";
/// On a node: the `desiredConfig` that a person set and that was answered by a [`HOLD`]. Once the hold is taken off, the
/// same value is no request any more. Written by the rollout controller, and removed with its next target.
pub const HELD_CONFIG: &str = "machinist.dev/held-config";
/// On a node: carry out the change although a check refuses it. The value is the config it is meant for.
pub const FORCE: &str = "machinist.dev/force";
/// On a pool: the config that may be tried again although a trial of it was reverted.
pub const APPROVE: &str = "machinist.dev/approve";
/// On a node: the config whose trial was reverted here.
pub const REVERTED: &str = "machinist.dev/reverted";
/// On a node: its daemon is ours, which accepts a new target while it works. The value is the daemon's version.
pub const DAEMON: &str = "machinist.dev/daemon";
/// On a node: its daemon is asked to repeat this value as [`ANSWERED`]. Written by the rollout controller to nodes that
/// are down or did not answer a target.
pub const PROBE: &str = "machinist.dev/probe";
/// On a node: the last [`PROBE`] that its daemon has seen; empty while there was none.
pub const ANSWERED: &str = "machinist.dev/answered";
/// On a node that is drained: whose cordon it is, [`crate::names::cordon`]. Written by the drain controller.
pub const CORDONED_BY: &str = "machinist.dev/cordoned-by";
/// On a node that is drained: since when, RFC 3339. Written by the drain controller.
pub const DRAIN_STARTED: &str = "machinist.dev/drain-started";
/// On a node: touched to make a late write of a deposed rollout controller conflict.
pub const FENCE: &str = "machinist.dev/fence";
/// On a MachineConfig that we generated: the kind and name of the object it was made from. A generated MachineConfig
/// without it comes from another controller and is kept as it is.
pub const GENERATED_FROM: &str = "machinist.dev/generated-from";
/// On a MachineConfig that another controller generated: a person wants ours in its place. The value says nothing.
pub const ADOPT: &str = "machinist.dev/adopt";
/// On a MachineConfig generated from a KubeletConfig or ContainerRuntimeConfig: what was accepted last, which stays in force
/// while the object cannot be read.
pub const ACCEPTED_SETTINGS: &str = "machinist.dev/accepted-settings";
/// On a MachineConfig generated from several KubeletConfigs: for each field, the KubeletConfig whose word stands.
pub const FIELD_PROVENANCE: &str = "machinist.dev/field-provenance";
/// On a MachineConfig that we generated: a hash of its content, by which an edit is told from a new content of ours.
pub const CONTENT_HASH: &str = "machinist.dev/content-hash";
/// On a generated MachineConfig: objects that are left out of it or not wholly in force, and why.
pub const LEFT_OUT: &str = "machinist.dev/left-out";
