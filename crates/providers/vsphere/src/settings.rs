//! What the cluster says about vSphere, besides the Machines.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::spec::Workspace;

/// Read once when the process starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Addresses that replace `https://<server>`, by server.
    pub endpoints: BTreeMap<String, String>,
    pub failure_domains: Vec<FailureDomain>,
    /// Certificates of authorities to trust besides the system's, in PEM.
    pub authorities: Option<Vec<u8>>,
    /// How long one call watches the tasks that it started. Linked clones and power take seconds; what takes longer, such
    /// as a full clone, is looked at again later.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let patience = Duration::from_secs(5);
        Self { endpoints: BTreeMap::new(), failure_domains: Vec::new(), authorities: None, patience }
    }
}

/// A part of vSphere that fails as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureDomain {
    pub region: String,
    pub zone: String,
    pub server: String,
    pub datacenter: String,
    /// The path of its cluster.
    pub cluster: String,
}

impl Settings {
    /// Reads `spec.platformSpec` of the Infrastructure object.
    #[must_use]
    pub fn from_platform_spec(spec: &Value) -> Self {
        let domains = spec["vsphere"]["failureDomains"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let domains = domains.map(|domain| FailureDomain {
            region: text(&domain["region"]),
            zone: text(&domain["zone"]),
            server: text(&domain["server"]),
            datacenter: text(&domain["topology"]["datacenter"]),
            cluster: text(&domain["topology"]["computeCluster"]),
        });
        Self { failure_domains: domains.collect(), ..Self::default() }
    }

    /// The failure domain in which machines of a workspace are.
    pub(crate) fn domain(&self, workspace: &Workspace) -> Option<&FailureDomain> {
        let name = |path: &str| path.trim_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        self.failure_domains.iter().find(|domain| {
            let is_cluster = domain.cluster.is_empty() || {
                let cluster = domain.cluster.trim_end_matches('/');
                workspace.resource_pool == cluster || workspace.resource_pool.starts_with(&format!("{cluster}/"))
            };
            domain.server == workspace.server && name(&domain.datacenter) == name(&workspace.datacenter) && is_cluster
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workspace_is_in_the_failure_domain_of_its_cluster() {
        let domain = |zone: &str, cluster: &str| {
            json!({"name": zone, "region": "east", "zone": zone, "server": "vc", "topology":
                {"datacenter": "DC0", "computeCluster": cluster, "networks": ["n"], "datastore": "d"}})
        };
        let spec = json!({"vsphere": {"failureDomains": [domain("a", "/DC0/host/C0"), domain("b", "/DC0/host/C01")]}});
        let settings = Settings::from_platform_spec(&spec);
        let zone = |server: &str, pool: &str| {
            let text = str::to_owned;
            let workspace = Workspace {
                server: text(server),
                datacenter: text("DC0"),
                resource_pool: text(pool),
                ..Workspace::default()
            };
            settings.domain(&workspace).map(|domain| domain.zone.clone())
        };
        assert_eq!(zone("vc", "/DC0/host/C0/Resources").as_deref(), Some("a"));
        assert_eq!(zone("vc", "/DC0/host/C01/Resources/pool").as_deref(), Some("b"));
        assert_eq!(zone("vc", "/DC0/host/C2/Resources"), None);
        assert_eq!(zone("other", "/DC0/host/C0/Resources"), None);
        assert_eq!(Settings::from_platform_spec(&json!({})), Settings::default());
    }
}
