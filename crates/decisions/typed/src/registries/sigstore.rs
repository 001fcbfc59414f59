//! `registries.d`: from which registries signatures are fetched as attachments of an image.
//!
//! Signatures are needed wherever a signed image may come from, so mirrors of a policy's scope are listed too.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Error;
use super::conf::{Conf, Registry};
use super::reference;
use super::scope::is_nested;

/// The file for these scopes of policies, given the registries.conf that is written, if one is.
pub(super) fn write(scopes: &BTreeSet<&str>, conf: Option<&Conf>) -> Result<Map<String, Value>, Error> {
    let mut names: BTreeSet<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    for scope in scopes {
        let Some(conf) = conf else { continue };
        if let Some(registry) = conf.find(scope) {
            names.extend(places(scope, registry)?);
        }
        for registry in conf.registries() {
            if is_nested(registry.scope(), scope) && registry.scope() != *scope {
                names.extend(places(registry.scope(), registry)?);
            }
        }
    }
    let entries = names.into_iter().map(|name| (name, json!({"use-sigstore-attachments": true})));
    Ok(Map::from_iter([("docker".to_owned(), Value::Object(entries.collect()))]))
}

/// Everywhere the images of a scope may come from.
fn places(scope: &str, registry: &Registry) -> Result<Vec<String>, Error> {
    // Mirrors are found for an image, so one below the scope stands for all of them.
    let host = match scope.strip_prefix('*') {
        Some(domain) => format!("matched{domain}"),
        None => scope.to_owned(),
    };
    let suffix = if host.contains('/') { "" } else { "/a" };
    let refuse = |problem| Error::PolicyMirrors { scope: scope.to_owned(), problem };
    let image = format!("{host}{suffix}");
    let Some(image) = reference::parse_any(&image) else { return Err(refuse(format!("{scope:?} is no image"))) };
    let mut found = Vec::new();
    for has_digest in [true, false] {
        for place in registry.places(image.name, has_digest).map_err(refuse)?.into_iter().flatten() {
            found.push(place.strip_suffix(suffix).unwrap_or(&place).to_owned());
        }
    }
    Ok(found)
}
