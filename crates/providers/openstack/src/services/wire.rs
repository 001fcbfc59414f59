//! What the services answer, as far as it is read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) created: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tags: Vec<String>,
    /// By network.
    pub(crate) addresses: BTreeMap<String, Vec<Address>>,
    pub(crate) flavor: ServerFlavor,
    pub(crate) fault: Option<ServerFault>,
    #[serde(rename = "OS-EXT-AZ:availability_zone", deserialize_with = "or_empty")]
    pub(crate) zone: String,
    #[serde(rename = "OS-EXT-STS:task_state")]
    pub(crate) task: Option<String>,
    #[serde(rename = "OS-EXT-STS:power_state")]
    pub(crate) power: Option<i64>,
    /// When it first ran.
    #[serde(rename = "OS-SRV-USG:launched_at")]
    pub(crate) launched: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Address {
    pub(crate) addr: String,
    pub(crate) version: u8,
    #[serde(rename = "OS-EXT-IPS:type")]
    pub(crate) kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ServerFlavor {
    pub(crate) original_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ServerFault {
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Flavor {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) vcpus: u64,
    /// In MiB.
    pub(crate) ram: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ServerGroup {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// An image or a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Subnet {
    pub(crate) id: String,
    pub(crate) network_id: String,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    pub(crate) id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Port {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    /// The server that uses it, or nothing.
    #[serde(deserialize_with = "or_empty")]
    pub(crate) device_id: String,
    pub(crate) created_at: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Trunk {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) description: String,
    pub(crate) port_id: String,
    pub(crate) tags: Vec<String>,
    pub(crate) created_at: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct FloatingIp {
    pub(crate) id: String,
    /// The port that has it, if any.
    pub(crate) port_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Volume {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) created_at: Option<String>,
}

/// Services write `null` where there is nothing.
fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Neutron and nova write a `Z`, cinder does not; all of them mean UTC.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    let plain =
        || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp());
    text.parse().ok().or_else(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_services_are_read() {
        let second: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(time("2026-01-02T03:04:05Z"), Some(second));
        assert_eq!(time("2026-01-02T03:04:05.000000"), Some(second));
        assert_eq!(time("yesterday"), None);
    }
}
