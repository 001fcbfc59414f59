//! The API permissions of each process, declared beside the code that uses them. RBAC manifests are generated from
//! these tables.
//!
//! Tests run each process with exactly the roles generated from its table, so a missing permission is a bug in the
//! table.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

/// The verbs that are used on one resource.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// Empty for the core group.
    pub group: &'static str,
    /// The plural, with a subresource after a slash.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
}

/// The permissions of one controller.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub name: &'static str,
    pub everywhere: &'static [Right],
    /// Permissions that are limited to the process's own namespace.
    pub at_home: &'static [Right],
}

/// The verbs needed to watch a kind.
pub const WATCH: &[&str] = &["get", "list", "watch"];

/// Builds a row of a table.
pub const fn right(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Right {
    Right { group, resource, verbs }
}

/// The permissions of every process that takes part in an election.
pub const PROCESS: Role = Role {
    name: "process",
    everywhere: &[right("", "namespaces", &["get"])],
    at_home: &[
        right("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "update", "patch"]),
        right("events.k8s.io", "events", &["create", "patch"]),
    ],
};

/// Merges the rules of several roles; each resource appears once.
pub fn rules<'a>(rights: impl IntoIterator<Item = &'a Right>) -> Vec<PolicyRule> {
    let mut merged: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for right in rights {
        merged.entry((right.group, right.resource)).or_default().extend(right.verbs);
    }
    let rule = |((group, resource), verbs): ((&str, &str), BTreeSet<&str>)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.into_iter().map(str::to_owned).collect(),
        ..PolicyRule::default()
    };
    merged.into_iter().map(rule).collect()
}

/// Returns ClusterRole, Role and their bindings for the service account `process` in `namespace`.
pub fn manifests(process: &str, namespace: &str, roles: &[Role]) -> Vec<Value> {
    let subject = json!({ "kind": "ServiceAccount", "name": process, "namespace": namespace });
    let reference =
        |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": process.to_owned() });
    let object = |kind: &str, metadata: Value| json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata });
    let with = |mut object: Value, parts: Value| {
        if let (Some(object), Value::Object(parts)) = (object.as_object_mut(), parts) {
            object.extend(parts);
        }
        object
    };
    let (everywhere, home) = (json!({ "name": process }), json!({ "name": process, "namespace": namespace }));
    let wide = rules(roles.iter().flat_map(|role| role.everywhere));
    let narrow = rules(roles.iter().flat_map(|role| role.at_home));
    vec![
        with(object("ClusterRole", everywhere.clone()), json!({ "rules": wide })),
        with(
            object("ClusterRoleBinding", everywhere),
            json!({ "roleRef": reference("ClusterRole"), "subjects": [&subject] }),
        ),
        with(object("Role", home.clone()), json!({ "rules": narrow })),
        with(object("RoleBinding", home), json!({ "roleRef": reference("Role"), "subjects": [&subject] })),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const ROLES: [Role; 2] = [
        Role {
            name: "one",
            everywhere: &[
                Right { group: "", resource: "nodes", verbs: WATCH },
                Right { group: "", resource: "pods/eviction", verbs: &["create"] },
            ],
            at_home: &[],
        },
        Role {
            name: "two",
            everywhere: &[Right { group: "", resource: "nodes", verbs: &["patch", "get"] }],
            at_home: &[Right { group: "coordination.k8s.io", resource: "leases", verbs: &["get"] }],
        },
    ];

    #[test]
    fn each_resource_has_one_rule_with_every_verb() {
        let rules = rules(ROLES.iter().flat_map(|role| role.everywhere));
        let nodes = rules.iter().find(|rule| rule.resources.as_ref().unwrap() == &["nodes"]).unwrap();
        assert_eq!(nodes.verbs, ["get", "list", "patch", "watch"]);
        assert_eq!(rules.len(), 2);
    }

    #[test]
    fn permissions_for_the_home_namespace_are_granted_only_there() {
        let objects = manifests("process", "home", &ROLES);
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
        assert!(!objects[0].to_string().contains("leases"));
        assert_eq!(objects[2]["metadata"]["namespace"], "home");
        assert_eq!(objects[3]["subjects"][0]["name"], "process");
    }
}
