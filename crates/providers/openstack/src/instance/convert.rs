//! A server as a Machine shows it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{Error, Instance, Power, State};
use serde_json::json;

use crate::client::kind_of_fault;
use crate::services::wire::{Server, time};

const PREFIX: &str = "openstack://";
/// Upstream writes it too.
const RESOURCE: &str = "openstack-resourceId";

/// A provider ID that the Machine has already is kept in its form: with a region or without.
pub(super) fn instance(server: &Server, region: Option<&str>, known: Option<&str>, regional: bool) -> Instance {
    let own = || provider_id(&server.id, region.filter(|_| regional));
    let known = known.filter(|known| server_id(Some(known)) == Some(&server.id)).map(str::to_owned);
    Instance {
        provider_id: Some(known.unwrap_or_else(own)),
        state: state(server),
        state_word: server.status.clone(),
        power: power(server),
        addresses: addresses(server),
        region: region.map(str::to_owned),
        zone: Some(server.zone.clone()).filter(|zone| !zone.is_empty()),
        instance_type: Some(server.flavor.original_name.clone()).filter(|name| !name.is_empty()),
        interruptible: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::from([(RESOURCE.to_owned(), server.id.clone())]),
        provider_status: Some(json!({"instanceId": server.id, "instanceState": server.status})),
        created: time(&server.created),
    }
}

pub(super) fn provider_id(server: &str, region: Option<&str>) -> String {
    format!("{PREFIX}{}/{server}", region.unwrap_or_default())
}

/// The server in `openstack:///<id>` or `openstack://<region>/<id>`.
pub(super) fn server_id(provider_id: Option<&str>) -> Option<&str> {
    let (_, id) = provider_id?.strip_prefix(PREFIX)?.split_once('/')?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Whether a server is gone and only still listed.
pub(super) fn is_gone(server: &Server) -> bool {
    matches!(server.status.as_str(), "DELETED" | "SOFT_DELETED")
}

fn state(server: &Server) -> State {
    if server.task.as_deref() == Some("deleting") {
        return State::Deleting;
    }
    match server.status.as_str() {
        "ACTIVE" | "PASSWORD" | "REBOOT" | "HARD_REBOOT" | "RESIZE" | "VERIFY_RESIZE" | "REVERT_RESIZE"
        | "MIGRATING" | "RESCUE" => State::Running,
        "SHUTOFF" | "PAUSED" | "SUSPENDED" | "STOPPED" | "SHELVED" | "SHELVED_OFFLOADED" => State::Stopped,
        // A server that ran once is not made anew because something later went wrong with it.
        "ERROR" if server.launched.is_none() => State::Failed(failure(server)),
        "ERROR" => State::Stopped,
        _ => State::Pending,
    }
}

fn failure(server: &Server) -> Error {
    let words = server.fault.as_ref().map_or("nova gives no reason", |fault| fault.message.as_str());
    Error::new(kind_of_fault(words), format!("server {} could not be built: {words}", server.id))
}

/// Nova's numbers: 1 is running, 3 paused, 4 shut down, 6 crashed, 7 suspended.
fn power(server: &Server) -> Power {
    match server.power {
        Some(1 | 3) => Power::On,
        Some(4 | 6 | 7) => Power::Off,
        _ => Power::Unknown,
    }
}

/// Networks in the order of their names, IPv4 before IPv6, then the names.
fn addresses(server: &Server) -> Vec<NodeAddress> {
    let mut found = Vec::new();
    for addresses in server.addresses.values() {
        for version in [4, 6] {
            for address in addresses.iter().filter(|address| address.version == version) {
                let kind = if address.kind == "floating" { "ExternalIP" } else { "InternalIP" };
                found.push(named(kind, &address.addr));
            }
        }
    }
    found.push(named("Hostname", &server.name));
    found.push(named("InternalDNS", &server.name));
    found
}

fn named(kind: &str, address: &str) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}

#[cfg(test)]
mod tests {
    use machine::provider::ErrorKind;
    use serde_json::{Value, json};

    use super::*;

    fn server(more: Value) -> Server {
        let mut server = json!({"id": "s-1", "name": "m-1", "status": "ACTIVE", "created": "2026-01-02T03:04:05Z",
            "flavor": {"original_name": "m1.large"}, "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:power_state": 1,
            "OS-EXT-STS:task_state": null, "OS-SRV-USG:launched_at": null, "addresses": {}});
        if let (Value::Object(server), Value::Object(more)) = (&mut server, more) {
            server.extend(more);
        }
        serde_json::from_value(server).unwrap()
    }

    #[test]
    fn addresses_stand_in_the_order_that_upstream_gives() {
        let fixed = |addr: &str, version: u8| json!({"addr": addr, "version": version, "OS-EXT-IPS:type": "fixed"});
        let addresses = json!({"b": [fixed("fd00::1", 6), fixed("10.0.1.1", 4)],
            "a": [fixed("10.0.0.1", 4), {"addr": "203.0.113.7", "version": 4, "OS-EXT-IPS:type": "floating"}]});
        let instance = instance(&server(json!({"addresses": addresses})), Some("r1"), None, false);
        let told: Vec<_> = instance.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
        let expected = [
            "InternalIP 10.0.0.1",
            "ExternalIP 203.0.113.7",
            "InternalIP 10.0.1.1",
            "InternalIP fd00::1",
            "Hostname m-1",
            "InternalDNS m-1",
        ];
        assert_eq!(told, expected);
        assert_eq!((instance.region.as_deref(), instance.zone.as_deref()), (Some("r1"), Some("nova")));
        assert_eq!(instance.instance_type.as_deref(), Some("m1.large"));
    }

    #[test]
    fn provider_ids_have_a_region_if_the_cloud_controller_manager_writes_one_and_stay_as_they_are() {
        let id = |known, regional| instance(&server(json!({})), Some("r1"), known, regional).provider_id.unwrap();
        assert_eq!(id(None, false), "openstack:///s-1");
        assert_eq!(id(None, true), "openstack://r1/s-1");
        assert_eq!(id(Some("openstack://r2/s-1"), false), "openstack://r2/s-1");
        assert_eq!(id(Some("openstack:///other"), false), "openstack:///s-1");
        assert_eq!(server_id(Some("openstack://r1/a/b")), None);
        assert_eq!(server_id(Some("aws:///z/i-1")), None);
    }

    #[test]
    fn states_follow_from_nova_s_words() {
        let state = |more| instance(&server(more), None, None, false).state;
        assert_eq!(state(json!({})), State::Running);
        assert_eq!(state(json!({"status": "BUILD"})), State::Pending);
        assert_eq!(state(json!({"status": "SHUTOFF"})), State::Stopped);
        assert_eq!(state(json!({"OS-EXT-STS:task_state": "deleting"})), State::Deleting);
        let failed = state(json!({"status": "ERROR", "fault": {"message": "No valid host was found."}}));
        assert!(matches!(failed, State::Failed(Error { kind: ErrorKind::NoCapacity, .. })), "{failed:?}");
        assert_eq!(state(json!({"status": "ERROR", "OS-SRV-USG:launched_at": "2026-01-02T03:04:05"})), State::Stopped);
    }
}
