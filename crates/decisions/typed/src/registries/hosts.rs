//! The same for containerd, which reads one `hosts.toml` for each registry.
//!
//! containerd knows mirrors of whole registries only, and no policies. What has no equivalent is listed, so that nobody
//! believes it to be in force.

use std::fmt::Write;

use api::config::RegistrySources;

use super::conf::Registry;
use super::{Error, Sources, mirrors, registries};
use crate::fragment::File;

/// Where containerd looks for host files; its `config_path`.
pub const FOLDER: &str = "/etc/containerd/certs.d";
/// The name below `.invalid` never resolves, so a blocked registry fails with a message that says why.
const NOWHERE: &str = "https://blocked.invalid";

/// Host files, and what they cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    pub files: Vec<File>,
    pub unsupported: Vec<String>,
    /// Scopes that are no whole registries.
    pub scopes: Vec<String>,
}

/// Why a scope has no effect.
pub fn no_settings(scope: &str) -> String {
    format!("containerd has no settings for {scope:?}, only for whole registries")
}

/// The host files for containerd.
pub fn build(given: &Sources<'_>) -> Result<Hosts, Error> {
    let by_digest = mirrors::join(super::digest_entries(given));
    let by_tag = mirrors::join(mirrors::of_tag_sets(given.tag_mirrors));
    let blocked = given.sources.blocked_registries.clone().unwrap_or_default();
    let given = Sources { default_registries: "", ..*given };
    let conf = registries(&given, &blocked, &by_digest, &by_tag)?.unwrap_or_default();
    let mut hosts = Hosts { unsupported: without_equivalent(&given), ..Hosts::default() };
    for registry in conf.registries() {
        let scope = registry.scope();
        if scope.contains(['/', '*']) {
            hosts.scopes.push(scope.to_owned());
            continue;
        }
        hosts.files.push(File::new(format!("{FOLDER}/{scope}/hosts.toml"), file(registry)));
    }
    Ok(hosts)
}

fn without_equivalent(given: &Sources<'_>) -> Vec<String> {
    let RegistrySources { allowed_registries, container_runtime_search_registries, .. } = given.sources;
    let has = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let mut found = Vec::new();
    if has(allowed_registries) {
        found.push("containerd has no equivalent of registrySources.allowedRegistries".to_owned());
    }
    if has(container_runtime_search_registries) {
        found.push("containerd has no equivalent of registrySources.containerRuntimeSearchRegistries".to_owned());
    }
    if !given.cluster_policies.is_empty() || !given.policies.is_empty() {
        found.push("containerd verifies no signatures of ClusterImagePolicies and ImagePolicies".to_owned());
    }
    found
}

fn file(registry: &Registry) -> String {
    let scope = registry.scope();
    // Docker Hub answers under another name than its images have.
    let own = if scope == "docker.io" { "registry-1.docker.io" } else { scope };
    let server = if registry.is_blocked() { NOWHERE.to_owned() } else { format!("https://{own}") };
    let mut text = format!("server = {}\n", toml::Value::String(server));
    for (location, insecure, _, tags) in registry.mirrors() {
        host(&mut text, location, insecure, tags);
    }
    if registry.is_insecure() && !registry.is_blocked() {
        host(&mut text, own, true, true);
    }
    text
}

/// One place to ask. Without the capability to resolve, it is asked by digest only.
fn host(text: &mut String, location: &str, insecure: bool, tags: bool) {
    let capabilities = if tags { r#"["pull", "resolve"]"# } else { r#"["pull"]"# };
    let (name, path) = location.split_once('/').map_or((location, ""), |(name, path)| (name, path));
    let url = |scheme: &str| match path {
        "" => format!("{scheme}://{name}"),
        path => format!("{scheme}://{name}/v2/{path}"),
    };
    let schemes: &[&str] = if insecure { &["https", "http"] } else { &["https"] };
    for scheme in schemes {
        // Writing to a text cannot fail.
        let _ = write!(text, "\n[host.{}]\n  capabilities = {capabilities}\n", toml::Value::String(url(scheme)));
        if !path.is_empty() {
            text.push_str("  override_path = true\n");
        }
        if insecure && *scheme == "https" {
            text.push_str("  skip_verify = true\n");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn mirrors_of_whole_registries_become_host_files_and_the_rest_is_told() {
        let sources: RegistrySources = serde_json::from_value(json!({
            "insecureRegistries": ["lab.local:5000"], "blockedRegistries": ["bad.io"], "allowedRegistries": ["a.io"],
        }))
        .unwrap();
        let set = serde_json::from_value(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "m"},
            "spec": {"imageDigestMirrors": [
                {"source": "docker.io", "mirrors": ["mirror.local:8443/hub"]},
                {"source": "quay.io/org", "mirrors": ["mirror.local:8443/org"]},
            ]},
        }))
        .unwrap();
        let given = Sources {
            sources: &sources,
            content_policies: &[],
            digest_mirrors: &[set],
            tag_mirrors: &[],
            cluster_policies: &[],
            policies: &[],
            release_image: None,
            default_registries: "",
            default_policy: &Value::Null,
        };
        let hosts = build(&given).unwrap();
        let mut shown = String::new();
        for file in &hosts.files {
            let _ = write!(shown, "# {}\n{}", file.path, file.contents);
        }
        let lacking = hosts.unsupported.iter().cloned().chain(hosts.scopes.iter().map(|scope| no_settings(scope)));
        shown += &lacking.collect::<Vec<_>>().join("\n");
        expect![[r##"
            # /etc/containerd/certs.d/docker.io/hosts.toml
            server = "https://registry-1.docker.io"

            [host."https://mirror.local:8443/v2/hub"]
              capabilities = ["pull"]
              override_path = true
            # /etc/containerd/certs.d/bad.io/hosts.toml
            server = "https://blocked.invalid"
            # /etc/containerd/certs.d/lab.local:5000/hosts.toml
            server = "https://lab.local:5000"

            [host."https://lab.local:5000"]
              capabilities = ["pull", "resolve"]
              skip_verify = true

            [host."http://lab.local:5000"]
              capabilities = ["pull", "resolve"]
            containerd has no equivalent of registrySources.allowedRegistries
            containerd has no settings for "quay.io/org", only for whole registries"##]]
        .assert_eq(&shown);
    }
}
