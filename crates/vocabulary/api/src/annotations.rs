//! Annotation keys. On a node they are the protocol between controller and daemon.

/// Rendered config that the node runs. Written by the daemon.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Rendered config that the node should run. Written by the rollout controller.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// OS image that a node of a layered pool runs. Written by the daemon.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// OS image that a node of a layered pool should run. Written by the rollout controller.
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// One of [`crate::names::state`]. Written by the daemon; missing or empty means that it never reported.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Why the node is in its state; empty without a problem. Written by the daemon.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// `Rebooting` from just before a reboot until the daemon has restarted, otherwise empty. Written by the daemon.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// The daemon's request to the drain controller: `drain-<config>` or `uncordon-<config>`.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// The last [`DESIRED_DRAIN`] that the drain controller has completed.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// `HighlyAvailable`, `SingleReplica`, …; with a single replica the daemon does not request drains.
pub const CONTROL_PLANE_TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";
/// Resource version of the ControllerConfig whose certificates are on disk. Written by the daemon.
pub const LAST_SYNCED_CONTROLLER_CONFIG: &str =
    "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion";
/// On the Secret of nodes' credentials: the resource version of the ControllerConfig that it was made from.
pub const CONTROLLER_CONFIG_VERSION: &str = "machinist.dev/controller-config-version";
/// Last value of [`SERVICE_CA_ROTATE`] that the daemon has seen.
pub const LAST_OBSERVED_SERVER_CA: &str = "machineconfiguration.openshift.io/lastObservedServerCAAnnotation";
/// Rendered config that the node first booted with.
pub const FIRST_PIVOT_CONFIG: &str = "machineconfiguration.openshift.io/firstPivotConfig";
/// Present once a node that first booted in a custom pool got the labels of that pool.
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
/// Requests a new build of a MachineOSConfig.
pub const REBUILD: &str = "machineconfiguration.openshift.io/rebuild";
/// When managed boot images became the default on this cluster.
pub const BOOT_IMAGE_OPTED_IN_AT: &str = "machineconfiguration.openshift.io/boot-image-updates-opted-in-at";

/// `<namespace>/<name>` of a node's Machine.
pub const MACHINE: &str = "machine.openshift.io/machine";
/// Spelling of [`MACHINE`] from 2019.
pub const MACHINE_OLD: &str = "machine";
/// The provider's own name for the instance's state.
pub const INSTANCE_STATE: &str = "machine.openshift.io/instance-state";
/// Present on a Machine to skip the drain before its deletion.
pub const EXCLUDE_NODE_DRAINING: &str = "machine.openshift.io/exclude-node-draining";
/// A value here makes a Machine the first to be deleted when its set is scaled down.
pub const DELETE_MACHINE: &str = "machine.openshift.io/delete-machine";
/// Older spelling of [`DELETE_MACHINE`].
pub const DELETE_MACHINE_OLD: &str = "machine.openshift.io/cluster-api-delete-machine";
/// Present on a MachineHealthCheck to pause it.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// How a MachineHealthCheck remediates.
pub const REMEDIATION_STRATEGY: &str = "machine.openshift.io/remediation-strategy";
/// Requests a power cycle of a Machine from the bare metal provider.
pub const EXTERNAL_REMEDIATION: &str = "host.metal3.io/external-remediation";
/// Bookkeeping of deployments: the revision of a MachineSet.
pub const REVISION: &str = "machinedeployment.clusters.k8s.io/revision";
/// Bookkeeping of deployments: earlier revisions of a MachineSet.
pub const REVISION_HISTORY: &str = "machinedeployment.clusters.k8s.io/revision-history";
/// Bookkeeping of deployments: the desired replicas of the deployment.
pub const DESIRED_REPLICAS: &str = "machinedeployment.clusters.k8s.io/desired-replicas";
/// Bookkeeping of deployments: the replicas that the deployment may have during a rollout.
pub const MAX_REPLICAS: &str = "machinedeployment.clusters.k8s.io/max-replicas";

/// On a node: keeps it on its current config, whatever its pool wants. The value is the reason.
pub const HOLD: &str = "machinist.dev/hold";
/// On a node: the `desiredConfig` that a user set and that was answered by a [`HOLD`]. After the hold is removed, the
/// same value is no longer a request. Written by the rollout controller, and removed with its next target.
pub const HELD_CONFIG: &str = "machinist.dev/held-config";
/// On a node: applies the change even if a check refuses it. The value is the config this applies to.
pub const FORCE: &str = "machinist.dev/force";
/// On a pool: the config that may be tried again although a trial of it was reverted.
pub const APPROVE: &str = "machinist.dev/approve";
/// On a node: the config whose trial was reverted on this node.
pub const REVERTED: &str = "machinist.dev/reverted";
/// On a node: how its host updates its operating system, as our own daemon says: `rpm-ostree`, `bootc` or `none`.
pub const OS_UPDATES: &str = "machinist.dev/os-updates";
/// On a node: set by our own daemon, which accepts a new target while it works. The value is its version.
pub const DAEMON: &str = "machinist.dev/daemon";
/// On a node: a probe that the daemon must echo as [`ANSWERED`]. Written by the rollout controller to nodes that are
/// down or have not responded to a target.
pub const PROBE: &str = "machinist.dev/probe";
/// On a node: the last [`PROBE`] that its daemon has seen; empty if there was none.
pub const ANSWERED: &str = "machinist.dev/answered";
/// On a node during a drain: who cordoned it, see [`crate::names::cordon`]. Written by the drain controller.
pub const CORDONED_BY: &str = "machinist.dev/cordoned-by";
/// On a node during a drain: when the drain started, in RFC 3339. Written by the drain controller.
pub const DRAIN_STARTED: &str = "machinist.dev/drain-started";
/// On a node: changed to make a late write of a deposed rollout controller conflict.
pub const FENCE: &str = "machinist.dev/fence";
/// On a MachineConfig that we generated: the kind and name of its source object. A generated MachineConfig without this
/// annotation comes from another controller and is not changed.
pub const GENERATED_FROM: &str = "machinist.dev/generated-from";
/// On a MachineConfig that another controller generated: a user wants to replace it with ours. The value does not
/// matter.
pub const ADOPT: &str = "machinist.dev/adopt";
/// On a MachineConfig generated from a KubeletConfig or ContainerRuntimeConfig: the last accepted settings, which stay
/// in force while the object is invalid.
pub const ACCEPTED_SETTINGS: &str = "machinist.dev/accepted-settings";
/// On a MachineConfig generated from several KubeletConfigs: for each field, the KubeletConfig that determines it.
pub const FIELD_PROVENANCE: &str = "machinist.dev/field-provenance";
/// On a MachineConfig that we generated: a hash of its content, which distinguishes a manual edit from new content of
/// ours.
pub const CONTENT_HASH: &str = "machinist.dev/content-hash";
/// On a generated MachineConfig: objects that are left out of it or only partly in force, and why.
pub const LEFT_OUT: &str = "machinist.dev/left-out";
/// On a MachineConfig of another controller that is kept: a fingerprint of what it was made from when we first saw it. Once
/// that changes, ours replaces it.
pub const KEPT_INPUTS: &str = "machinist.dev/kept-inputs";
/// On an object of a kind that has no conditions: why it is accepted and does nothing, and what to do instead.
pub const IGNORED: &str = "machinist.dev/ignored";
/// On a node: the PinnedImageSets of its pool, `NAME@GENERATION` separated by commas. Written by the rollout controller; the daemon
/// pulls and pins what they name.
pub const PINNED_IMAGE_SETS: &str = "machinist.dev/pinned-image-sets";
/// On a node: asks its daemon for hashes or contents of some files, see [`crate::survey`]. The answer is its NodeSurvey. Written and
/// removed by `machinist adopt`.
pub const SURVEY: &str = "machinist.dev/survey";
/// On a paused pool: who paused it.
pub const PAUSE_BY: &str = "machinist.dev/pause-by";
/// On a paused pool: why it is paused.
pub const PAUSE_REASON: &str = "machinist.dev/pause-reason";
/// On a paused pool: when the pause ends by itself, RFC 3339. Removed when it does.
pub const PAUSE_UNTIL: &str = "machinist.dev/pause-until";
