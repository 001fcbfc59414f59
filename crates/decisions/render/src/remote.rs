//! Content behind remote sources: what has to be fetched, and its place in the rendered config once it is.
//!
//! A rendered config is complete: a node never fetches. What was fetched is checked against its hash, held to a size, and
//! embedded; the pin says what it was, so that the same fragment never brings other content tomorrow.

use std::collections::HashMap;

use api::machineconfiguration::MachineConfig;
use api::machinist::Pin;
use ignition::{Config, DecodeError, File, Resource, data_url};
use sha2::{Digest, Sha256};

use crate::error::Problem;
use crate::provenance::Traced;
use crate::{Settings, name_of};

/// One remote content that the config cannot do without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Name of the fragment that refers to it.
    pub fragment: String,
    /// Generation of the fragment: content is fetched once for each.
    pub generation: i64,
    /// Path of the file on the node.
    pub path: String,
    pub source: String,
    /// Headers to send, for http and https.
    pub headers: Vec<(String, String)>,
    /// `sha512-…` or `sha256-…` that the (decompressed) content must have.
    pub hash: Option<String>,
}

/// Contents that were fetched, by fragment and source.
#[derive(Debug, Clone, Default)]
pub struct Fetched {
    contents: HashMap<(String, String), Vec<u8>>,
}

impl Fetched {
    pub fn insert(&mut self, need: &Need, content: Vec<u8>) {
        self.contents.insert((need.fragment.clone(), need.source.clone()), content);
    }

    fn get(&self, need: &Need) -> Option<&[u8]> {
        self.contents.get(&(need.fragment.clone(), need.source.clone())).map(Vec::as_slice)
    }
}

/// What became of the remote sources of a config.
#[derive(Default)]
pub(crate) struct Embedded {
    pub(crate) pins: Vec<Pin>,
    /// What has to be fetched first.
    pub(crate) needs: Vec<Need>,
    pub(crate) problems: Vec<Problem>,
}

/// Puts fetched content into every file that refers to a remote source; asks for what is missing.
pub(crate) fn embed(
    config: &mut Config,
    fragments: &[&MachineConfig],
    traced: &Traced,
    settings: &Settings,
    fetched: &Fetched,
    warnings: &mut Vec<Problem>,
) -> Embedded {
    let Embedded { mut pins, mut needs, mut problems } = Embedded::default();
    warn_of_references(config, warnings);
    for file in config.storage.iter_mut().flat_map(|storage| storage.files.iter_mut().flatten()) {
        let File { path, contents, append, .. } = file;
        for resource in contents.iter_mut().chain(append.iter_mut().flatten()).filter(|each| !ignition::is_inline(each))
        {
            let source = resource.source.as_deref().unwrap_or_default();
            let fragment = fragments[traced.origin(path, source)];
            let need = need(fragment, path, resource);
            if is_link_local(&need.source) {
                let message = format!("{path}: source {} is a link-local address", need.source);
                problems.push(Problem::config(&need.fragment, "spec.config.storage.files", message));
            } else if settings.keep_remote {
                let message = format!("{path}: content of {} is not embedded", need.source);
                warnings.push(Problem::config(&need.fragment, "spec.config.storage.files", message));
            } else if let Some(content) = fetched.get(&need) {
                match place(resource, &need, content, settings) {
                    Ok(pin) => {
                        if need.hash.is_none() {
                            let message =
                                format!("{path}: source {} has no hash, so it was taken as it came", need.source);
                            warnings.push(Problem::config(&need.fragment, "spec.config.storage.files", message));
                        }
                        pins.push(pin);
                    }
                    Err(problem) => problems.push(problem),
                }
            } else {
                needs.push(need);
            }
        }
    }
    Embedded { pins, needs, problems }
}

fn need(fragment: &MachineConfig, path: &str, resource: &Resource) -> Need {
    let headers = resource.http_headers.iter().flatten();
    Need {
        fragment: name_of(fragment).to_owned(),
        generation: fragment.metadata.generation.unwrap_or_default(),
        path: path.to_owned(),
        source: resource.source.clone().unwrap_or_default(),
        headers: headers.filter_map(|header| Some((header.name.clone(), header.value.clone()?))).collect(),
        hash: resource.verification.as_ref().and_then(|verification| verification.hash.clone()),
    }
}

fn place(resource: &mut Resource, need: &Need, content: &[u8], settings: &Settings) -> Result<Pin, Problem> {
    let refuse = |message: String| Problem::config(&need.fragment, "spec.config.storage.files", message);
    let (path, source) = (&need.path, &need.source);
    if content.len() > settings.remote_limit {
        let (size, limit) = (content.len(), settings.remote_limit);
        return Err(refuse(format!("{path}: content of {source} is too large ({size} bytes, max {limit} bytes)")));
    }
    let embedded = Resource { source: Some(data_url::encode(content)), http_headers: None, ..resource.clone() };
    let plain = ignition::decode(&embedded)
        .map_err(|error: DecodeError| refuse(format!("{path}: content of {source}: {error}")))?;
    if ignition::hash_matches(&embedded, plain.as_slice()) == Some(false) {
        let hash = need.hash.as_deref().unwrap_or_default();
        return Err(refuse(format!("{path}: content of {source} does not have the hash {hash}")));
    }
    *resource = embedded;
    Ok(Pin {
        fragment: need.fragment.clone(),
        generation: need.generation,
        source: need.source.clone(),
        hash: format!("sha256-{}", hex::encode(Sha256::digest(content))),
    })
}

/// Other configs that a config refers to are read by new machines on their first boot, and by nobody after that.
fn warn_of_references(config: &Config, warnings: &mut Vec<Problem>) {
    let Some(references) = &config.ignition.config else { return };
    for resource in references.merge.iter().flatten().chain(&references.replace) {
        let message = "a reference to another Ignition config is followed on first boot only";
        let source = resource.source.as_deref().unwrap_or_default();
        if !source.is_empty() {
            warnings.push(Problem::config("", "spec.config.ignition.config", format!("{message}: {source}")));
        }
    }
}

/// Metadata services answer on link-local addresses with credentials of the machine that asks.
fn is_link_local(source: &str) -> bool {
    let Some((_, rest)) = source.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let v6 = host.strip_prefix('[').map(str::to_ascii_lowercase);
    match v6 {
        Some(v6) => v6.starts_with("fe8") || v6.starts_with("fe9") || v6.starts_with("fea") || v6.starts_with("feb"),
        None => host.starts_with("169.254."),
    }
}
