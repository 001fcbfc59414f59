//! Acting as somebody else: what the `Impersonate-*` headers ask for, and what that takes.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::{Action, User, denied};
use crate::{
    http::{Call, Target, query::decode},
    route,
    status::{Answer, Failure},
};

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const EXTRA: &str = "impersonate-extra-";

/// Whom the caller wants to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// One right the caller needs: group, resource, subresource, namespace and name.
pub(super) struct Needed<'a>(&'a str, &'a str, &'a str, &'a str, &'a str);

impl Needed<'_> {
    pub(super) fn borrowed(&self) -> Action<'_> {
        let Self(group, resource, subresource, namespace, name) = *self;
        Action { verb: "impersonate", group, resource, subresource, namespace, name, ..Action::default() }
    }
}

pub(super) fn asked(headers: &HeaderMap) -> Answer<Option<Asked>> {
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys().filter_map(|name| name.as_str().strip_prefix(EXTRA)) {
        extra.insert(decode(name, false), all(&format!("{EXTRA}{name}")));
    }
    let (name, uid) = (first("impersonate-user"), first("impersonate-uid"));
    let asked = Asked { name, uid, groups: all("impersonate-group"), extra };
    if !asked.name.is_empty() {
        return Ok(Some(asked));
    }
    if asked.uid.is_empty() && asked.groups.is_empty() && asked.extra.is_empty() {
        return Ok(None);
    }
    let list = |values: &[String]| values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
    let groups = match asked.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => format!("[]string{{{}}}", list(groups)),
    };
    let extra = match asked.extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => {
            let entries = asked.extra.iter().map(|(key, values)| format!("{key:?}:[]string{{{}}}", list(values)));
            format!("map[string][]string{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    };
    Err(Failure::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:{extra}}} without impersonating a user name",
        asked.uid
    )))
}

impl Asked {
    /// Namespace and name, if it is a service account.
    fn account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix("system:serviceaccount:")?.split_once(':')
    }

    pub(super) fn actions(&self) -> Vec<Needed<'_>> {
        const EXTRAS: &str = "authentication.k8s.io";
        let mut needed = vec![match self.account() {
            Some((namespace, account)) => Needed("", "serviceaccounts", "", namespace, account),
            None => Needed("", "users", "", "", &self.name),
        }];
        needed.extend(self.groups.iter().map(|group| Needed("", "groups", "", "", group)));
        if !self.uid.is_empty() {
            needed.push(Needed(EXTRAS, "uids", "", "", &self.uid));
        }
        for (key, values) in &self.extra {
            needed.extend(values.iter().map(|value| Needed(EXTRAS, "userextras", key, "", value)));
        }
        needed
    }

    /// The refusal names what was to be done in the other's name.
    pub(super) fn refused(&self, call: &Call) -> Box<Failure> {
        let mode = if self.account().is_some() { "serviceaccount" } else { "user-info" };
        let Some(target) = Target::parse(&call.path) else {
            let verb = format!("impersonate-on:{mode}:{}", call.method.as_str().to_ascii_lowercase());
            return denied(&call.user, &Action { verb: &verb, path: &call.path, ..Action::default() });
        };
        let verb = format!("impersonate-on:{mode}:{}", route::verb(call, &target));
        denied(&call.user, &Action { verb: &verb, ..route::action(call, &target) })
    }

    pub(super) fn user(self) -> User {
        let mut groups = self.groups.clone();
        if let (Some((namespace, _)), true) = (self.account(), groups.is_empty()) {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let has = |wanted: &str| groups.iter().any(|group| group == wanted);
        let anonymous = self.name == ANONYMOUS;
        if anonymous && !has(UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        } else if !anonymous && !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User { name: self.name, uid: self.uid, groups, extra: self.extra }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], expected: &str) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let shown = match asked(&map) {
            Ok(None) => "nobody".to_owned(),
            Ok(Some(asked)) => {
                let user = asked.user();
                format!("{} {} {:?} {:?}", user.name, user.uid, user.groups, user.extra)
            }
            Err(failure) => failure.code.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn groups_follow_from_the_user_unless_they_are_named() {
        check(&[], "nobody");
        check(&[("impersonate-user", "jane")], r#"jane  ["system:authenticated"] {}"#);
        check(
            &[("impersonate-user", "jane"), ("impersonate-group", "devs"), ("impersonate-extra-scopes%2fa", "x")],
            r#"jane  ["devs", "system:authenticated"] {"scopes/a": ["x"]}"#,
        );
        check(&[("impersonate-user", "system:anonymous")], r#"system:anonymous  ["system:unauthenticated"] {}"#);
        check(
            &[("impersonate-user", "system:serviceaccount:a:b"), ("impersonate-uid", "u")],
            r#"system:serviceaccount:a:b u ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"] {}"#,
        );
        check(&[("impersonate-group", "devs")], "400");
    }
}
