//! The objects that the config server reads and writes. RBAC is generated from this table.

use cluster::rights::{Right, Role, WATCH};

const MACHINE_CONFIG: &str = api::machineconfiguration::GROUP;
const OURS: &str = api::machinist::GROUP;
const MACHINE: &str = api::machine::GROUP;

const fn right(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Right {
    Right { group, resource, verbs }
}

/// The permissions of `machinist server`.
pub const ROLES: [Role; 1] = [Role {
    name: "server",
    everywhere: &[
        right(MACHINE_CONFIG, "machineconfigpools", WATCH),
        right(MACHINE_CONFIG, "controllerconfigs", WATCH),
        right(MACHINE_CONFIG, "machineosconfigs", WATCH),
        right(MACHINE_CONFIG, "machineosbuilds", WATCH),
        // Read by name when a machine asks for it.
        right(MACHINE_CONFIG, "machineconfigs", &["get"]),
        right(OURS, "poolpolicies", WATCH),
        right(OURS, "bootstraptokens", WATCH),
        // Uses are counted here.
        right(OURS, "bootstraptokens/status", &["update"]),
        right(MACHINE, "machines", WATCH),
        // Tells whether the first boot of a machine without a Machine is over.
        right("", "nodes", &["get"]),
        // The condition that tells how a first boot went.
        right(MACHINE, "machines/status", &["patch"]),
        // Also in the namespace of Machines.
        right("events.k8s.io", "events", &["create", "patch"]),
    ],
    at_home: &[],
}];
