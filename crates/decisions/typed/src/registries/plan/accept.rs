//! Which objects are applied together, and what is wrong with the others.
//!
//! Objects that do not fit together are judged one after another: those that are in force as they are, then those that were
//! edited, then new ones, and of these the stricter kinds first. So a newcomer gives way, whatever its name.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::config::{ClusterImagePolicy, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, RegistrySources};
use api::operator::ImageContentSourcePolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Snapshot, image, object, sorted};
use crate::plan::{Existing, Object, Standing, fingerprint, note, standing};
use crate::registries::{Built, Error, NAMESPACES, Sources, build, reference};

/// How much the files of all namespaces may hold. In base64, and together with the rest of a pool's configuration, that
/// stays well below what the API stores in one object.
const ROOM: usize = 384 << 10;

/// The objects that are applied together, and what is wrong with the others.
#[derive(Clone, Default)]
pub(super) struct Accepted {
    sources: RegistrySources,
    content_policies: Vec<ImageContentSourcePolicy>,
    digest_mirrors: Vec<ImageDigestMirrorSet>,
    tag_mirrors: Vec<ImageTagMirrorSet>,
    cluster_policies: Vec<ClusterImagePolicy>,
    policies: Vec<ImagePolicy>,
    release_image: Option<String>,
    pub(super) refused: BTreeMap<Object, String>,
    /// Whether an object is refused that nodes rely on.
    pub(super) is_lost: bool,
    unread_release: Option<String>,
    /// Marks of the objects that are applied, for the note on the MachineConfig.
    marks: BTreeSet<String>,
}

/// How well an object is established.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    InForce,
    Edited,
    New,
}

/// One object that is judged. The order of kinds is the order in which new ones are judged.
enum Part<'a> {
    Image(&'a RegistrySources),
    ClusterPolicy(&'a ClusterImagePolicy),
    DigestMirrors(&'a ImageDigestMirrorSet),
    ContentPolicy(&'a ImageContentSourcePolicy),
    TagMirrors(&'a ImageTagMirrorSet),
}

struct Candidate<'a> {
    object: Object,
    mark: Mark,
    part: Part<'a>,
}

/// Identity and content of an object, each as a short hash.
struct Mark {
    identity: String,
    content: String,
}

impl Accepted {
    /// All objects, if they can be applied together; else as many as can.
    pub(super) fn of(snapshot: &Snapshot, existing: &Existing<'_>) -> Self {
        let candidates = candidates(snapshot);
        let is_read = |image: &&String| reference::parse(image).is_some();
        let (release_image, unread_release) = match &snapshot.release_image {
            Some(image) if !is_read(&image) => (None, Some(image.clone())),
            image => (image.clone(), None),
        };
        let none = Self { release_image, unread_release, ..Self::default() };
        let mut all = none.clone();
        for candidate in &candidates {
            all.add(candidate);
        }
        all.policies.clone_from(&snapshot.policies);
        let mut accepted = match all.build(snapshot, "") {
            Ok(_) => all,
            Err(_) => none.judge(snapshot, candidates, &in_force(existing)),
        };
        accepted.make_room(snapshot);
        accepted
    }

    /// The files for hosts of a role; an empty role stands for hosts that start from nothing.
    pub(super) fn build(&self, snapshot: &Snapshot, role: &str) -> Result<Built, Error> {
        let none = (String::new(), json!({"default": [{"type": "insecureAcceptAnything"}]}));
        match snapshot.defaults.get(role) {
            None => build(&self.sources(&none.0, &none.1)),
            Some(Ok((registries, policy))) => build(&self.sources(registries, policy)),
            Some(Err(why)) => match build(&self.sources(&none.0, &none.1))? {
                // What is not needed need not be known.
                built if built.files.is_empty() => Ok(built),
                _ => Err(Error::Defaults(why.clone())),
            },
        }
    }

    pub(super) fn sources<'a>(&'a self, registries: &'a str, policy: &'a Value) -> Sources<'a> {
        Sources {
            sources: &self.sources,
            content_policies: &self.content_policies,
            digest_mirrors: &self.digest_mirrors,
            tag_mirrors: &self.tag_mirrors,
            cluster_policies: &self.cluster_policies,
            policies: &self.policies,
            release_image: self.release_image.as_deref(),
            default_registries: registries,
            default_policy: policy,
        }
    }

    /// A release image that is no reference. It is treated as none, because no object is to blame for it.
    pub(super) fn unread_release(&self) -> Option<&str> {
        self.unread_release.as_deref()
    }

    /// Whether an object of the cluster is refused.
    pub(super) fn refuses_any(&self) -> bool {
        self.refused.keys().any(|object| object.kind != "ImagePolicy")
    }

    /// What is refused and has no conditions to say so.
    pub(super) fn left_out(&self) -> BTreeMap<Object, String> {
        let has_conditions = |object: &Object| matches!(object.kind, "ClusterImagePolicy" | "ImagePolicy");
        let left_out = self.refused.iter().filter(|(object, _)| !has_conditions(object));
        left_out.map(|(object, why)| (object.clone(), why.clone())).collect()
    }

    /// The note of what is in force.
    pub(super) fn listed(&self) -> String {
        self.marks.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    fn judge(
        mut self,
        snapshot: &Snapshot,
        mut candidates: Vec<Candidate<'_>>,
        noted: &BTreeMap<String, String>,
    ) -> Self {
        let rank = |mark: &Mark| match noted.get(&mark.identity) {
            Some(content) if *content == mark.content => Rank::InForce,
            Some(_) => Rank::Edited,
            None => Rank::New,
        };
        // The order within a rank is that of the list.
        candidates.sort_by_key(|candidate| rank(&candidate.mark));
        for candidate in &candidates {
            let before = self.clone();
            self.add(candidate);
            let Err(error) = self.build(snapshot, "") else { continue };
            self = before;
            let is_lost = rank(&candidate.mark) != Rank::New;
            let stays = if is_lost { "; until then all pools keep the registries they have" } else { "" };
            self.refused.insert(candidate.object.clone(), format!("{error}{stays}"));
            self.is_lost |= is_lost;
        }
        self.judge_policies(snapshot);
        self
    }

    /// Policies of namespaces do not depend on one another, so each is judged alone.
    fn judge_policies(&mut self, snapshot: &Snapshot) {
        let mut fitting = Vec::new();
        for one in sorted(&snapshot.policies, |one| &one.metadata) {
            self.policies = vec![one.clone()];
            match self.build(snapshot, "") {
                Ok(_) => fitting.push(one.clone()),
                Err(error) => {
                    self.refused.insert(object("ImagePolicy", &one.metadata), error.to_string());
                }
            }
        }
        self.policies = fitting;
    }

    /// Every namespace with a policy has a file that repeats the cluster's. Those of all namespaces together must not make
    /// the MachineConfig too large to be written, so the youngest wait.
    fn make_room(&mut self, snapshot: &Snapshot) {
        let Some(built) = self.build(snapshot, "").ok().filter(|_| !self.policies.is_empty()) else { return };
        let own =
            |path: &str| path.strip_prefix(NAMESPACES)?.strip_prefix('/')?.strip_suffix(".json").map(str::to_owned);
        let sizes = built.files.iter().filter_map(|file| Some((own(&file.path)?, file.contents.len())));
        let sizes: BTreeMap<String, usize> = sizes.collect();
        if sizes.values().sum::<usize>() <= ROOM {
            return;
        }
        let (mut used, mut placed, mut waiting) = (0, BTreeSet::new(), BTreeSet::new());
        for one in by_age(&self.policies, |one| &one.metadata) {
            let namespace = one.metadata.namespace.clone().unwrap_or_default();
            let size = sizes.get(&namespace).copied().unwrap_or_default();
            if placed.contains(&namespace) || waiting.contains(&namespace) {
                continue;
            }
            if used + size <= ROOM {
                used += size;
                placed.insert(namespace);
            } else {
                waiting.insert(namespace);
            }
        }
        let waits = |one: &ImagePolicy| waiting.contains(one.metadata.namespace.as_deref().unwrap_or_default());
        let (waiting, placed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.policies).into_iter().partition(waits);
        self.policies = placed;
        let why = format!(
            "the policies of all namespaces have {} KiB together, which older ones use; delete ImagePolicies that are not needed, or write a ClusterImagePolicy",
            ROOM >> 10
        );
        let refused = waiting.iter().map(|one| (object("ImagePolicy", &one.metadata), why.clone()));
        self.refused.extend(refused);
    }

    fn add(&mut self, candidate: &Candidate<'_>) {
        let Candidate { mark, part, .. } = candidate;
        self.marks.insert(format!("{}-{}", mark.identity, mark.content));
        match part {
            Part::Image(sources) => self.sources = (*sources).clone(),
            Part::ClusterPolicy(policy) => self.cluster_policies.push((*policy).clone()),
            Part::DigestMirrors(set) => self.digest_mirrors.push((*set).clone()),
            Part::ContentPolicy(policy) => self.content_policies.push((*policy).clone()),
            Part::TagMirrors(set) => self.tag_mirrors.push((*set).clone()),
        }
    }
}

/// Every object of the cluster that says something about registries, in the order in which new ones are judged. What
/// forbids comes first: a mirror that is not used is seen at once, a policy that is not in force is not.
fn candidates(snapshot: &Snapshot) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    if let Some(given) = &snapshot.image
        && let Some(sources) = &given.spec.registry_sources
    {
        found.push(Candidate {
            object: image(),
            mark: mark("Image", &given.metadata, sources),
            part: Part::Image(sources),
        });
    }
    for one in by_age(&snapshot.cluster_policies, |one| &one.metadata) {
        found.push(candidate("ClusterImagePolicy", &one.metadata, &one.spec, Part::ClusterPolicy(one)));
    }
    for one in by_age(&snapshot.digest_mirrors, |one| &one.metadata) {
        found.push(candidate("ImageDigestMirrorSet", &one.metadata, &one.spec, Part::DigestMirrors(one)));
    }
    for one in by_age(&snapshot.content_policies, |one| &one.metadata) {
        found.push(candidate("ImageContentSourcePolicy", &one.metadata, &one.spec, Part::ContentPolicy(one)));
    }
    for one in by_age(&snapshot.tag_mirrors, |one| &one.metadata) {
        found.push(candidate("ImageTagMirrorSet", &one.metadata, &one.spec, Part::TagMirrors(one)));
    }
    found
}

fn candidate<'a>(kind: &'static str, metadata: &ObjectMeta, spec: &impl Serialize, part: Part<'a>) -> Candidate<'a> {
    Candidate { object: object(kind, metadata), mark: mark(kind, metadata, spec), part }
}

fn by_age<K>(objects: &[K], metadata: impl Fn(&K) -> &ObjectMeta) -> Vec<&K> {
    let mut objects = sorted(objects, &metadata);
    objects.sort_by_key(|one| metadata(one).creation_timestamp.as_ref().map(|time| time.0));
    objects
}

fn mark(kind: &str, metadata: &ObjectMeta, spec: &impl Serialize) -> Mark {
    let short = |value: Value| fingerprint(&value).chars().take(8).collect();
    Mark {
        identity: short(json!([kind, metadata.name, metadata.uid])),
        content: short(serde_json::to_value(spec).unwrap_or_default()),
    }
}

/// The content that is in force of each object, by the notes on our MachineConfigs.
fn in_force(existing: &Existing<'_>) -> BTreeMap<String, String> {
    let is_ours = |name: &str| name.starts_with("99-") && name.ends_with("-generated-registries");
    let ours = existing.iter().filter(|live| live.metadata.name.as_deref().is_some_and(is_ours));
    let notes = ours
        .filter(|live| standing(live) == Standing::Ours)
        .filter_map(|live| note(live, annotations::ACCEPTED_SETTINGS));
    let marks = notes.flat_map(|noted| noted.split(' ')).filter_map(|mark| mark.split_once('-'));
    marks.map(|(identity, content)| (identity.to_owned(), content.to_owned())).collect()
}
