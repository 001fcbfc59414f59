//! Mirrors of all mirror sets together: one ordered list for each source.
//!
//! Every set says in which order its own mirrors are asked. The lists of one source are joined so that each keeps its order,
//! with the source itself behind all mirrors; where two lists contradict one another the loop is cut at the first name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::config::{ImageDigestMirrorSet, ImageMirrors, ImageTagMirrorSet};
use api::operator::ImageContentSourcePolicy;

use super::Error;
use super::scope::{is_mirror, is_source};

const NEVER: &str = "NeverContactSource";
const ALLOW: &str = "AllowContactingSource";

/// One entry of a mirror set, whichever kind it is of.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Kind and name of the object, for refusals.
    pub(super) object: String,
    pub(super) source: &'a str,
    pub(super) mirrors: &'a [String],
    policy: &'a str,
}

/// The joined mirrors of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    pub source: String,
    /// In the order in which they are asked.
    pub mirrors: Vec<String>,
    /// Whether the source may not be asked.
    pub never_contact: bool,
    /// Whether the sets contradict one another on the order.
    pub has_loop: bool,
}

pub(super) fn of_digest_sets(sets: &[ImageDigestMirrorSet]) -> impl Iterator<Item = Entry<'_>> {
    sets.iter().flat_map(|set| {
        let object = named("ImageDigestMirrorSet", set.metadata.name.as_deref());
        set.spec.image_digest_mirrors.iter().map(move |mirrors| entry(object.clone(), mirrors))
    })
}

pub(super) fn of_tag_sets(sets: &[ImageTagMirrorSet]) -> impl Iterator<Item = Entry<'_>> {
    sets.iter().flat_map(|set| {
        let object = named("ImageTagMirrorSet", set.metadata.name.as_deref());
        set.spec.image_tag_mirrors.iter().map(move |mirrors| entry(object.clone(), mirrors))
    })
}

pub(super) fn of_content_policies(policies: &[ImageContentSourcePolicy]) -> impl Iterator<Item = Entry<'_>> {
    policies.iter().flat_map(|policy| {
        let object = named("ImageContentSourcePolicy", policy.metadata.name.as_deref());
        policy.spec.repository_digest_mirrors.iter().map(move |mirrors| Entry {
            object: object.clone(),
            source: &mirrors.source,
            mirrors: &mirrors.mirrors,
            policy: ALLOW,
        })
    })
}

fn named(kind: &str, name: Option<&str>) -> String {
    format!("{kind} {}", name.unwrap_or_default())
}

fn entry(object: String, mirrors: &ImageMirrors) -> Entry<'_> {
    let policy = mirrors.mirror_source_policy.as_deref().filter(|policy| !policy.is_empty()).unwrap_or(ALLOW);
    Entry { object, source: &mirrors.source, mirrors: &mirrors.mirrors, policy }
}

/// Names must have the right form, and sets must agree on whether a source may be asked.
pub(super) fn check<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Result<(), Error> {
    let mut policies: BTreeMap<&str, &str> = BTreeMap::new();
    for Entry { object, source, mirrors, policy } in entries {
        let source_name = source.to_owned();
        if !is_source(source) {
            return Err(Error::Source { object, source_name });
        }
        if *policies.entry(source).or_insert(policy) != policy {
            return Err(Error::SourcePolicy { object, source_name });
        }
        for mirror in mirrors {
            if !is_mirror(mirror) {
                return Err(Error::Mirror { object, mirror: mirror.clone() });
            }
            if policy == NEVER && mirror == source {
                return Err(Error::NeverContact { object, source_name });
            }
        }
    }
    Ok(())
}

/// The mirrors of every source, by source. A set that names only the source itself is none.
pub(super) fn join<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<Mirrored> {
    let mut by_source: BTreeMap<&str, (Vec<&[String]>, bool)> = BTreeMap::new();
    for entry in entries.filter(|entry| entry.mirrors.iter().any(|mirror| mirror != entry.source)) {
        let (lists, never) = by_source.entry(entry.source).or_default();
        lists.push(entry.mirrors);
        *never |= entry.policy == NEVER;
    }
    let joined = by_source.into_iter().map(|(source, (lists, never_contact))| {
        let (mut mirrors, has_loop) = sort(source, &lists);
        // At the end it is what is asked anyway.
        if mirrors.last().is_some_and(|last| last == source) {
            mirrors.pop();
        }
        Mirrored { source: source.to_owned(), mirrors, never_contact, has_loop }
    });
    joined.collect()
}

/// All names of the lists so that each list keeps its order, as far as they agree.
fn sort(source: &str, lists: &[&[String]]) -> (Vec<String>, bool) {
    let mut after: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut edge = |from, to| {
        after.entry(from).or_default().insert(to);
        after.entry(to).or_default();
        before.entry(to).or_default().insert(from);
        before.entry(from).or_default();
    };
    for list in lists {
        list.windows(2).for_each(|pair| edge(&pair[0], &pair[1]));
        if let Some(last) = list.last().filter(|_| !list.iter().any(|mirror| mirror == source)) {
            edge(last, source);
        }
    }
    let names: Vec<&str> = after.keys().copied().collect();
    let mut free: VecDeque<&str> = names.iter().copied().filter(|name| before[name].is_empty()).collect();
    let mut unused = names.iter().copied();
    let (mut sorted, mut used, mut has_loop) = (Vec::new(), BTreeSet::new(), false);
    loop {
        let next = match free.pop_front() {
            Some(next) => next,
            None => match unused.find(|name| !used.contains(name)) {
                Some(next) => {
                    has_loop = true;
                    next
                }
                None => return (sorted, has_loop),
            },
        };
        used.insert(next);
        sorted.push(next.to_owned());
        for follower in &after[next] {
            let waits = before.get_mut(follower).map(|before| {
                before.remove(next);
                !before.is_empty()
            });
            if waits == Some(false) && !used.contains(follower) {
                free.push_back(follower);
            }
        }
    }
}
