//! What the cluster says about AWS, besides the Machines.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::spec::Tag;

/// Read once when the process starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Addresses that replace AWS's own, by service: `ec2`, `elasticloadbalancing`.
    pub endpoints: BTreeMap<String, String>,
    /// Tags of everything that is made for the cluster. A Machine's own tags come first.
    pub resource_tags: Vec<Tag>,
    pub ip_family: IpFamily,
    /// Certificates of authorities to trust besides the system's, in PEM.
    pub authorities: Option<Vec<u8>>,
}

/// Which addresses the machines of the cluster have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IpFamily {
    #[default]
    Ipv4,
    DualStackIpv4Primary,
    DualStackIpv6Primary,
}

impl IpFamily {
    #[must_use]
    pub fn is_dual_stack(self) -> bool {
        match self {
            Self::Ipv4 => false,
            Self::DualStackIpv4Primary | Self::DualStackIpv6Primary => true,
        }
    }
}

impl Settings {
    /// Reads `status.platformStatus` of the Infrastructure object.
    #[must_use]
    pub fn from_platform_status(status: &Value) -> Self {
        let aws = &status["aws"];
        let pairs = |list: &str, key: &str, value: &str| {
            let entries = aws[list].as_array().into_iter().flatten();
            let pairs =
                entries.filter_map(|entry| Some((entry[key].as_str()?.to_owned(), entry[value].as_str()?.to_owned())));
            pairs.collect::<Vec<_>>()
        };
        let tags = pairs("resourceTags", "key", "value").into_iter();
        Self {
            endpoints: pairs("serviceEndpoints", "name", "url").into_iter().collect(),
            resource_tags: tags.map(|(name, value)| Tag { name, value }).collect(),
            ip_family: match aws["ipFamily"].as_str() {
                Some("DualStackIPv4Primary") => IpFamily::DualStackIpv4Primary,
                Some("DualStackIPv6Primary") => IpFamily::DualStackIpv6Primary,
                _ => IpFamily::Ipv4,
            },
            authorities: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_from_the_infrastructure_object() {
        let status = json!({"type": "AWS", "aws": {
            "region": "us-east-1",
            "serviceEndpoints": [{"name": "ec2", "url": "https://vpce.example"}, {"name": "broken"}],
            "resourceTags": [{"key": "team", "value": "red"}],
            "ipFamily": "DualStackIPv6Primary",
        }});
        let settings = Settings::from_platform_status(&status);
        assert_eq!(settings.endpoints, BTreeMap::from([("ec2".to_owned(), "https://vpce.example".to_owned())]));
        assert_eq!(settings.resource_tags, [Tag { name: "team".to_owned(), value: "red".to_owned() }]);
        assert!(settings.ip_family.is_dual_stack());
        assert_eq!(Settings::from_platform_status(&json!({})), Settings::default());
    }
}
