//! `policy.json`: which images may run, for the cluster and for single namespaces.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Error;
use super::payload::Lists;
use super::scope::{is_nested, is_scope};

/// Requirements by scope.
pub(super) type Scopes = BTreeMap<String, Vec<Value>>;

/// The cluster's policy, made from the template's.
pub(super) fn cluster(default: &Value, lists: &Lists, policies: &Scopes) -> Result<Value, Error> {
    let only_payload = |allowed: &[String]| matches!(allowed, [one] if Some(one) == lists.payload.as_ref());
    if !lists.rejected.is_empty() && !lists.allowed.is_empty() && !only_payload(&lists.allowed) {
        return Err(Error::AllowedAndBlocked);
    }
    check(
        policies,
        lists,
        |scope| Error::ClusterPolicyNotAllowed { scope },
        |scope| Error::ClusterPolicyBlocked { scope },
    )?;
    for (list, entries) in [("blocked", &lists.rejected), ("allowed", &lists.allowed)] {
        if let Some(entry) = entries.iter().find(|entry| !is_scope(entry)) {
            return Err(Error::Scope { list, entry: entry.clone() });
        }
    }
    let mut scopes = Scopes::new();
    let mut policy = default.clone();
    let has_transports = |policy: &Value| policy.get("transports").is_none_or(|it| it.is_object() || it.is_null());
    if !policy.is_object() || !has_transports(&policy) {
        return Err(Error::DefaultPolicy("it or its transports are not an object".to_owned()));
    }
    if !lists.allowed.is_empty() {
        policy["default"] = json!([{"type": "reject"}]);
    }
    if !lists.rejected.is_empty() {
        policy["default"] = json!([{"type": "insecureAcceptAnything"}]);
    }
    let allowed = lists.excepted.iter().chain(&lists.allowed);
    for entry in allowed.filter(|entry| !policies.contains_key(*entry)) {
        scopes.insert(entry.clone(), vec![json!({"type": "insecureAcceptAnything"})]);
    }
    for entry in &lists.rejected {
        scopes.insert(entry.clone(), vec![json!({"type": "reject"})]);
    }
    for (scope, requirements) in policies {
        scopes.entry(scope.clone()).or_default().extend(requirements.iter().cloned());
    }
    if !scopes.is_empty() {
        policy["transports"]["docker"] = json!(scopes);
        policy["transports"]["atomic"] = scopes
            .into_iter()
            .filter(|(scope, _)| is_short(scope))
            .map(|(scope, requirements)| (scope, Value::Array(requirements)))
            .collect::<Map<_, _>>()
            .into();
    }
    Ok(policy)
}

/// The policies of namespaces: the cluster's, and their own on top.
pub(super) fn namespaces(
    cluster: &Value,
    lists: &Lists,
    by_namespace: &BTreeMap<String, Scopes>,
) -> Result<BTreeMap<String, Value>, Error> {
    for policies in by_namespace.values() {
        check(policies, lists, |scope| Error::PolicyNotAllowed { scope }, |scope| Error::PolicyBlocked { scope })?;
    }
    let own = |(namespace, policies): (&String, &Scopes)| {
        let mut policy = cluster.clone();
        for (scope, requirements) in policies {
            for transport in
                ["docker", "atomic"].into_iter().filter(|transport| *transport == "docker" || is_short(scope))
            {
                let list = &mut policy["transports"][transport][scope.as_str()];
                let mut all = list.as_array().cloned().unwrap_or_default();
                all.extend(requirements.iter().cloned());
                *list = all.into();
            }
        }
        (namespace.clone(), policy)
    };
    Ok(by_namespace.iter().map(own).collect())
}

/// The `atomic` transport knows no scopes with three or more parts behind the registry.
fn is_short(scope: &str) -> bool {
    scope.matches('/').count() < 3
}

/// A policy for images that may not be pulled at all is a mistake that somebody has to hear of.
fn check(
    policies: &Scopes,
    lists: &Lists,
    not_allowed: impl Fn(String) -> Error,
    blocked: impl Fn(String) -> Error,
) -> Result<(), Error> {
    for scope in policies.keys() {
        if !lists.allowed.is_empty() && !lists.allowed.iter().any(|entry| is_nested(scope, entry)) {
            return Err(not_allowed(scope.clone()));
        }
    }
    for scope in policies.keys() {
        if lists.rejected.iter().any(|entry| is_nested(scope, entry)) {
            return Err(blocked(scope.clone()));
        }
    }
    Ok(())
}
