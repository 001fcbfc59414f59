//! What a process may do at the API, declared beside the code that does it. RBAC manifests are made from these tables.
//!
//! A table is a promise: a test runs each process under exactly the roles that come out of its table, and a right that is
//! missing there is a bug of the table.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

/// What is done with one resource.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// Empty for the core group.
    pub group: &'static str,
    /// Plural, with its subresource behind a slash.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
}

/// What one controller of a process needs.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub name: &'static str,
    pub everywhere: &'static [Right],
    /// In the process's own namespace only.
    pub at_home: &'static [Right],
}

/// To follow a kind.
pub const WATCH: &[&str] = &["get", "list", "watch"];

/// A row of a table.
pub const fn right(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Right {
    Right { group, resource, verbs }
}

/// What every process with an election needs for itself.
pub const PROCESS: Role = Role {
    name: "process",
    everywhere: &[right("", "namespaces", &["get"])],
    at_home: &[
        right("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "update", "patch"]),
        right("events.k8s.io", "events", &["create", "patch"]),
    ],
};

/// The rules of several roles, each resource once.
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

/// ClusterRole, Role and their bindings for the service account `process` in `namespace`, ready to be applied.
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
    fn what_is_needed_at_home_is_granted_only_there() {
        let objects = manifests("process", "home", &ROLES);
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
        assert!(!objects[0].to_string().contains("leases"));
        assert_eq!(objects[2]["metadata"]["namespace"], "home");
        assert_eq!(objects[3]["subjects"][0]["name"], "process");
    }
}
