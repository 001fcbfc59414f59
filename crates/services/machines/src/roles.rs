//! What each controller reads and writes. RBAC is generated from this table.

use cluster::rights::{PROCESS, Role, WATCH, right};

const MACHINE: &str = api::machine::GROUP;

/// The rights of `machinist machines`.
pub const ROLES: [Role; 7] = [
    Role {
        name: "machine",
        everywhere: &[
            right(MACHINE, "machines", WATCH),
            // Finalizer, intent, provider ID, labels and annotations, always with a resource version.
            right(MACHINE, "machines", &["patch"]),
            right(MACHINE, "machines/status", &["patch"]),
            right("", "nodes", &["get", "list", "watch", "patch", "delete"]),
            right("", "pods", WATCH),
            right("", "pods/eviction", &["create"]),
            right("policy", "poddisruptionbudgets", WATCH),
            right("apps", "daemonsets", WATCH),
            // The platform's region, endpoints and resource groups.
            right("config.openshift.io", "infrastructures", &["get"]),
            // How far a machine came that does not join.
            right(api::machinist::GROUP, "bootstraptokens", &["list"]),
            right("certificates.k8s.io", "certificatesigningrequests", &["list"]),
            // Hosts that Metal3 manages, always with a resource version.
            right("metal3.io", "baremetalhosts", &["get", "list", "patch"]),
            // Credentials and user data, by the names in the specs.
            right("", "secrets", &["get"]),
            // Addresses from pools, on vSphere.
            right("ipam.cluster.x-k8s.io", "ipaddressclaims", &["get", "create", "patch", "delete"]),
            right("ipam.cluster.x-k8s.io", "ipaddresses", &["get"]),
            right("events.k8s.io", "events", &["create", "patch"]),
        ],
        at_home: &[],
    },
    Role {
        name: "machineset",
        everywhere: &[
            right(MACHINE, "machinesets", WATCH),
            // What a machine would offer, for the autoscaler, always with a resource version.
            right(MACHINE, "machinesets", &["patch"]),
            right(MACHINE, "machinesets/status", &["patch"]),
            // Machines carry an owner reference that blocks the deletion of their set.
            right(MACHINE, "machinesets/finalizers", &["update"]),
            right(MACHINE, "machines", &["get", "list", "watch", "create", "patch", "delete"]),
            right("", "nodes", WATCH),
        ],
        at_home: &[],
    },
    Role {
        name: "nodelink",
        everywhere: &[
            right(MACHINE, "machines", WATCH),
            right(MACHINE, "machines/status", &["patch"]),
            // The annotation, labels and taints, always with a resource version.
            right("", "nodes", &["get", "list", "watch", "patch"]),
        ],
        at_home: &[],
    },
    Role {
        name: "machinedeployment",
        everywhere: &[
            right(MACHINE, "machinedeployments", WATCH),
            right(MACHINE, "machinedeployments", &["patch"]),
            right(MACHINE, "machinedeployments/status", &["patch"]),
            right(MACHINE, "machinedeployments/finalizers", &["update"]),
            right(MACHINE, "machinesets", &["get", "list", "watch", "create", "patch", "delete"]),
        ],
        at_home: &[],
    },
    Role {
        name: "controlplanemachineset",
        everywhere: &[
            right(MACHINE, "controlplanemachinesets", WATCH),
            // The claim before a machine is deleted, always with a resource version.
            right(MACHINE, "controlplanemachinesets", &["patch"]),
            right(MACHINE, "controlplanemachinesets/status", &["patch"]),
            right(MACHINE, "controlplanemachinesets/finalizers", &["update"]),
            right(MACHINE, "machines", &["get", "list", "watch", "create", "patch", "delete"]),
            right("", "nodes", WATCH),
            // Etcd's pods, and how many members there were.
            right("", "pods", WATCH),
            right(api::machinist::GROUP, "poolledgers", &["get"]),
        ],
        at_home: &[],
    },
    Role {
        name: "machinehealthcheck",
        everywhere: &[
            right(MACHINE, "machinehealthchecks", WATCH),
            // The claim before a machine is remediated, always with a resource version.
            right(MACHINE, "machinehealthchecks", &["patch"]),
            right(MACHINE, "machinehealthchecks/status", &["patch"]),
            right(api::healthchecking::GROUP, "machinehealthchecks", WATCH),
            right(api::healthchecking::GROUP, "machinehealthchecks", &["patch"]),
            right(MACHINE, "machines", &["get", "list", "watch", "patch", "delete"]),
            right("", "nodes", &["get", "list", "watch", "patch"]),
            // Templates and requests for remediation. Those of other groups need a role of their own, bound to the same
            // service account.
            right("infrastructure.cluster.x-k8s.io", "*", &["get", "list", "create", "delete"]),
        ],
        // What checks of 2019 go by.
        at_home: &[right("", "configmaps", &["get"])],
    },
    PROCESS,
];
