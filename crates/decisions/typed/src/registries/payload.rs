//! Blocked and allowed registries, with one exception: what the cluster itself is made from must stay reachable.

use api::config::RegistrySources;

use super::Error;
use super::conf::{Conf, Edit};
use super::mirrors::Mirrored;
use super::reference;
use super::scope::is_nested;

/// The lists of an Image as they can be applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    /// Blocked in registries.conf.
    pub(super) blocked: Vec<String>,
    /// Rejected by the signature policy.
    pub(super) rejected: Vec<String>,
    /// Allowed by the user.
    pub(super) allowed: Vec<String>,
    /// The cluster's own repository, where it has one.
    pub(super) payload: Option<String>,
    /// The cluster's own repository, where it is accepted although something above it is rejected.
    pub(super) excepted: Option<String>,
    /// Entries that would cut the cluster off from its own images, and so are left out.
    pub(super) skipped: Vec<String>,
}

/// Sorts the lists of an Image. `release` is the image the cluster runs; a cluster without one has nothing to except.
pub(super) fn sort(sources: &RegistrySources, by_digest: &[Mirrored], release: Option<&str>) -> Result<Lists, Error> {
    let blocked = sources.blocked_registries.as_deref().unwrap_or_default();
    let mut lists = Lists { allowed: sources.allowed_registries.clone().unwrap_or_default(), ..Lists::default() };
    let Some(release) = release else {
        lists.blocked = blocked.to_vec();
        lists.rejected = blocked.to_vec();
        return Ok(lists);
    };
    let Some(payload) = reference::parse(release) else { return Err(Error::ReleaseImage(release.to_owned())) };
    lists.payload = Some(payload.name.to_owned());
    for entry in blocked {
        if !is_nested(payload.name, entry) {
            lists.blocked.push(entry.clone());
            lists.rejected.push(entry.clone());
        } else if has_unblocked_mirror(sources, by_digest, &payload)? {
            lists.blocked.push(entry.clone());
            if entry != payload.name {
                lists.rejected.push(entry.clone());
            }
            lists.excepted.clone_from(&lists.payload);
        } else {
            lists.skipped.push(entry.clone());
        }
    }
    Ok(lists)
}

fn has_unblocked_mirror(
    sources: &RegistrySources,
    by_digest: &[Mirrored],
    payload: &reference::Reference<'_>,
) -> Result<bool, Error> {
    let blocked = sources.blocked_registries.as_deref().unwrap_or_default();
    let insecure = sources.insecure_registries.as_deref().unwrap_or_default();
    let mut conf = Conf::default();
    conf.edit(&Edit { insecure, blocked, by_digest, by_tag: &[] })?;
    let Some(registry) = conf.find(payload.name) else { return Ok(false) };
    let places = registry.places(payload.name, payload.has_digest).unwrap_or_default();
    let is_open = |place: Option<String>| {
        let name = place.as_deref().unwrap_or(payload.name);
        !blocked.iter().any(|entry| is_nested(name, entry))
    };
    Ok(places.into_iter().any(is_open))
}
