//! How discovery orders groups: the real server's numbers, which its APIServices carry.

/// Definitions come after everything built in, and their versions are told apart by their names.
const CUSTOM: Priority = Priority { group: 1000, version: 100 };

/// The group that lists the others comes before them and is not listed itself.
pub(crate) const LISTING: &str = "apiregistration.k8s.io";

/// The higher number comes first, among groups and among the versions of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Priority {
    pub group: i64,
    pub version: i64,
}

pub(crate) fn of(group: &str, version: &str) -> Priority {
    let (groups, version) = match (group, version) {
        (LISTING, _) => return Priority { group: 20000, version: 1000 },
        ("", "v1") => return Priority { group: 18000, version: 1 },
        ("autoscaling", "v2") => (group, 30),
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => (group, 21),
        (_, "v1") => (group, 15),
        _ => return CUSTOM,
    };
    let group = match groups {
        "apps" => 17800,
        "events.k8s.io" => 17750,
        "authentication.k8s.io" => 17700,
        "authorization.k8s.io" => 17600,
        "autoscaling" => 17500,
        "batch" => 17400,
        "certificates.k8s.io" => 17300,
        "networking.k8s.io" => 17200,
        "policy" => 17100,
        "rbac.authorization.k8s.io" => 17000,
        "storage.k8s.io" => 16800,
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" => 16700,
        "scheduling.k8s.io" => 16600,
        "coordination.k8s.io" => 16500,
        "node.k8s.io" => 16300,
        "discovery.k8s.io" | "resource.k8s.io" => 16200,
        "flowcontrol.apiserver.k8s.io" => 16100,
        _ => return CUSTOM,
    };
    Priority { group, version }
}
