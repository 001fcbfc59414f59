//! Label keys and taints.

/// On a MachineConfig: its role. Pools select by it, and it determines the merge order.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";
/// On the pools that every cluster has.
pub const MCO_BUILT_IN: &str = "machineconfiguration.openshift.io/mco-built-in";
/// On a pool that must be updated before the operator reports an upgrade as complete.
pub const REQUIRED_FOR_UPGRADE: &str = "operator.machineconfiguration.openshift.io/required-for-upgrade";
/// On a pool, followed by its name: selectors of KubeletConfig and ContainerRuntimeConfig use it.
pub const POOL_PREFIX: &str = "pools.operator.machineconfiguration.openshift.io/";
/// Older opt-in of a pool into OS image layering.
pub const LAYERING_ENABLED: &str = "machineconfiguration.openshift.io/layering-enabled";
/// Older request for a new image build.
pub const REBUILD_IMAGE: &str = "machineconfiguration.openshift.io/rebuildImage";
/// On CRDs that upstream's operator watches.
pub const OPERATOR_MANAGED: &str = "openshift.io/operator-managed";

/// On a rendered config: the pool it was rendered for. It replaces an owner reference, with which the deletion of a
/// pool would garbage-collect a config that nodes still run.
pub const RENDERED_FOR: &str = "machinist.dev/rendered-for";

/// Prefix of a node's role.
pub const NODE_ROLE_PREFIX: &str = "node-role.kubernetes.io/";
pub const NODE_ROLE_MASTER: &str = "node-role.kubernetes.io/master";
pub const NODE_ROLE_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
pub const NODE_ROLE_WORKER: &str = "node-role.kubernetes.io/worker";
pub const NODE_ROLE_ARBITER: &str = "node-role.kubernetes.io/arbiter";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const OS: &str = "kubernetes.io/os";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";

/// On a Machine: the cluster its cloud resources belong to.
pub const MACHINE_CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";
pub const MACHINE_ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
pub const MACHINE_TYPE: &str = "machine.openshift.io/cluster-api-machine-type";
pub const MACHINE_SET: &str = "machine.openshift.io/cluster-api-machineset";
pub const MACHINE_REGION: &str = "machine.openshift.io/region";
pub const MACHINE_ZONE: &str = "machine.openshift.io/zone";
pub const MACHINE_INSTANCE_TYPE: &str = "machine.openshift.io/instance-type";
pub const INTERRUPTIBLE_INSTANCE: &str = "machine.openshift.io/interruptible-instance";
pub const MACHINE_TEMPLATE_HASH: &str = "machine-template-hash";

/// Taint (`PreferNoSchedule`) of nodes that wait for an update or are being updated.
pub const TAINT_UPDATE_IN_PROGRESS: &str = "UpdateInProgress";

/// On every object of an installation, with the value [`PART_OF_MACHINIST`].
pub const PART_OF: &str = "app.kubernetes.io/part-of";
pub const PART_OF_MACHINIST: &str = "machinist";
/// On workloads and their pods: the name that runbooks select by.
pub const K8S_APP: &str = "k8s-app";
