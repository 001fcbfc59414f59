//! What the cluster says about OpenStack, besides the Machines.

use serde_json::Value;

/// Read once when the process starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Addresses that move between machines, so that every port may use them: those of the API and of the ingress.
    pub virtual_addresses: Vec<String>,
    /// Provider IDs have the region in them, as those of a cloud controller manager with `OS_CCM_REGIONAL`.
    pub regional: bool,
}

impl Settings {
    /// Reads `status.platformStatus` of the Infrastructure object.
    #[must_use]
    pub fn from_platform_status(status: &Value) -> Self {
        let openstack = &status["openstack"];
        if openstack["loadBalancer"]["type"] == "UserManaged" {
            return Self::default();
        }
        let mut addresses: Vec<String> = Vec::new();
        for (list, single) in [("apiServerInternalIPs", "apiServerInternalIP"), ("ingressIPs", "ingressIP")] {
            let listed = openstack[list].as_array().into_iter().flatten().chain([&openstack[single]]);
            for address in listed.filter_map(Value::as_str).filter(|address| !address.is_empty()) {
                if !addresses.iter().any(|known| known == address) {
                    addresses.push(address.to_owned());
                }
            }
        }
        Self { virtual_addresses: addresses, regional: false }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_that_move_are_read_in_old_and_new_spellings() {
        let addresses =
            |openstack: Value| Settings::from_platform_status(&json!({"openstack": openstack})).virtual_addresses;
        assert_eq!(
            addresses(json!({"apiServerInternalIP": "10.0.0.5", "ingressIP": "10.0.0.7"})),
            ["10.0.0.5", "10.0.0.7"]
        );
        let both = json!({"apiServerInternalIPs": ["10.0.0.5", "fd00::5"], "apiServerInternalIP": "10.0.0.5", "ingressIPs": ["10.0.0.7"]});
        assert_eq!(addresses(both), ["10.0.0.5", "fd00::5", "10.0.0.7"]);
        assert!(addresses(json!({"ingressIPs": ["10.0.0.7"], "loadBalancer": {"type": "UserManaged"}})).is_empty());
        assert_eq!(Settings::from_platform_status(&Value::Null), Settings::default());
    }
}
