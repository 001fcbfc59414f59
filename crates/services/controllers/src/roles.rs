//! What each controller reads and writes. RBAC is generated from this table.

use cluster::rights::{PROCESS, Role, WATCH, right};

const MACHINE_CONFIG: &str = api::machineconfiguration::GROUP;
const OURS: &str = api::machinist::GROUP;
const CONFIG: &str = api::config::GROUP;
const RBAC: &str = "rbac.authorization.k8s.io";

/// Generated MachineConfigs, and status and finalizers of what they are made from.
const GENERATE: Role = Role {
    name: "generate",
    everywhere: &[
        right(MACHINE_CONFIG, "machineconfigpools", WATCH),
        right(MACHINE_CONFIG, "machineconfigs", WATCH),
        right(MACHINE_CONFIG, "machineconfigs", &["create", "update", "delete"]),
        right(MACHINE_CONFIG, "controllerconfigs", WATCH),
        right(MACHINE_CONFIG, "controllerconfigs/status", &["patch"]),
        right(MACHINE_CONFIG, "kubeletconfigs", WATCH),
        right(MACHINE_CONFIG, "kubeletconfigs", &["patch"]),
        right(MACHINE_CONFIG, "kubeletconfigs/status", &["patch"]),
        right(MACHINE_CONFIG, "containerruntimeconfigs", WATCH),
        right(MACHINE_CONFIG, "containerruntimeconfigs", &["patch"]),
        right(MACHINE_CONFIG, "containerruntimeconfigs/status", &["patch"]),
        // An owner reference that blocks deletion needs the right to update the owner's finalizers.
        right(MACHINE_CONFIG, "controllerconfigs/finalizers", &["update"]),
        right(MACHINE_CONFIG, "kubeletconfigs/finalizers", &["update"]),
        right(MACHINE_CONFIG, "containerruntimeconfigs/finalizers", &["update"]),
        right(CONFIG, "apiservers", WATCH),
        right(CONFIG, "featuregates", WATCH),
        right(CONFIG, "images", WATCH),
        // The annotation that says what they do not do.
        right(CONFIG, "apiservers", &["patch"]),
        right(CONFIG, "featuregates", &["patch"]),
        right(CONFIG, "images", &["patch"]),
        right(CONFIG, "nodes", &["patch"]),
        right(CONFIG, "imagedigestmirrorsets", WATCH),
        right(CONFIG, "imagetagmirrorsets", WATCH),
        right(CONFIG, "nodes", WATCH),
        right(CONFIG, "nodes/status", &["patch"]),
        right(CONFIG, "clusterimagepolicies", WATCH),
        right(CONFIG, "clusterimagepolicies/status", &["patch"]),
        right(CONFIG, "imagepolicies", WATCH),
        right(CONFIG, "imagepolicies/status", &["patch"]),
        right(api::operator::GROUP, "imagecontentsourcepolicies", WATCH),
        // Objects that do nothing are told so.
        right(MACHINE_CONFIG, "machineosconfigs", WATCH),
        right(MACHINE_CONFIG, "machineosconfigs/status", &["patch"]),
        right(MACHINE_CONFIG, "machineosbuilds", WATCH),
        right(MACHINE_CONFIG, "machineosbuilds/status", &["patch"]),
        right(MACHINE_CONFIG, "pinnedimagesets", WATCH),
        right(MACHINE_CONFIG, "pinnedimagesets", &["patch"]),
        right(api::operator::GROUP, "machineconfigurations", WATCH),
        right(api::operator::GROUP, "machineconfigurations/status", &["patch"]),
        right(api::cluster::GROUP, "clusters", WATCH),
        right(api::cluster::GROUP, "clusters", &["patch"]),
        right(api::cluster::GROUP, "machines", WATCH),
        right(api::cluster::GROUP, "machines", &["patch"]),
        right(api::cluster::GROUP, "machinesets", WATCH),
        right(api::cluster::GROUP, "machinesets", &["patch"]),
        right(api::cluster::GROUP, "machinedeployments", WATCH),
        right(api::cluster::GROUP, "machinedeployments", &["patch"]),
        right(OURS, "clustersettings", WATCH),
        right(OURS, "keptconfigs", WATCH),
        right(OURS, "keptconfigs", &["create", "update", "delete"]),
        // The annotation that names a node's PinnedImageSets.
        right("", "nodes", &["get", "list", "watch", "patch"]),
        // Events about ImagePolicies are written beside them.
        right("events.k8s.io", "events", &["create", "patch"]),
    ],
    at_home: &[],
};

/// The rights of `machinist controller`.
pub const ROLES: [Role; 7] = [
    GENERATE,
    Role {
        name: "render",
        everywhere: &[
            right(MACHINE_CONFIG, "machineconfigpools", WATCH),
            // Server-side apply of `spec.configuration`.
            right(MACHINE_CONFIG, "machineconfigpools", &["patch"]),
            right(MACHINE_CONFIG, "machineconfigs", WATCH),
            right(MACHINE_CONFIG, "machineconfigs", &["create", "update", "delete"]),
            right(MACHINE_CONFIG, "controllerconfigs", WATCH),
            right(api::operator::GROUP, "machineconfigurations", WATCH),
            right(OURS, "poolpolicies", WATCH),
            right(OURS, "clustersettings", WATCH),
            right(OURS, "renderedprovenances", WATCH),
            right(OURS, "renderedprovenances", &["create", "patch", "delete"]),
            right("", "nodes", WATCH),
        ],
        at_home: &[],
    },
    Role {
        name: "rollout",
        everywhere: &[
            right(MACHINE_CONFIG, "machineconfigpools", WATCH),
            right(MACHINE_CONFIG, "machineconfigpools/status", &["patch"]),
            right(MACHINE_CONFIG, "machineconfignodes", WATCH),
            right(MACHINE_CONFIG, "machineconfignodes", &["create", "patch", "delete"]),
            right(MACHINE_CONFIG, "machineconfignodes/status", &["patch"]),
            right(MACHINE_CONFIG, "controllerconfigs", WATCH),
            // Which images nodes pull in advance is told to them by an annotation.
            right(MACHINE_CONFIG, "pinnedimagesets", WATCH),
            right(api::config::GROUP, "schedulers", WATCH),
            right(OURS, "poolpolicies", WATCH),
            right(OURS, "poolledgers", WATCH),
            right(OURS, "poolledgers", &["create", "update"]),
            // Annotations, labels and taints, always with a resource version.
            right("", "nodes", &["get", "list", "watch", "patch"]),
            // Etcd's pods.
            right("", "pods", WATCH),
            // What a machine that was born into a custom pool was let in with.
            right(OURS, "bootstraptokens", &["list"]),
            right(api::machine::GROUP, "machines", &["get"]),
        ],
        at_home: &[],
    },
    // Who reads which config. RBAC lets nobody grant more than they have, and admission holds the names to those of pools.
    Role {
        name: "access",
        everywhere: &[
            // What a pool's nodes may read of images; nobody can grant more than they have.
            right(MACHINE_CONFIG, "pinnedimagesets", &["get"]),
            right(RBAC, "clusterroles", WATCH),
            right(RBAC, "clusterroles", &["create", "patch"]),
            right(RBAC, "clusterrolebindings", WATCH),
            right(RBAC, "clusterrolebindings", &["create", "patch"]),
        ],
        at_home: &[],
    },
    Role {
        name: "pause",
        everywhere: &[
            right(MACHINE_CONFIG, "machineconfigpools", WATCH),
            // `spec.paused` and the notes about it, always with a resource version.
            right(MACHINE_CONFIG, "machineconfigpools", &["patch"]),
        ],
        at_home: &[],
    },
    Role {
        name: "drain",
        everywhere: &[
            right("", "nodes", &["get", "list", "watch", "patch"]),
            right("", "pods", WATCH),
            right("", "pods/eviction", &["create"]),
            right("policy", "poddisruptionbudgets", WATCH),
            right("apps", "daemonsets", WATCH),
            right(MACHINE_CONFIG, "machineconfignodes/status", &["patch"]),
        ],
        at_home: &[],
    },
    PROCESS,
];
