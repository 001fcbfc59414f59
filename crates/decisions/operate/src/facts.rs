//! What is known of the cluster that Machinist is in.

use std::collections::{BTreeMap, BTreeSet};

use api::labels;
use jiff::Timestamp;
use serde_json::Value;

/// Whose cluster it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    #[default]
    Plain,
    OpenShift,
}

/// What is known of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub name: String,
    /// Keys of its labels.
    pub labels: Vec<String>,
    /// `containerd://1.7.2`, as the kubelet tells.
    pub runtime: String,
    pub addresses: Vec<String>,
}

/// What is known of the cluster; absent is what could not be found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub platform: Platform,
    pub nodes: Vec<NodeFacts>,
    /// Names of all pools, for which user data is kept.
    pub pools: Vec<String>,
    /// Keys of the labels that pools select nodes by.
    pub pool_labels: BTreeSet<String>,
    /// The API's own service and the address of DNS.
    pub service_addresses: Vec<String>,
    pub dns_address: Option<String>,
    /// What clients of the API trust, in PEM.
    pub api_ca: Option<String>,
    /// `https://host:port` at which machines reach the API.
    pub api_url: Option<String>,
    /// The config server's authorities, in PEM.
    pub server_ca: Option<String>,
    /// Secrets and bundles of the user: name, key, content.
    pub sources: Sources,
    pub topology: Option<String>,
    /// Objects of OpenShift that are handed on as they are.
    pub infrastructure: Option<Value>,
    pub dns: Option<Value>,
    pub proxy: Option<Value>,
    /// The kind PrometheusRule is there.
    pub has_prometheus_rules: bool,
    /// The kind ServiceMonitor is there.
    pub has_service_monitors: bool,
    pub now: Option<Timestamp>,
}

/// What the user gives nodes beside configs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// The docker config of the Secret `pull-secret`.
    pub pull_secret: Option<Vec<u8>>,
    /// `ca-bundle.crt` of the ConfigMap `user-ca-bundle`.
    pub trust_bundle: Option<String>,
    /// The ConfigMap `image-registry-ca`: the registry, with `..` for the colon before a port, and its CA.
    pub registries: BTreeMap<String, String>,
    /// `cloud.conf` and `ca-bundle.pem` of the ConfigMap `kube-cloud-config`.
    pub cloud_config: Option<String>,
    pub cloud_ca: Option<String>,
}

impl Facts {
    /// The label of the control plane: today's, unless this cluster only knows the older one.
    pub fn control_plane_label(&self) -> &'static str {
        let has = |label: &str| self.nodes.iter().any(|node| node.labels.iter().any(|key| key == label));
        if !has(labels::NODE_ROLE_CONTROL_PLANE) && has(labels::NODE_ROLE_MASTER) {
            labels::NODE_ROLE_MASTER
        } else {
            labels::NODE_ROLE_CONTROL_PLANE
        }
    }

    pub fn control_plane(&self) -> impl Iterator<Item = &NodeFacts> {
        let label = self.control_plane_label();
        self.nodes.iter().filter(move |node| node.labels.iter().any(|key| key == label))
    }

    /// The unit of the runtime that most nodes run; `None` without nodes, or for a runtime we do not know.
    pub fn runtime_service(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &self.nodes {
            let unit = match node.runtime.split_once("://").map(|(name, _)| name) {
                Some("containerd") => "containerd.service",
                Some("cri-o") => "crio.service",
                Some("docker") => "docker.service",
                Some(_) | None => continue,
            };
            *counts.entry(unit).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(unit, _)| unit.to_owned())
    }

    /// Addresses and names that belong to the cluster itself, and to no node: of the API, of its Service and of DNS.
    pub fn reserved(&self) -> BTreeSet<String> {
        let bare = |host: String| host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let api = self.api_url.as_deref().and_then(host_of).map(bare);
        self.service_addresses.iter().cloned().chain(self.dns_address.clone()).chain(api).collect()
    }

    /// `host:port` at which new machines ask for their config.
    pub fn server(&self, given: Option<&str>) -> Option<String> {
        server(given, self.api_url.as_deref())
    }

    /// Names and addresses that the config server's certificate is for.
    pub fn server_names(&self, given: Option<&str>) -> Vec<String> {
        let host = |text: String| text.rsplit_once(':').map_or(text.clone(), |(host, _)| host.to_owned());
        let mut names: Vec<String> = self.server(given).map(host).into_iter().collect();
        names.extend(self.control_plane().flat_map(|node| node.addresses.iter().cloned()));
        let bare = |name: String| name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut names: Vec<String> = names.into_iter().map(bare).filter(|name| !name.is_empty()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// `host:port` of the config server: as given, or its own port where the API is.
pub(crate) fn server(given: Option<&str>, api_url: Option<&str>) -> Option<String> {
    let host = match given {
        Some(given) if has_port(given) => return Some(given.to_owned()),
        Some(given) => given.to_owned(),
        None => host_of(api_url?)?,
    };
    Some(format!("{host}:{}", crate::Installation::SERVER_PORT))
}

fn has_port(address: &str) -> bool {
    address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')))
}

/// The host of `https://host:port/…`.
fn host_of(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next()?;
    let host = if has_port(authority) { authority.rsplit_once(':')?.0 } else { authority };
    (!host.is_empty()).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_server_is_found_beside_the_api_unless_it_is_given() {
        let at = |url: &str| Facts { api_url: Some(url.into()), ..Facts::default() };
        assert_eq!(at("https://api-int.example.com:6443").server(None).as_deref(), Some("api-int.example.com:22623"));
        assert_eq!(at("https://[fd00::1]:6443/").server(None).as_deref(), Some("[fd00::1]:22623"));
        assert_eq!(at("https://a:1").server(Some("b")).as_deref(), Some("b:22623"));
        assert_eq!(at("https://a:1").server(Some("b:443")).as_deref(), Some("b:443"));
        assert_eq!(Facts::default().server(None), None);
    }

    #[test]
    fn the_certificate_is_for_the_server_and_every_control_plane_address() {
        let node = NodeFacts {
            labels: vec![labels::NODE_ROLE_CONTROL_PLANE.to_owned()],
            addresses: vec!["10.0.0.5".into(), "cp-1".into()],
            ..NodeFacts::default()
        };
        let facts = Facts { api_url: Some("https://[fd00::1]:6443".into()), nodes: vec![node], ..Facts::default() };
        assert_eq!(facts.server_names(None), ["10.0.0.5", "cp-1", "fd00::1"]);
    }
}
