//! What each controller reads and writes. RBAC and the documentation are generated from this table.

/// One controller's rights.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub name: &'static str,
    /// Kinds it lists and watches.
    pub watches: &'static [&'static str],
    /// Objects and fields it writes, and no others.
    pub writes: &'static [&'static str],
}

pub const ROLES: [Role; 4] = [
    Role {
        name: "render",
        watches: &[
            "MachineConfigPool",
            "MachineConfig",
            "ControllerConfig",
            "PoolPolicy",
            "RenderedProvenance",
            "ClusterSettings",
            "MachineConfiguration",
            "Node",
        ],
        writes: &["MachineConfig", "MachineConfigPool.spec.configuration", "RenderedProvenance"],
    },
    Role {
        name: "rollout",
        watches: &[
            "MachineConfigPool",
            "Node",
            "MachineConfigNode",
            "PoolLedger",
            "PoolPolicy",
            "ControllerConfig",
            "Pod",
        ],
        writes: &[
            "PoolLedger",
            "Node.metadata.annotations",
            "Node.spec.taints",
            "MachineConfigPool.status",
            "MachineConfigNode.status",
        ],
    },
    Role {
        name: "drain",
        watches: &["Node", "Pod", "PodDisruptionBudget", "DaemonSet", "MachineConfigNode"],
        writes: &["Node.metadata.annotations", "Node.spec.unschedulable", "Pod.eviction", "MachineConfigNode.status"],
    },
    Role { name: "process", watches: &["Namespace"], writes: &["Lease", "Event", "Namespace"] },
];
