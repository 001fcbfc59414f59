//! What the operator reads and writes, and what the daemon may do with its pod's account.
//!
//! The operator hands out rights, and the API server lets nobody hand out what they do not have. So its role is its own
//! table and those of the processes it looks after, put together by the binary.

use cluster::rights::{PROCESS, Right, Role, WATCH, right};
use serde_json::{Value, json};

const WRITE: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
const KEEP: &[&str] = &["create", "patch"];
const MCO: &str = "machineconfiguration.openshift.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub const ROLES: &[Role] = &[
    Role {
        name: "keep",
        everywhere: &[
            Right { group: "", resource: "namespaces", verbs: WRITE },
            Right { group: "", resource: "nodes", verbs: WATCH },
            // The API's own, and DNS.
            Right { group: "", resource: "services", verbs: WATCH },
            Right { group: "", resource: "configmaps", verbs: WATCH },
            // Another operator is found by its Deployment.
            Right { group: "apps", resource: "deployments", verbs: &["get"] },
            Right { group: "apiextensions.k8s.io", resource: "customresourcedefinitions", verbs: WRITE },
            Right { group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", verbs: WRITE },
            Right {
                group: "admissionregistration.k8s.io",
                resource: "validatingadmissionpolicybindings",
                verbs: WRITE,
            },
            Right { group: RBAC, resource: "clusterroles", verbs: WRITE },
            Right { group: RBAC, resource: "clusterrolebindings", verbs: WRITE },
            Right { group: RBAC, resource: "roles", verbs: WRITE },
            Right { group: RBAC, resource: "rolebindings", verbs: WRITE },
            Right { group: MCO, resource: "machineconfigpools", verbs: WRITE },
            Right { group: MCO, resource: "controllerconfigs", verbs: WRITE },
            Right { group: "machinist.dev", resource: "clustersettings", verbs: WRITE },
            Right { group: "machinist.dev", resource: "poolpolicies", verbs: WATCH },
            Right { group: "operator.openshift.io", resource: "machineconfigurations", verbs: WRITE },
            Right {
                group: "operator.openshift.io",
                resource: "machineconfigurations/status",
                verbs: &["get", "patch"],
            },
            Right { group: "discovery.k8s.io", resource: "endpointslices", verbs: &["list"] },
            Right { group: "config.openshift.io", resource: "infrastructures", verbs: &["get"] },
            Right { group: "config.openshift.io", resource: "dnses", verbs: &["get"] },
            Right { group: "config.openshift.io", resource: "proxies", verbs: &["get"] },
        ],
        at_home: &[
            Right { group: "", resource: "configmaps", verbs: WRITE },
            Right { group: "", resource: "pods", verbs: WATCH },
            Right { group: "", resource: "services", verbs: WRITE },
            Right { group: "", resource: "serviceaccounts", verbs: WRITE },
            Right { group: "apps", resource: "deployments", verbs: WRITE },
            Right { group: "apps", resource: "daemonsets", verbs: WRITE },
            Right { group: "networking.k8s.io", resource: "networkpolicies", verbs: WRITE },
            Right { group: "policy", resource: "poddisruptionbudgets", verbs: WRITE },
            Right { group: "monitoring.coreos.com", resource: "prometheusrules", verbs: WRITE },
            Right { group: "monitoring.coreos.com", resource: "servicemonitors", verbs: WRITE },
        ],
    },
    Role {
        name: "report",
        everywhere: &[
            Right { group: "config.openshift.io", resource: "clusteroperators", verbs: WRITE },
            Right { group: "config.openshift.io", resource: "clusteroperators/status", verbs: &["get", "patch"] },
        ],
        at_home: &[Right {
            group: "coordination.k8s.io",
            resource: "leases",
            verbs: &["get", "list", "watch", "create", "patch", "update"],
        }],
    },
    Role {
        name: "tell",
        // Events about namespaced objects are written beside them.
        everywhere: &[Right { group: "events.k8s.io", resource: "events", verbs: KEEP }],
        at_home: &[],
    },
    Role {
        name: "new machines",
        everywhere: &[
            Right { group: "machinist.dev", resource: "bootstraptokens", verbs: WRITE },
            Right { group: "machine.openshift.io", resource: "machines", verbs: WATCH },
            Right { group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: WATCH },
            Right {
                group: "certificates.k8s.io",
                resource: "certificatesigningrequests/approval",
                verbs: &["patch", "update"],
            },
            // What it hands to kubelets that have nothing yet.
            Right { group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: &["create"] },
        ],
        at_home: &[
            Right { group: "", resource: "secrets", verbs: WRITE },
            Right { group: "", resource: "serviceaccounts/token", verbs: &["create"] },
        ],
    },
];

/// What every daemon does beside reading its config. The pod's account has these rights only where daemons use it, and
/// admission then holds it to the Node and MachineConfigNode of the node the pod runs on. Which configs a node reads is up
/// to the controller.
pub const DAEMON_ROLES: &[Role] = &[Role {
    name: "daemon",
    everywhere: &[
        Right { group: "", resource: "nodes", verbs: &["get", "list", "watch", "patch"] },
        Right { group: MCO, resource: "machineconfignodes", verbs: &["get", "create", "patch", "update"] },
        Right { group: MCO, resource: "machineconfignodes/status", verbs: &["get", "create", "patch", "update"] },
        Right { group: "machinist.dev", resource: "poolpolicies", verbs: &["get"] },
        Right { group: "machinist.dev", resource: "clustersettings", verbs: &["get"] },
        // Answers to `machinist adopt`. No node reads another's.
        Right { group: "machinist.dev", resource: "nodesurveys", verbs: &["create", "patch"] },
        Right { group: "operator.openshift.io", resource: "machineconfigurations", verbs: &["get"] },
        Right { group: "events.k8s.io", resource: "events", verbs: KEEP },
    ],
    at_home: &[],
}];

/// What the daemons' account needs where daemons use it: it is one account for the nodes of all pools.
const EVERY_CONFIG: Role = Role {
    name: "every config",
    everywhere: &[
        Right { group: MCO, resource: "machineconfigs", verbs: &["get"] },
        Right { group: MCO, resource: "pinnedimagesets", verbs: &["get"] },
    ],
    at_home: &[],
};

/// What the daemons' account needs to check who reads metrics. A kubelet's credential has these rights by the Node authorizer.
const REVIEWS: Role = Role {
    name: "metrics",
    everywhere: &[
        Right { group: "authentication.k8s.io", resource: "tokenreviews", verbs: &["create"] },
        Right { group: "authorization.k8s.io", resource: "subjectaccessreviews", verbs: &["create"] },
    ],
    at_home: &[],
};

/// What the account has where daemons do not use it: whoever is root on a node can get a token of any pod there. The role is
/// written nevertheless, by the operator alone, because that takes away what an earlier version or `--daemon-account` gave
/// once no daemon uses it any more. It names one harmless right, so that the role is not taken for a mistake.
const UNUSED: Role = Role {
    name: "unused",
    everywhere: &[Right { group: "machinist.dev", resource: "clustersettings", verbs: &["get"] }],
    at_home: &[],
};

/// The Machine API's operator. Everything that it changes but its report is in its own namespace.
pub const MACHINE_API_ROLES: &[Role] = &[
    Role {
        name: "deploy",
        everywhere: &[
            right("config.openshift.io", "infrastructures", &["get"]),
            right("config.openshift.io", "proxies", &["get"]),
            right("config.openshift.io", "featuregates", &["get"]),
            right("config.openshift.io", "apiservers", &["get"]),
        ],
        at_home: &[
            right("apps", "deployments", WRITE),
            right("", "services", WRITE),
            right("networking.k8s.io", "networkpolicies", WRITE),
            right("", "configmaps", WATCH),
            right("", "pods", WATCH),
        ],
    },
    Role {
        name: "report",
        everywhere: &[
            right("config.openshift.io", "clusteroperators", &["get", "list", "watch", "create", "patch"]),
            right("config.openshift.io", "clusteroperators/status", &["get", "patch"]),
        ],
        at_home: &[],
    },
    PROCESS,
];

/// What the table cannot say of the Machine API's operator: it may only touch the Secret and the configurations of
/// admission. Whoever creates something cannot be held to its name.
fn admission(namespace: &str) -> Vec<Value> {
    use operate::machine_api::webhook::{CONFIGURATION, SECRET};
    let account = operate::machine_api::OPERATOR;
    let name = format!("{account}-webhook");
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    let rules = |group: &str, resources: &[&str], of: &str, verbs: &[&str]| {
        json!([
            {"apiGroups": [group], "resources": resources, "resourceNames": [of], "verbs": verbs},
            {"apiGroups": [group], "resources": resources, "verbs": ["create"]},
        ])
    };
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let wide = rules("admissionregistration.k8s.io", &configurations, CONFIGURATION, &["get", "patch", "delete"]);
    let narrow = rules("", &["secrets"], SECRET, &["get", "patch"]);
    let object = |kind: &str, metadata: Value, part: &str, value: Value| {
        let mut object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, part: value});
        if part == "roleRef" {
            object["subjects"] = subjects.clone();
        }
        object
    };
    let (everywhere, home) = (json!({"name": name}), json!({"name": name, "namespace": namespace}));
    let of = |kind: &str| json!({"apiGroup": RBAC, "kind": kind, "name": name});
    vec![
        object("ClusterRole", everywhere.clone(), "rules", wide),
        object("ClusterRoleBinding", everywhere, "roleRef", of("ClusterRole")),
        object("Role", home.clone(), "rules", narrow),
        object("RoleBinding", home, "roleRef", of("Role")),
    ]
}

/// RBAC of the Machine API's operator and of its controllers, whose table is `machines`.
pub fn machine_access(installation: &operate::Installation, machines: &[Role]) -> Vec<Value> {
    let namespace = &installation.machine_namespace;
    let name = operate::machine_api::OPERATOR;
    let mut objects = cluster::rights::manifests(name, namespace, MACHINE_API_ROLES);
    objects.extend(cluster::rights::manifests(operate::machine_api::CONTROLLERS, namespace, machines));
    objects.extend(admission(namespace));
    // The install-config of 2019 names the platform.
    let (config, namespaced) = ("cluster-config-v1", json!({"name": name, "namespace": "kube-system"}));
    objects.push(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": namespaced,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config], "verbs": ["get"]}],
    }));
    objects.push(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": namespaced,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }));
    objects
}

/// What the table cannot say: which signers the operator may approve for, and what it may do in the machines' namespace.
fn approver(namespace: &str, machine_namespace: &str, source_namespace: &str) -> Vec<Value> {
    let name = operate::workloads::OPERATOR;
    let subject = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let signers = [operate::requests::CLIENT, operate::requests::SERVING];
    let binding = |kind: &str, metadata: Value, role: &str| {
        let of = if kind == "ClusterRoleBinding" { "ClusterRole" } else { "Role" };
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": of, "name": role}, "subjects": subject,
        })
    };
    let approver = format!("{name}-approver");
    let mut objects = vec![
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": approver},
            "rules": [{
                "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": signers, "verbs": ["approve"],
            }],
        }),
        binding("ClusterRoleBinding", json!({"name": approver}), &approver),
    ];
    let mut elsewhere = vec![];
    if machine_namespace != namespace {
        elsewhere.push((machine_namespace, json!(WRITE)));
    }
    if source_namespace != namespace {
        elsewhere.push((source_namespace, json!(WATCH)));
    }
    // The controller fills templates in with the pull secret.
    let controller = operate::workloads::CONTROLLER;
    let reader = format!("{controller}-pull-secret");
    objects.push(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": reader, "namespace": source_namespace},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["pull-secret"], "verbs": ["get"]}],
    }));
    objects.push(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": reader, "namespace": source_namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": reader},
        "subjects": [{"kind": "ServiceAccount", "name": controller, "namespace": namespace}],
    }));
    for (namespace, verbs) in elsewhere {
        objects.push(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name, "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}],
        }));
        objects.push(binding("RoleBinding", json!({"name": name, "namespace": namespace}), name));
    }
    objects
}

/// What a daemon may do with the kubelet's own credential, where it runs as a service of the host.
fn nodes() -> Vec<Value> {
    let mut rights: Vec<Right> = DAEMON_ROLES.iter().flat_map(|role| role.everywhere).copied().collect();
    // The Node authorizer gives each node its own Node, and no more.
    rights.retain(|right| right.resource != "nodes");
    let rules = serde_json::to_value(cluster::rights::rules(&rights)).unwrap_or_default();
    vec![
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "machinistd"}, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "machinistd"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "machinistd"},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"}],
        }),
    ]
}

/// The certificates that belong on every host are for every node, and for the daemons' account where that is used. Nodes have a
/// binding of their own: the other one is narrowed late (`operate::workloads::narrowed`).
fn node_credentials(installation: &operate::Installation) -> Vec<Value> {
    let (namespace, name) = (&installation.namespace, api::names::NODE_CREDENTIALS);
    let account = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
    let nodes = json!({"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"});
    let mut readers = vec![nodes.clone()];
    readers.extend(installation.daemon_account.then(|| account(operate::workloads::DAEMON)));
    let writer = format!("{name}-writer");
    let role = |role: &str, verbs: &[&str], subjects: Vec<Value>| {
        [
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": role, "namespace": namespace},
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": verbs}],
            }),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": role, "namespace": namespace},
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role}, "subjects": subjects,
            }),
        ]
    };
    let mut objects = role(name, WATCH, readers).to_vec();
    objects.extend(role(&writer, &["get", "patch"], vec![account(operate::workloads::CONTROLLER)]));
    objects.push(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": format!("{name}-nodes"), "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [nodes],
    }));
    objects
}

/// RBAC of a whole installation: one account for each process, and what each declares it needs.
pub fn access(installation: &operate::Installation, controller: &[Role], server: &[Role]) -> Vec<Value> {
    let namespace = &installation.namespace;
    let all: Vec<Role> = [ROLES, DAEMON_ROLES, controller, server].into_iter().flatten().copied().collect();
    let daemon = match installation.daemon_account {
        true => [DAEMON_ROLES, &[EVERY_CONFIG, REVIEWS]].concat(),
        false => vec![UNUSED],
    };
    let processes: [(&str, &[Role]); 4] = [
        (operate::workloads::OPERATOR, &all),
        (operate::workloads::CONTROLLER, controller),
        (operate::workloads::SERVER, server),
        (operate::workloads::DAEMON, &daemon),
    ];
    let mut objects: Vec<Value> =
        processes.iter().flat_map(|(name, roles)| cluster::rights::manifests(name, namespace, roles)).collect();
    // A role without rules is an object that says nothing.
    let empty: Vec<(String, String)> = objects
        .iter()
        .filter(|object| object["rules"].as_array().is_some_and(Vec::is_empty))
        .map(|object| (object["kind"].as_str().unwrap_or_default().to_owned(), object["metadata"]["name"].to_string()))
        .collect();
    objects.retain(|object| {
        let kind = object["kind"].as_str().unwrap_or_default().trim_end_matches("Binding").to_owned();
        !empty.contains(&(kind, object["metadata"]["name"].to_string()))
    });
    objects.extend(approver(namespace, &installation.machine_namespace, &installation.source_namespace));
    objects.extend(nodes());
    objects.extend(node_credentials(installation));
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemons_rules(daemon_account: bool) -> Value {
        let installation = operate::Installation { daemon_account, ..operate::Installation::default() };
        let objects = access(&installation, &[], &[]);
        let is_role = |object: &&Value| {
            object["kind"] == "ClusterRole" && object["metadata"]["name"] == operate::workloads::DAEMON
        };
        objects.iter().find(is_role).expect("the role is written in any case")["rules"].clone()
    }

    #[test]
    fn the_account_that_daemons_do_not_use_touches_no_node_and_no_config() {
        let harmless = json!([{"apiGroups": ["machinist.dev"], "resources": ["clustersettings"], "verbs": ["get"]}]);
        assert_eq!(daemons_rules(false), harmless);
    }

    #[test]
    fn the_account_that_daemons_use_writes_nodes_and_reads_configs() {
        let rules = daemons_rules(true);
        let verbs = |resource: &str| {
            let mut rules = rules.as_array().into_iter().flatten();
            rules.find(|rule| rule["resources"] == json!([resource])).map(|rule| rule["verbs"].clone())
        };
        assert_eq!(verbs("nodes"), Some(json!(["get", "list", "patch", "watch"])));
        assert_eq!(verbs("machineconfigs"), Some(json!(["get"])));
        assert_eq!(verbs("tokenreviews"), Some(json!(["create"])));
    }
}
