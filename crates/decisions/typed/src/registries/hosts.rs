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

/// A table of the file.
struct Host {
    url: String,
    /// Whether tags are looked up here; without it the place is asked by digest only.
    resolves: bool,
    /// Whether the URL holds the whole path.
    has_path: bool,
    skips_verification: bool,
}

fn file(registry: &Registry) -> String {
    let own = serving(registry.scope());
    let server = if registry.is_blocked() { NOWHERE.to_owned() } else { format!("https://{own}") };
    let mut hosts = Vec::new();
    for (location, insecure, _, tags) in registry.mirrors() {
        add(&mut hosts, location, insecure, tags);
    }
    if registry.is_insecure() && !registry.is_blocked() {
        add(&mut hosts, own, true, true);
    }
    let mut text = format!("server = {}\n", toml::Value::String(server));
    for host in &hosts {
        write(&mut text, host);
    }
    text
}

/// The registry that answers for a name: Docker Hub's images have another name than it.
fn serving(name: &str) -> &str {
    if name == "docker.io" { "registry-1.docker.io" } else { name }
}

/// Adds one place to ask. A mirror set by digest and one by tag may name the same place, and so may the source itself: it
/// gets one table, because TOML refuses a second one of the same name and containerd then uses no mirror at all.
fn add(hosts: &mut Vec<Host>, location: &str, insecure: bool, tags: bool) {
    let (name, path) = location.split_once('/').map_or((location, ""), |(name, path)| (name, path));
    let name = serving(name);
    let schemes: &[&str] = if insecure { &["https", "http"] } else { &["https"] };
    for scheme in schemes {
        let url = match path {
            "" => format!("{scheme}://{name}"),
            path => format!("{scheme}://{name}/v2/{path}"),
        };
        let skips_verification = insecure && *scheme == "https";
        match hosts.iter_mut().find(|host| host.url == url) {
            Some(known) => {
                known.resolves |= tags;
                known.skips_verification |= skips_verification;
            }
            None => hosts.push(Host { url, resolves: tags, has_path: !path.is_empty(), skips_verification }),
        }
    }
}

fn write(text: &mut String, host: &Host) {
    let capabilities = if host.resolves { r#"["pull", "resolve"]"# } else { r#"["pull"]"# };
    // Writing to a text cannot fail.
    let _ = write!(text, "\n[host.{}]\n  capabilities = {capabilities}\n", toml::Value::String(host.url.clone()));
    if host.has_path {
        text.push_str("  override_path = true\n");
    }
    if host.skips_verification {
        text.push_str("  skip_verify = true\n");
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

    /// The tables of the only host file that these objects make, each with its capabilities, as a parser of TOML reads them.
    #[track_caller]
    fn tables(sources: Value, mirrors: &Value) -> Vec<String> {
        let sources: RegistrySources = serde_json::from_value(sources).unwrap();
        let object = |kind: &str, field: &str| {
            json!({
                "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "m"}, "spec": {field: mirrors},
            })
        };
        let digests = serde_json::from_value(object("ImageDigestMirrorSet", "imageDigestMirrors")).unwrap();
        let tags = serde_json::from_value(object("ImageTagMirrorSet", "imageTagMirrors")).unwrap();
        let given = Sources {
            sources: &sources,
            content_policies: &[],
            digest_mirrors: &[digests],
            tag_mirrors: &[tags],
            cluster_policies: &[],
            policies: &[],
            release_image: None,
            default_registries: "",
            default_policy: &Value::Null,
        };
        let hosts = build(&given).unwrap();
        assert_eq!(hosts.files.len(), 1, "{:?}", hosts.files);
        let text = &hosts.files[0].contents;
        let parsed: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        let tables = parsed["host"].as_table().unwrap();
        tables.iter().map(|(url, table)| format!("{url} {table}")).collect()
    }

    #[test]
    fn a_place_that_is_asked_by_digest_and_by_tag_has_one_table_with_both_capabilities() {
        let mirrors = json!([{"source": "quay.io", "mirrors": ["m.local", "m.local:8443/quay"]}]);
        expect![[r#"
            [
                "https://m.local { capabilities = [\"pull\", \"resolve\"] }",
                "https://m.local:8443/v2/quay { capabilities = [\"pull\", \"resolve\"], override_path = true }",
            ]
        "#]]
        .assert_debug_eq(&tables(json!({}), &mirrors));
    }

    #[test]
    fn a_source_that_is_its_own_mirror_and_insecure_has_one_table_for_each_way() {
        for (source, host) in [("quay.io", "quay.io"), ("docker.io", "registry-1.docker.io")] {
            let mirrors = json!([{"source": source, "mirrors": [source, "m.local"]}]);
            let found = tables(json!({"insecureRegistries": [source]}), &mirrors);
            let mut expected = [
                format!("http://{host} {{ capabilities = [\"pull\", \"resolve\"] }}"),
                format!("https://{host} {{ capabilities = [\"pull\", \"resolve\"], skip_verify = true }}"),
                "https://m.local { capabilities = [\"pull\", \"resolve\"] }".to_owned(),
            ];
            expected.sort();
            assert_eq!(found, expected);
        }
    }
}
