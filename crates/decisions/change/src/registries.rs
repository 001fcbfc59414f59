//! Decides whether a new `registries.conf` is safe for the pods already running on a node.
//!
//! A change is safe when every image that could be pulled before can still be pulled, from the same content: then the
//! runtime is only reloaded. Anything else, and anything that cannot be read, drains the node first.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Where the container runtime reads its registries from.
pub const PATH: &str = "/etc/containers/registries.conf";

const DIGEST_ONLY: &str = "digest-only";

/// Why pods must leave before the new registries take effect; `None` when they may stay.
#[must_use]
pub fn unsafe_because(old: Option<&[u8]>, new: Option<&[u8]>) -> Option<String> {
    let parse = |side: &str, bytes: Option<&[u8]>| {
        let text = std::str::from_utf8(bytes.unwrap_or_default())
            .map_err(|_| format!("the {side} registries.conf is not text"))?;
        toml::from_str::<Registries>(text)
            .map_err(|error| format!("the {side} registries.conf cannot be read: {}", error.message()))
    };
    match (parse("old", old), parse("new", new)) {
        (Ok(old), Ok(new)) => compare(&old, &new),
        (Err(why), _) | (_, Err(why)) => Some(why),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Registries {
    unqualified_search_registries: Vec<String>,
    registry: Vec<Registry>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Registry {
    prefix: String,
    location: String,
    blocked: bool,
    insecure: bool,
    mirror_by_digest_only: bool,
    mirror: Vec<Mirror>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Mirror {
    location: String,
    pull_from_mirror: String,
}

impl Registry {
    /// What the entry is about: its prefix, or its location where it names no prefix.
    fn scope(&self) -> &str {
        if self.prefix.is_empty() { &self.location } else { &self.prefix }
    }

    /// The first mirror that may answer for a tag, which could then mean other content than before.
    fn mirror_for_tags(&self, mut known: impl FnMut(&Mirror) -> bool) -> Option<&Mirror> {
        self.mirror
            .iter()
            .find(|mirror| !known(mirror) && !self.mirror_by_digest_only && mirror.pull_from_mirror != DIGEST_ONLY)
    }
}

fn compare(old: &Registries, new: &Registries) -> Option<String> {
    if !new.unqualified_search_registries.starts_with(&old.unqualified_search_registries) {
        return Some("unqualified-search-registries is not only added to at its end".into());
    }
    let before: BTreeMap<&str, &Registry> = old.registry.iter().map(|r| (r.scope(), r)).collect();
    let after: BTreeMap<&str, &Registry> = new.registry.iter().map(|r| (r.scope(), r)).collect();
    if let Some(scope) = before.keys().find(|scope| !after.contains_key(*scope)) {
        return Some(format!("registry {scope} is removed"));
    }
    after.iter().find_map(|(scope, registry)| match before.get(scope) {
        Some(known) => changed(scope, known, registry),
        None => registry
            .mirror_for_tags(|_| false)
            .map(|mirror| format!("new registry {scope} has mirror {} which is not digest-only", mirror.location)),
    })
}

fn changed(scope: &str, old: &Registry, new: &Registry) -> Option<String> {
    let differs = |field: &str| Some(format!("registry {scope} changes its {field}"));
    if old.prefix != new.prefix {
        return differs("prefix");
    }
    if old.location != new.location {
        return differs("location");
    }
    if old.blocked != new.blocked {
        return differs("blocked");
    }
    if old.insecure != new.insecure {
        return differs("insecure");
    }
    let mirrors = |registry: &'_ Registry| -> BTreeMap<String, String> {
        let pairs = registry.mirror.iter();
        pairs.map(|m| (m.location.clone(), m.pull_from_mirror.clone())).collect()
    };
    let (before, after) = (mirrors(old), mirrors(new));
    for (location, pull) in &before {
        match after.get(location) {
            None => return Some(format!("registry {scope} loses mirror {location}")),
            Some(now) if now != pull && now != DIGEST_ONLY => {
                return Some(format!("mirror {location} of registry {scope} changes pull-from-mirror"));
            }
            Some(_) => {}
        }
    }
    new.mirror_for_tags(|mirror| before.contains_key(&mirror.location))
        .map(|mirror| format!("registry {scope} gains mirror {} which is not digest-only", mirror.location))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(old: &str, new: &str, expected: Expect) {
        let why = unsafe_because(Some(old.as_bytes()), Some(new.as_bytes()));
        expected.assert_eq(&why.unwrap_or_else(|| "safe".into()));
    }

    const QUAY: &str = "[[registry]]\nprefix = ''\nlocation = 'quay.io/a'\n";

    #[test]
    fn a_search_registry_may_only_be_appended() {
        let one = "unqualified-search-registries = ['a']";
        check(one, "unqualified-search-registries = ['a', 'b']", expect!["safe"]);
        check(
            one,
            "unqualified-search-registries = ['b', 'a']",
            expect!["unqualified-search-registries is not only added to at its end"],
        );
    }

    #[test]
    fn a_mirror_that_serves_digests_only_is_safe_to_add() {
        let with = |pull: &str| format!("{QUAY}[[registry.mirror]]\nlocation = 'm'\n{pull}");
        check(QUAY, &with("pull-from-mirror = 'digest-only'"), expect!["safe"]);
        check(QUAY, &with(""), expect!["registry quay.io/a gains mirror m which is not digest-only"]);
        check(&with(""), QUAY, expect!["registry quay.io/a loses mirror m"]);
        check("", &with(""), expect!["new registry quay.io/a has mirror m which is not digest-only"]);
        check("", &with("pull-from-mirror = 'digest-only'"), expect!["safe"]);
    }

    #[test]
    fn a_registry_may_not_go_nor_become_blocked() {
        check(QUAY, "", expect!["registry quay.io/a is removed"]);
        check(QUAY, &format!("{QUAY}blocked = true"), expect!["registry quay.io/a changes its blocked"]);
    }

    #[test]
    fn what_cannot_be_read_drains() {
        check("", "[[registry", expect!["the new registries.conf cannot be read: unclosed array table, expected `]]`"]);
        assert!(unsafe_because(None, Some(&[0xff])).is_some());
        assert_eq!(unsafe_because(None, None), None);
    }
}
