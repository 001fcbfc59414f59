//! `registries.conf`: the registries that need to be treated in a special way, and where an image is looked for.

use serde::{Deserialize, Serialize};
use toml::Table;

use super::Error;
use super::mirrors::Mirrored;
use super::reference;
use super::scope::is_nested;

/// The file, with the entries we do not know kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Conf {
    #[serde(flatten)]
    rest: Table,
    #[serde(rename = "registry", skip_serializing_if = "Vec::is_empty")]
    registries: Vec<Registry>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Registry {
    #[serde(skip_serializing_if = "String::is_empty")]
    prefix: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    location: String,
    #[serde(skip_serializing_if = "is_false")]
    insecure: bool,
    #[serde(skip_serializing_if = "is_false")]
    blocked: bool,
    #[serde(skip_serializing_if = "is_false")]
    mirror_by_digest_only: bool,
    #[serde(flatten)]
    rest: Table,
    #[serde(rename = "mirror", skip_serializing_if = "Vec::is_empty")]
    mirrors: Vec<Mirror>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Mirror {
    location: String,
    #[serde(skip_serializing_if = "is_false")]
    insecure: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pull_from_mirror: String,
    #[serde(flatten)]
    rest: Table,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What the file is changed by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edit<'a> {
    pub(super) insecure: &'a [String],
    pub(super) blocked: &'a [String],
    pub(super) by_digest: &'a [Mirrored],
    pub(super) by_tag: &'a [Mirrored],
}

const DIGEST_ONLY: &str = "digest-only";
const TAG_ONLY: &str = "tag-only";

impl Conf {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| Error::DefaultRegistries(error.message().to_owned()))
    }

    pub(super) fn write(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|error| Error::DefaultRegistries(error.to_string()))
    }

    /// The entries as containerd's host files need them.
    pub(super) fn registries(&self) -> &[Registry] {
        &self.registries
    }

    pub(super) fn edit(&mut self, edit: &Edit<'_>) -> Result<(), Error> {
        for (sets, pull) in [(edit.by_digest, DIGEST_ONLY), (edit.by_tag, TAG_ONLY)] {
            for set in sets {
                let registry = self.entry(&set.source);
                registry.blocked |= set.never_contact;
                registry.mirrors.extend(set.mirrors.iter().map(|mirror| Mirror {
                    location: mirror.clone(),
                    pull_from_mirror: pull.to_owned(),
                    ..Mirror::default()
                }));
            }
        }
        for scope in edit.blocked {
            self.entry(scope);
        }
        for scope in edit.insecure {
            self.entry(scope).insecure = true;
            for registry in &mut self.registries {
                registry.insecure |= is_nested(registry.scope(), scope);
                for mirror in &mut registry.mirrors {
                    mirror.insecure |= is_nested(&mirror.location, scope);
                }
            }
        }
        for scope in edit.blocked {
            for registry in &mut self.registries {
                registry.blocked |= is_nested(registry.scope(), scope);
            }
        }
        self.inherit_mirrors(edit.by_digest.iter().chain(edit.by_tag))
    }

    /// An entry hides the entries above it, so one that came for another reason takes their mirrors over.
    fn inherit_mirrors<'a>(&mut self, sets: impl Iterator<Item = &'a Mirrored>) -> Result<(), Error> {
        for set in sets {
            let above = self.entry(&set.source).clone();
            for registry in &mut self.registries {
                let scope = registry.scope().to_owned();
                if scope == above.scope() || !is_nested(&scope, above.scope()) || !registry.mirrors.is_empty() {
                    continue;
                }
                // A wildcard's mirror takes the place of the whole host, so behind a port there is nothing to put it before.
                let rest = matched(&scope, above.scope()).map(|length| &scope[length..]);
                let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
                    return Err(Error::WildcardMirror { source_name: set.source.clone(), scope });
                };
                let below =
                    |mirror: &Mirror| Mirror { location: format!("{}{rest}", mirror.location), ..mirror.clone() };
                registry.mirrors = above.mirrors.iter().map(below).collect();
            }
        }
        Ok(())
    }

    fn entry(&mut self, scope: &str) -> &mut Registry {
        let known = self.registries.iter().position(|registry| registry.scope() == scope);
        let index = known.unwrap_or_else(|| {
            let mut registry = Registry::default();
            match scope.starts_with("*.") {
                true => registry.prefix = scope.to_owned(),
                false => registry.location = scope.to_owned(),
            }
            self.registries.push(registry);
            self.registries.len() - 1
        });
        &mut self.registries[index]
    }

    /// The entry that counts for a name: the one with the longest scope, of equal ones the first.
    pub(super) fn find(&self, name: &str) -> Option<&Registry> {
        let matching = self.registries.iter().filter(|registry| matched(name, registry.scope()).is_some());
        matching.rev().max_by_key(|registry| registry.scope().len())
    }
}

impl Registry {
    /// What the entry is about: its prefix, or its location where it names no prefix.
    pub(super) fn scope(&self) -> &str {
        let scope = if self.prefix.is_empty() { &self.location } else { &self.prefix };
        scope.trim_end_matches('/')
    }

    pub(super) fn is_insecure(&self) -> bool {
        self.insecure
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Mirrors with whether each is insecure and may answer for digests and for tags.
    pub(super) fn mirrors(&self) -> impl Iterator<Item = (&str, bool, bool, bool)> {
        self.mirrors.iter().map(|mirror| {
            let pull = mirror.pull_from_mirror.as_str();
            (
                mirror.location.as_str(),
                mirror.insecure,
                pull != TAG_ONLY,
                pull != DIGEST_ONLY && !self.mirror_by_digest_only,
            )
        })
    }

    /// Where an image is looked for, as names; the entry's own place is last. `None` stands for a place that is the image's
    /// own name, which a wildcard has.
    pub(super) fn places(&self, image: &str, has_digest: bool) -> Result<Vec<Option<String>>, String> {
        let mirrors = self.mirrors().filter(|(_, _, digests, tags)| if has_digest { *digests } else { *tags });
        let locations = mirrors.map(|(location, ..)| location).chain([self.location.as_str()]);
        let Some(rest) = matched(image, self.scope()).map(|length| &image[length..]) else { return Ok(Vec::new()) };
        let place = |location: &str| {
            let location = location.trim_end_matches('/');
            if location.is_empty() {
                return Ok(None);
            }
            let name = format!("{location}{rest}");
            match reference::parse_any(&name) {
                Some(_) => Ok(Some(name)),
                None => Err(format!("rewriting reference: {name:?} is no image")),
            }
        };
        locations.map(place).collect()
    }
}

/// How much of a name a scope covers; `None` when it does not cover it.
fn matched(name: &str, scope: &str) -> Option<usize> {
    let ends = |at: usize| matches!(name.as_bytes().get(at), None | Some(b':' | b'/' | b'@')).then_some(at);
    match scope.strip_prefix('*').filter(|domain| domain.starts_with('.')) {
        Some(domain) => {
            let at = name.find(domain).filter(|at| !name[..*at].contains('/'))?;
            ends(at + domain.len())
        }
        None => ends(name.strip_prefix(scope).map(|_| scope.len())?),
    }
}
