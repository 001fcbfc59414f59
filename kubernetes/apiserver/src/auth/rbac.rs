//! Role-based access from the objects in the store, compiled when one of them changes.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

use super::{Action, User};
use crate::{object::text, server::Api};

const COLLECTIONS: [&str; 4] = [
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "rbac.authorization.k8s.io/rolebindings",
];

#[derive(Default)]
pub(crate) struct Cache(Mutex<Option<([u64; 4], Arc<Rules>)>>);

impl Cache {
    pub(crate) fn current(&self, api: &Api) -> Arc<Rules> {
        let index = api.store.read();
        let stamp = COLLECTIONS.map(|name| index.collection(name).map_or(0, crate::store::Collection::last_version));
        let mut cached = self.0.lock();
        if let Some((known, rules)) = &*cached
            && *known == stamp
        {
            return Arc::clone(rules);
        }
        let values = COLLECTIONS.map(|name| -> Vec<Value> {
            index.collection(name).map(|found| found.iter(None, None).map(|o| o.value()).collect()).unwrap_or_default()
        });
        let rules = Arc::new(Rules::compile(&values));
        *cached = Some((stamp, Arc::clone(&rules)));
        rules
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub paths: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    bindings: Vec<Binding>,
    roles: HashMap<(String, String, String), Arc<Vec<Rule>>>,
}

#[derive(Debug)]
struct Binding {
    /// `None` binds in every namespace and at the cluster scope.
    namespace: Option<String>,
    subjects: Vec<Subject>,
    rules: Arc<Vec<Rule>>,
    /// Binding and role, as reviews name them.
    shown: String,
}

#[derive(Debug)]
struct Subject {
    who: Who,
    /// As reviews name it.
    shown: String,
}

#[derive(Debug)]
enum Who {
    User(String),
    Group(String),
}

impl Rules {
    fn compile([cluster_roles, roles, cluster_bindings, bindings]: &[Vec<Value>; 4]) -> Self {
        let mut by_name = HashMap::new();
        for (kind, role) in cluster_roles.iter().map(|r| ("ClusterRole", r)).chain(roles.iter().map(|r| ("Role", r))) {
            let metadata = &role["metadata"];
            let key = (kind.to_owned(), text(&metadata["namespace"]).to_owned(), text(&metadata["name"]).to_owned());
            by_name.insert(key, Arc::new(rules(&role["rules"])));
        }
        let compiled = cluster_bindings
            .iter()
            .map(|binding| (None, binding))
            .chain(bindings.iter().map(|b| (Some(text(&b["metadata"]["namespace"]).to_owned()), b)))
            .filter_map(|(namespace, binding)| {
                let role = &binding["roleRef"];
                let kind = text(&role["kind"]);
                let place = if kind == "Role" { namespace.clone()? } else { String::new() };
                let rules = by_name.get(&(kind.to_owned(), place, text(&role["name"]).to_owned()))?;
                let name = text(&binding["metadata"]["name"]);
                let own = match &namespace {
                    Some(namespace) => format!("RoleBinding \"{name}/{namespace}\""),
                    None => format!("ClusterRoleBinding {name:?}"),
                };
                Some(Binding {
                    subjects: subjects(binding, namespace.as_deref()),
                    namespace,
                    rules: Arc::clone(rules),
                    shown: format!("{own} of {kind} {:?}", text(&role["name"])),
                })
            })
            .collect();
        Self { bindings: compiled, roles: by_name }
    }

    pub(crate) fn allow(&self, user: &User, action: &Action<'_>) -> bool {
        self.of(user, action.namespace).any(|rule| rule.allows(action))
    }

    /// Through which binding `user` may, as reviews say it.
    pub(crate) fn reason(&self, user: &User, action: &Action<'_>) -> Option<String> {
        let here = |bound: &str| bound == action.namespace && !bound.is_empty();
        self.bindings.iter().filter(|binding| binding.namespace.as_deref().is_none_or(here)).find_map(|binding| {
            let subject = binding.subjects.iter().find(|subject| subject.is(user))?;
            let allowed = binding.rules.iter().any(|rule| rule.allows(action));
            allowed.then(|| format!("RBAC: allowed by {} to {}", binding.shown, subject.shown))
        })
    }

    /// The rules that hold for `user` in `namespace` (empty: at the cluster scope).
    pub(crate) fn of<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a Rule> {
        self.bindings
            .iter()
            .filter(move |binding| {
                binding.namespace.as_deref().is_none_or(|bound| bound == namespace && !bound.is_empty())
            })
            .filter(move |binding| binding.subjects.iter().any(|subject| subject.is(user)))
            .flat_map(|binding| binding.rules.iter())
    }

    /// The rules of a role, for the check that a binding does not escalate.
    pub(crate) fn role(&self, kind: &str, namespace: &str, name: &str) -> Option<&Arc<Vec<Rule>>> {
        let place = if kind == "Role" { namespace } else { "" };
        self.roles.get(&(kind.to_owned(), place.to_owned(), name.to_owned()))
    }
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match &self.who {
            Who::User(name) => *name == user.name,
            Who::Group(group) => user.is_in(group),
        }
    }
}

impl Rule {
    fn allows(&self, action: &Action<'_>) -> bool {
        if !self.verbs.iter().any(|verb| verb == "*" || verb == action.verb) {
            return false;
        }
        if !action.path.is_empty() {
            return self.paths.iter().any(|pattern| path_matches(pattern, action.path));
        }
        self.groups.iter().any(|group| group == "*" || group == action.group)
            && self.resources.iter().any(|pattern| resource_matches(pattern, action))
            && (self.names.is_empty() || self.names.iter().any(|name| name == action.name))
    }

    /// Whether everything `other` grants is granted here too; used per single verb, group and resource.
    pub(crate) fn covers(&self, verb: &str, group: &str, resource: &str, name: Option<&str>) -> bool {
        let any = |list: &[String], item: &str| list.iter().any(|own| own == "*" || own == item);
        let (plain, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let resources = any(&self.resources, resource)
            || (!subresource.is_empty() && self.resources.iter().any(|own| *own == format!("*/{subresource}")))
            || self.resources.iter().any(|own| *own == format!("{plain}/*") && !subresource.is_empty());
        any(&self.verbs, verb)
            && any(&self.groups, group)
            && resources
            && (self.names.is_empty() || name.is_some_and(|name| self.names.iter().any(|own| own == name)))
    }

    pub(crate) fn covers_path(&self, verb: &str, path: &str) -> bool {
        self.verbs.iter().any(|own| own == "*" || own == verb)
            && self.paths.iter().any(|pattern| pattern == path || path_matches(pattern, path))
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

fn resource_matches(pattern: &str, action: &Action<'_>) -> bool {
    if pattern == "*" {
        return true;
    }
    match (pattern.split_once('/'), action.subresource) {
        (None, "") => pattern == action.resource,
        (None, _) => false,
        (Some(_), "") => false,
        (Some((resource, subresource)), wanted) => {
            (resource == "*" || resource == action.resource) && (subresource == "*" || subresource == wanted)
        }
    }
}

pub(crate) fn rules(value: &Value) -> Vec<Rule> {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .map(|rule| Rule {
            verbs: list(&rule["verbs"]),
            groups: list(&rule["apiGroups"]),
            resources: list(&rule["resources"]),
            names: list(&rule["resourceNames"]),
            paths: list(&rule["nonResourceURLs"]),
        })
        .collect()
}

fn subjects(binding: &Value, namespace: Option<&str>) -> Vec<Subject> {
    let items = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(|subject| {
            let name = text(&subject["name"]);
            let kind = text(&subject["kind"]);
            let (who, shown) = match kind {
                "User" => (Who::User(name.to_owned()), format!("{kind} {name:?}")),
                "Group" => (Who::Group(name.to_owned()), format!("{kind} {name:?}")),
                "ServiceAccount" => {
                    let own = subject["namespace"].as_str().filter(|text| !text.is_empty()).or(namespace)?;
                    let who = Who::User(format!("system:serviceaccount:{own}:{name}"));
                    (who, format!("{kind} \"{name}/{own}\""))
                }
                _ => return None,
            };
            Some(Subject { who, shown })
        })
        .collect()
}
