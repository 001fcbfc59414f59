//! Who asks, and whether they may.
//!
//! A caller is known by a client certificate of our CA or by a bearer token; everyone else is `system:anonymous`.
//! What they may do is decided by the RBAC objects in the store, and for nodes also by the node rules.

pub(crate) mod bootstrap;
mod bound;
pub(crate) mod certificates;
mod impersonation;
pub(crate) mod node;
pub(crate) mod rbac;
pub(crate) mod reviews;
pub(crate) mod tokens;

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::{Value, json};

use crate::{
    http::Call,
    server::Api,
    status::{Answer, Failure},
    store::Store,
};

/// What the connection itself proves.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub certificate: Option<User>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn new(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        if !groups.iter().any(|group| group == "system:authenticated") {
            groups.push("system:authenticated".to_owned());
        }
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        let group = format!("system:serviceaccounts:{namespace}");
        Self::new(&format!("system:serviceaccount:{namespace}:{name}"), &["system:serviceaccounts", &group])
    }

    pub(crate) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// The server's own hand: housekeeping and bootstrap.
    pub(crate) fn system() -> Self {
        Self::new("system:apiserver", &["system:masters"])
    }

    /// Whether this is the server itself.
    pub(crate) fn is_system(&self) -> bool {
        self.name == "system:apiserver" && self.is_in("system:masters")
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The node this user is, if it is one.
    pub(crate) fn node(&self) -> Option<&str> {
        self.name.strip_prefix("system:node:").filter(|_| self.is_in("system:nodes"))
    }

    pub(crate) fn value(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// One thing a user wants to do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Action<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Set for requests outside the resource API; the other fields but `verb` are empty then.
    pub path: &'a str,
    /// Of lists and watches; node rules read it.
    pub field_selector: &'a str,
}

pub(crate) struct Access {
    pub(crate) tokens: tokens::Tokens,
    rules: rbac::Cache,
}

impl Access {
    /// `key` signs the tokens of service accounts.
    pub(crate) fn new(key: Vec<u8>) -> Self {
        Self { tokens: tokens::Tokens::new(key), rules: rbac::Cache::default() }
    }

    pub(crate) fn authenticate(&self, store: &Store, peer: &Peer, headers: &HeaderMap) -> Answer<User> {
        let header = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match (token, &peer.certificate) {
            (Some(token), _) if !token.is_empty() => self.tokens.user(store, token).ok_or_else(Failure::unauthorized),
            (_, Some(user)) => Ok(user.clone()),
            (_, None) => Ok(User::anonymous()),
        }
    }

    /// The user to act as: the caller, or whom the impersonation headers name if the caller may.
    pub(crate) fn impersonate(&self, api: &Api, call: &Call) -> Answer<User> {
        match impersonation::asked(&call.headers)? {
            Some(asked) => {
                let may = asked.actions().iter().all(|action| self.allows(api, &call.user, &action.borrowed()));
                if may { Ok(asked.user()) } else { Err(asked.refused(call)) }
            }
            None => Ok(call.user.clone()),
        }
    }

    pub(crate) fn allows(&self, api: &Api, user: &User, action: &Action<'_>) -> bool {
        user.is_in("system:masters")
            || user.node().is_some_and(|name| node::allows(api, name, action))
            || self.rules.current(api).allow(user, action)
    }

    /// Why `user` may, as reviews say it: nothing for those who may everything, `None` for those who may not.
    pub(crate) fn reason(&self, api: &Api, user: &User, action: &Action<'_>) -> Option<String> {
        if user.is_in("system:masters") || user.node().is_some_and(|name| node::allows(api, name, action)) {
            return Some(String::new());
        }
        self.rules.current(api).reason(user, action)
    }

    /// What RBAC grants `user` in `namespace`, for rules reviews and escalation checks.
    pub(crate) fn rules(&self, api: &Api) -> std::sync::Arc<rbac::Rules> {
        self.rules.current(api)
    }

    pub(crate) fn require(&self, api: &Api, user: &User, action: &Action<'_>) -> Answer<()> {
        if self.allows(api, user, action) { Ok(()) } else { Err(denied(user, action)) }
    }
}

fn denied(user: &User, action: &Action<'_>) -> Box<Failure> {
    let Action { verb, group, resource, subresource, namespace, name, path, .. } = *action;
    if !path.is_empty() {
        let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
        let mut failure = Failure::new(403, "Forbidden", message);
        failure.details = Some(json!({}));
        return failure;
    }
    let what = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let subject = if name.is_empty() { qualified } else { format!("{qualified} {name:?}") };
    let mut message = format!(
        "{subject} is forbidden: User {:?} cannot {verb} resource {what:?} in API group {group:?} {place}",
        user.name
    );
    if let Some(why) = user.node().and_then(|node| node::reason(node, action)) {
        message = format!("{message}: {why}");
    }
    let mut details = json!({"kind": resource});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !group.is_empty() {
        details["group"] = group.into();
    }
    let mut failure = Failure::new(403, "Forbidden", message);
    failure.details = Some(details);
    failure
}
