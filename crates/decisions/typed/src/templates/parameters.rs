//! What templates are filled with: facts from the ControllerConfig and a few other objects, each with a type.

use std::collections::BTreeMap;
use std::fmt;

use api::config::{ProxySpec, ProxyStatus};
use api::machineconfiguration::ControllerConfigSpec;
use k8s_openapi::ByteString;
use serde::Serialize;

use crate::kubelet::tls::Tls;

/// Everything a template can refer to. A name that is not here is an error of the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Parameters {
    /// `master`, `worker` or `arbiter`.
    pub role: String,
    /// The platform in lower case, `none` where there is none or we do not know it.
    pub platform: String,
    /// `HighlyAvailable`, `SingleReplica`, …
    pub topology: String,
    /// `crio` or `containerd`.
    pub runtime: String,
    /// The major version of containerd, 0 for CRI-O.
    pub runtime_major: u64,
    pub cluster_dns: String,
    pub cluster_domain: String,
    /// Where nodes reach the API; both are empty where that is not known.
    pub api_host: String,
    pub api_port: String,
    /// Whether a controller of its own speaks to the cloud.
    pub external_cloud_provider: bool,
    pub cloud_config: String,
    /// CA that clients of the API server trust, in PEM.
    pub kube_ca: String,
    /// CA of the config server, in PEM.
    pub root_ca: String,
    /// Certificates that the user adds to the trusted ones, in PEM.
    pub trust_bundle: String,
    pub proxy: Proxy,
    pub images: BTreeMap<String, String>,
    /// Docker config with the credentials of registries, on one line. A secret.
    pub pull_secret: Secret,
    /// Docker config for the cluster's own registry. A secret.
    pub internal_pull_secret: Secret,
    pub tls_min_version: String,
    pub tls_cipher_suites: Vec<String>,
    pub admin_user: String,
}

/// A text that templates get and nobody else sees: debugging prints only whether it is there.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "secret" })
    }
}

/// Where outgoing requests go; empty texts where there is no proxy. Addresses of proxies often have passwords in them.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Proxy {
    pub http: String,
    pub https: String,
    pub no: String,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { http, https, no } = self;
        let hidden = |text: &String| Secret(text.clone());
        f.debug_struct("Proxy").field("http", &hidden(http)).field("https", &hidden(https)).field("no", no).finish()
    }
}

/// Why there are no parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot generate MachineConfigs when no platformStatus.type is set (ControllerConfig spec.infra.status.platformStatus.type, for example None)"
    )]
    NoPlatform,
    #[error(
        "the pull secret is not a docker config: {0} (key .dockerconfigjson of the secret that ControllerConfig spec.pullSecret names)"
    )]
    PullSecret(String),
    #[error(
        "ControllerConfig {0} has a line break, a quote, a backslash or another character that an environment file cannot hold; remove it"
    )]
    Character(&'static str),
}

/// Platforms that have templates of their own somewhere; any other is treated as `none`.
const PLATFORMS: [&str; 14] = [
    "aws",
    "azure",
    "baremetal",
    "gcp",
    "openstack",
    "none",
    "vsphere",
    "ovirt",
    "ibmcloud",
    "kubevirt",
    "powervs",
    "nutanix",
    "external",
    "libvirt",
];
/// Platforms whose cloud controller runs in the cluster.
const EXTERNAL_CLOUDS: [&str; 8] = ["aws", "azure", "gcp", "openstack", "vsphere", "ibmcloud", "powervs", "nutanix"];

impl Parameters {
    /// Reads the facts. `pull_secret` is the secret that the ControllerConfig names, as it was found.
    pub fn new(spec: &ControllerConfigSpec, pull_secret: Option<&[u8]>, api_tls: Option<&Tls>) -> Result<Self, Error> {
        let status = spec.infra.as_ref().and_then(|infra| infra.status.as_ref());
        let platform = status.and_then(|status| status.platform_status.as_ref()?.type_.as_deref());
        let platform = platform.filter(|platform| !platform.is_empty()).ok_or(Error::NoPlatform)?.to_lowercase();
        let known = PLATFORMS.contains(&platform.as_str());
        let tls = api_tls.cloned().unwrap_or_else(|| Tls::from_profile(None));
        let api_url = status.and_then(|status| status.api_server_internal_uri.as_deref());
        let proxy = spec.proxy.as_ref().map(Proxy::from).unwrap_or_default();
        for (field, value) in [
            ("spec.proxy httpProxy", proxy.http.as_str()),
            ("spec.proxy httpsProxy", &proxy.https),
            ("spec.proxy noProxy", &proxy.no),
            ("spec.clusterDNSIP", &spec.cluster_dns_ip),
            ("spec.infra.status.apiServerInternalURI", api_url.unwrap_or_default()),
        ] {
            if value.contains(|c: char| c.is_control() || matches!(c, '\'' | '"' | '\\')) {
                return Err(Error::Character(field));
            }
        }
        let (api_host, api_port) = api_url.map(host_and_port).unwrap_or_default();
        let text = |bytes: &ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
        let optional = |bytes: &Option<ByteString>| bytes.as_ref().map(text).unwrap_or_default();
        Ok(Self {
            role: String::new(),
            external_cloud_provider: EXTERNAL_CLOUDS.contains(&platform.as_str()),
            platform: if known { platform } else { "none".to_owned() },
            topology: status.and_then(|status| status.control_plane_topology.clone()).unwrap_or_default(),
            runtime: String::new(),
            runtime_major: 0,
            cluster_dns: spec.cluster_dns_ip.clone(),
            cluster_domain: "cluster.local".to_owned(),
            api_host,
            api_port,
            cloud_config: spec.cloud_provider_config.clone(),
            kube_ca: text(&spec.kube_api_server_serving_ca_data),
            root_ca: text(&spec.root_ca_data),
            trust_bundle: optional(&spec.additional_trust_bundle),
            proxy,
            images: spec.images.clone(),
            pull_secret: Secret(pull_secret.map(compact).transpose()?.unwrap_or_default()),
            internal_pull_secret: Secret(optional(&spec.internal_registry_pull_secret)),
            tls_min_version: tls.min_version,
            tls_cipher_suites: tls.cipher_suites,
            admin_user: "core".to_owned(),
        })
    }
}

impl From<&ProxyStatus> for Proxy {
    fn from(status: &ProxyStatus) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self { http: text(&status.http_proxy), https: text(&status.https_proxy), no: text(&status.no_proxy) }
    }
}

impl From<&ProxySpec> for Proxy {
    fn from(spec: &ProxySpec) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self { http: text(&spec.http_proxy), https: text(&spec.https_proxy), no: text(&spec.no_proxy) }
    }
}

/// The host and the port of an address; without a port it is that of HTTPS.
fn host_and_port(url: &str) -> (String, String) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split('/').next().unwrap_or_default();
    // The colons of an IPv6 address stand between brackets.
    match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (bare(host), port.to_owned()),
        None => (bare(place), "443".to_owned()),
    }
}

/// A host without brackets: whoever joins it with a port puts them around an IPv6 address.
fn bare(host: &str) -> String {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned()
}

/// A docker config on one line. What is wrong with it is told by place, never by content: it is full of passwords.
fn compact(secret: &[u8]) -> Result<String, Error> {
    let value: serde_json::Value = serde_json::from_slice(secret).map_err(|error| {
        Error::PullSecret(format!("it is not JSON at line {} column {}", error.line(), error.column()))
    })?;
    if !value.get("auths").is_some_and(serde_json::Value::is_object) {
        return Err(Error::PullSecret("it has no object \"auths\"".to_owned()));
    }
    Ok(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_may_have_colons() {
        let both = |url| host_and_port(url);
        assert_eq!(both("https://api-int.a.b:6443"), ("api-int.a.b".into(), "6443".into()));
        assert_eq!(both("https://[fd00::1]:6443/x"), ("fd00::1".into(), "6443".into()));
        assert_eq!(both("https://[fd00::1]"), ("fd00::1".into(), "443".into()));
        assert_eq!(both("https://api"), ("api".into(), "443".into()));
    }

    #[test]
    fn a_broken_pull_secret_is_told_without_its_content() {
        for secret in [&b"{\"auths\": {\"hunter2\": "[..], b"hunter2", b"{\"hunter2\": 1}"] {
            let error = compact(secret).expect_err("it is broken").to_string();
            assert!(error.contains("pull secret") && !error.contains("hunter2"), "{error}");
        }
        assert_eq!(compact(b"{ \"auths\": {} }").as_deref(), Ok("{\"auths\":{}}"));
    }
}
