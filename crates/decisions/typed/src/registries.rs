//! Decides which registries a pool's container runtime uses: mirrors, blocked, allowed and insecure ones, and whose
//! signatures images need.
//!
//! [`build`] is strict: one entry that cannot be applied refuses the whole, so that half a policy never reaches a node. The
//! planner leaves objects at fault out and tells so on them.

mod conf;
mod error;
pub mod hosts;
mod mirrors;
mod payload;
pub mod plan;
mod policy;
mod reference;
pub mod scope;
pub mod signature;
mod sigstore;

use std::collections::{BTreeMap, BTreeSet};

use api::config::{
    ClusterImagePolicy, ImageDigestMirrorSet, ImagePolicy, ImageSigstoreVerificationPolicy, ImageTagMirrorSet,
    RegistrySources,
};
use api::operator::ImageContentSourcePolicy;
use serde_json::Value;

pub use error::Error;
pub use mirrors::Mirrored;

use crate::fragment::File;
use crate::yaml;
use conf::{Conf, Edit};
use policy::Scopes;

pub const REGISTRIES: &str = "/etc/containers/registries.conf";
pub const SEARCH: &str = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf";
pub const POLICY: &str = "/etc/containers/policy.json";
pub const SIGSTORE: &str = "/etc/containers/registries.d/sigstore-registries.yaml";
/// Folder of the policies of single namespaces.
pub const NAMESPACES: &str = "/etc/crio/policies";

/// Everything that says something about registries.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub sources: &'a RegistrySources,
    pub content_policies: &'a [ImageContentSourcePolicy],
    pub digest_mirrors: &'a [ImageDigestMirrorSet],
    pub tag_mirrors: &'a [ImageTagMirrorSet],
    pub cluster_policies: &'a [ClusterImagePolicy],
    pub policies: &'a [ImagePolicy],
    /// The image that the cluster itself is made from, where there is one.
    pub release_image: Option<&'a str>,
    /// The template's registries.conf.
    pub default_registries: &'a str,
    /// The template's policy.json.
    pub default_policy: &'a Value,
}

/// What a pool's runtime is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Built {
    pub files: Vec<File>,
    /// Blocked registries that were left out, because the cluster's own images come from there.
    pub skipped: Vec<String>,
    /// ImagePolicies with scopes that a ClusterImagePolicy has already.
    pub conflicts: Vec<Conflict>,
    /// Sources whose mirror sets contradict one another on the order of mirrors.
    pub loops: Vec<String>,
}

/// An ImagePolicy whose scopes are not all applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub namespace: String,
    pub name: String,
    pub scopes: Vec<String>,
}

impl Built {
    /// Why entries of the Image were left out, in upstream's words.
    pub fn skipped_message(&self) -> Option<String> {
        (!self.skipped.is_empty()).then(|| {
            let entries: Vec<_> = self.skipped.iter().map(|entry| format!("{entry:?}")).collect();
            format!(
                "error adding [{}] to blocked registries, cannot block the repository being used by the payload",
                entries.join(" ")
            )
        })
    }
}

/// The files of the generated fragment.
pub fn build(given: &Sources<'_>) -> Result<Built, Error> {
    let by_digest = mirrors::join(digest_entries(given));
    let by_tag = mirrors::join(mirrors::of_tag_sets(given.tag_mirrors));
    let lists = payload::sort(given.sources, &by_digest, given.release_image)?;
    let cluster = cluster_scopes(given.cluster_policies)?;
    let (namespaced, conflicts) = namespace_scopes(given.policies, &cluster)?;

    let conf = registries(given, &lists.blocked, &by_digest, &by_tag)?;
    let mut files = Vec::new();
    if let Some(conf) = &conf {
        files.push(File::new(REGISTRIES, conf.write()?));
    }
    let has_lists = !lists.rejected.is_empty() || !lists.allowed.is_empty() || lists.excepted.is_some();
    if has_lists || !cluster.is_empty() || !namespaced.is_empty() {
        let policy = policy::cluster(given.default_policy, &lists, &cluster)?;
        let own = policy::namespaces(&policy, &lists, &namespaced)?;
        files.push(json_file(POLICY, &policy));
        let scopes: BTreeSet<&str> =
            cluster.keys().chain(namespaced.values().flat_map(BTreeMap::keys)).map(String::as_str).collect();
        if !scopes.is_empty() {
            files.push(File::new(SIGSTORE, yaml::write(&sigstore::write(&scopes, conf.as_ref())?)));
        }
        files.extend(own.iter().map(|(name, policy)| json_file(&format!("{NAMESPACES}/{name}.json"), policy)));
    }
    files.extend(search(given.sources.container_runtime_search_registries.as_deref())?);
    let loops = by_digest.iter().chain(&by_tag).filter(|set| set.has_loop).map(|set| set.source.clone()).collect();
    Ok(Built { files, skipped: lists.skipped, conflicts, loops })
}

fn digest_entries<'a>(given: &Sources<'a>) -> impl Iterator<Item = mirrors::Entry<'a>> {
    mirrors::of_digest_sets(given.digest_mirrors).chain(mirrors::of_content_policies(given.content_policies))
}

/// registries.conf, if anything asks for one. An empty list of insecure registries does.
fn registries(
    given: &Sources<'_>,
    blocked: &[String],
    by_digest: &[Mirrored],
    by_tag: &[Mirrored],
) -> Result<Option<Conf>, Error> {
    let has_mirrors =
        !given.content_policies.is_empty() || !given.digest_mirrors.is_empty() || !given.tag_mirrors.is_empty();
    if given.sources.insecure_registries.is_none() && blocked.is_empty() && !has_mirrors {
        return Ok(None);
    }
    let insecure = given.sources.insecure_registries.as_deref().unwrap_or_default();
    for (list, entries) in [("insecure", insecure), ("blocked", blocked)] {
        if let Some(entry) = entries.iter().find(|entry| !scope::is_scope(entry)) {
            return Err(Error::Scope { list, entry: entry.clone() });
        }
    }
    mirrors::check(digest_entries(given).chain(mirrors::of_tag_sets(given.tag_mirrors)))?;
    let mut conf = Conf::parse(given.default_registries)?;
    conf.edit(&Edit { insecure, blocked, by_digest, by_tag })?;
    Ok(Some(conf))
}

fn cluster_scopes(policies: &[ClusterImagePolicy]) -> Result<Scopes, Error> {
    let mut scopes = Scopes::new();
    for policy in policies {
        let object = format!("ClusterImagePolicy {}", policy.metadata.name.as_deref().unwrap_or_default());
        let requirement = requirement(object, &policy.spec.policy, &policy.spec.scopes)?;
        for scope in &policy.spec.scopes {
            scopes.entry(scope.clone()).or_default().push(requirement.clone());
        }
    }
    Ok(scopes)
}

/// What a policy asks of images in its scopes.
fn requirement(object: String, policy: &ImageSigstoreVerificationPolicy, scopes: &[String]) -> Result<Value, Error> {
    let problem = match scopes.iter().find(|scope| !scope::is_scope(scope)) {
        Some(scope) => Err(signature::Problem::Scope(scope.clone())),
        None => signature::requirement(policy),
    };
    problem.map_err(|problem| Error::Signature { object, problem })
}

/// Policies of namespaces, without the scopes that the cluster has a policy for.
fn namespace_scopes(
    policies: &[ImagePolicy],
    cluster: &Scopes,
) -> Result<(BTreeMap<String, Scopes>, Vec<Conflict>), Error> {
    let mut by_namespace: BTreeMap<String, Scopes> = BTreeMap::new();
    let mut conflicts = Vec::new();
    for policy in policies {
        let name = policy.metadata.name.clone().unwrap_or_default();
        let namespace = policy.metadata.namespace.clone().unwrap_or_default();
        let object = format!("ImagePolicy {namespace}/{name}");
        let requirement = requirement(object, &policy.spec.policy, &policy.spec.scopes)?;
        let taken = |scope: &&String| cluster.keys().any(|above| scope::is_nested(scope, above));
        let (hidden, own): (Vec<&String>, Vec<&String>) = policy.spec.scopes.iter().partition(taken);
        for scope in own {
            let scopes = by_namespace.entry(namespace.clone()).or_default();
            scopes.entry(scope.clone()).or_default().push(requirement.clone());
        }
        if !hidden.is_empty() {
            conflicts.push(Conflict { namespace, name, scopes: hidden.into_iter().cloned().collect() });
        }
    }
    Ok((by_namespace, conflicts))
}

fn search(registries: Option<&[String]>) -> Result<Option<File>, Error> {
    let Some(registries) = registries else { return Ok(None) };
    if let Some(entry) = registries.iter().find(|entry| !scope::is_source(entry)) {
        return Err(Error::Scope { list: "search", entry: entry.clone() });
    }
    let list = toml::Value::Array(registries.iter().cloned().map(toml::Value::String).collect());
    Ok(Some(File::new(SEARCH, format!("unqualified-search-registries = {list}\n"))))
}

fn json_file(path: &str, content: &Value) -> File {
    // A value that came from JSON can be written as JSON.
    File::new(path, serde_json::to_string_pretty(content).unwrap_or_default() + "\n")
}
