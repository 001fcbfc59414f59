//! Which platform a cluster runs on.

use serde_json::Value;

/// A platform, as far as the operator has to tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Aws,
    Azure,
    BareMetal,
    Gcp,
    OpenStack,
    VSphere,
    Kubemark,
    /// Platforms that upstream once had and we have.
    Libvirt,
    Ovirt,
    /// Platforms that upstream has and we have not.
    Foreign,
    /// Clusters whose machines nobody manages.
    WithoutMachines,
    Unknown,
}

/// Why nobody can say which platform it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    #[error("no platform provider found on install config")]
    None,
    #[error("more than one platform provider given")]
    Several,
    #[error("missing \"install-config\" in configmap")]
    NoInstallConfig,
    #[error("ConfigMap kube-system/cluster-config-v1, key install-config: {0}")]
    Unreadable(String),
}

impl Platform {
    /// The platform of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "AWS" => Self::Aws,
            "Azure" => Self::Azure,
            "BareMetal" => Self::BareMetal,
            "GCP" => Self::Gcp,
            "OpenStack" => Self::OpenStack,
            "VSphere" => Self::VSphere,
            "kubemark" => Self::Kubemark,
            "Libvirt" => Self::Libvirt,
            "oVirt" => Self::Ovirt,
            "IBMCloud" | "PowerVS" | "Nutanix" => Self::Foreign,
            "None" | "External" => Self::WithoutMachines,
            _ => Self::Unknown,
        }
    }

    /// Whether the platform takes machines back, so that a daemon has to watch for its notice.
    pub(super) fn has_spot(self) -> bool {
        matches!(self, Self::Aws | Self::Azure | Self::Gcp)
    }
}

/// The platform of today's Infrastructure object.
pub fn platform_of(infrastructure: &Value) -> Result<String, PlatformError> {
    let name = infrastructure["status"]["platformStatus"]["type"].as_str().unwrap_or_default();
    if name.is_empty() { Err(PlatformError::None) } else { Ok(name.to_owned()) }
}

/// The platform of the install-config of 2019: the one key below `platform` that is not null.
pub fn platform_of_install_config(text: Option<&str>) -> Result<String, PlatformError> {
    let text = text.ok_or(PlatformError::NoInstallConfig)?;
    let config: Value = serde_saphyr::from_str(text).map_err(|error| PlatformError::Unreadable(error.to_string()))?;
    let known = [("aws", "AWS"), ("libvirt", "Libvirt"), ("openstack", "OpenStack"), ("kubemark", "kubemark")];
    let mut given = known.into_iter().filter(|(key, _)| !config["platform"][key].is_null());
    match (given.next(), given.next()) {
        (None, _) => Err(PlatformError::None),
        (Some((_, name)), None) => Ok(name.to_owned()),
        (Some(_), Some(_)) => Err(PlatformError::Several),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&platform_of_install_config(Some(text)).unwrap_or_else(|error| error.to_string()));
    }

    #[test]
    fn an_install_config_names_one_platform() {
        check("platform: {kubemark: {}}", expect!["kubemark"]);
        check("platform:\n  libvirt:\n    URI: qemu+tcp", expect!["Libvirt"]);
        check("platform: {aws: null}", expect!["no platform provider found on install config"]);
        check("platform: {azure: {}}", expect!["no platform provider found on install config"]);
        check("platform: {aws: {}, openstack: {}}", expect!["more than one platform provider given"]);
        check("apiVersion: v1", expect!["no platform provider found on install config"]);
        assert_eq!(platform_of_install_config(None), Err(PlatformError::NoInstallConfig));
        assert!(matches!(platform_of_install_config(Some("a: [")), Err(PlatformError::Unreadable(_))));
    }
}
