//! An instance of EC2 as the machine controllers see it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{Instance, Power, State};
use serde_json::{Value, json};

use crate::ec2::wire;

pub(super) fn instance(instance: &wire::Instance, region: &str, domains: &[String], dynamic_host: bool) -> Instance {
    let zone = &instance.placement.availability_zone;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Instance {
        provider_id: (!instance.instance_id.is_empty() && !zone.is_empty())
            .then(|| format!("aws:///{zone}/{}", instance.instance_id)),
        state: state(&instance.instance_state.name),
        state_word: instance.instance_state.name.clone(),
        power: power(&instance.instance_state.name),
        addresses: addresses(instance, domains),
        region: text(region),
        zone: text(zone),
        instance_type: text(&instance.instance_type),
        interruptible: instance.instance_lifecycle == "spot",
        provider_status: Some(provider_status(instance, dynamic_host)),
        created: launched(instance),
        ..Instance::default()
    }
}

/// The id in `aws:///<zone>/<id>`.
pub(super) fn instance_id(provider_id: Option<&str>) -> Option<&str> {
    let id = provider_id?.strip_prefix("aws://")?.rsplit('/').next()?;
    id.starts_with("i-").then_some(id)
}

pub(super) fn launched(instance: &wire::Instance) -> Option<Timestamp> {
    instance.launch_time.parse().ok()
}

fn state(word: &str) -> State {
    match word {
        "running" => State::Running,
        "stopping" | "stopped" => State::Stopped,
        "shutting-down" | "terminated" => State::Deleting,
        _ => State::Pending,
    }
}

fn power(word: &str) -> Power {
    match word {
        "running" => Power::On,
        "stopped" | "terminated" => Power::Off,
        _ => Power::Unknown,
    }
}

/// In the order that users know: what the interfaces in use have inside, then what the instance has outside, then names.
fn addresses(instance: &wire::Instance, domains: &[String]) -> Vec<NodeAddress> {
    let mut addresses = Vec::new();
    let mut add = |type_: &str, address: &str| {
        if !address.is_empty() {
            addresses.push(NodeAddress { type_: type_.to_owned(), address: address.to_owned() });
        }
    };
    for interface in instance.network_interfaces.iter().filter(|interface| interface.status == "in-use") {
        interface.ipv6_addresses.iter().for_each(|address| add("InternalIP", &canonical(&address.ipv6_address)));
        interface.private_ip_addresses.iter().for_each(|address| add("InternalIP", &address.private_ip_address));
    }
    add("ExternalIP", &instance.ip_address);
    let name = &instance.private_dns_name;
    add("InternalDNS", name);
    add("Hostname", name);
    if !name.is_empty() {
        let host = name.split('.').next().unwrap_or_default();
        // A node whose DHCP gives it another domain registers under that name.
        for domain in domains {
            let other = if domain.is_empty() { host.to_owned() } else { format!("{host}.{domain}") };
            if other != *name {
                add("InternalDNS", &other);
            }
        }
    }
    add("ExternalDNS", &instance.dns_name);
    addresses
}

/// One spelling for each IPv6 address, because nodes are compared with it.
fn canonical(address: &str) -> String {
    address.parse::<std::net::IpAddr>().map_or_else(|_| address.to_owned(), |address| address.to_string())
}

/// `AWSMachineProviderStatus`. The time of the condition is that of the launch, so that looking changes nothing.
fn provider_status(instance: &wire::Instance, dynamic_host: bool) -> Value {
    let mut status = json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "AWSMachineProviderStatus",
        "instanceId": instance.instance_id,
        "instanceState": instance.instance_state.name,
        "conditions": [{
            "type": "MachineCreation",
            "status": "True",
            "reason": "MachineCreationSucceeded",
            "message": "Machine successfully created",
            "lastTransitionTime": launched(instance).map(whole_seconds),
        }],
    });
    if dynamic_host && !instance.placement.host_id.is_empty() {
        status["dedicatedHost"] = json!({"id": instance.placement.host_id});
    }
    status
}

fn whole_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::ec2::wire::{Ipv6Address, Items, NetworkInterface, Placement, PrivateIpAddress};

    fn running() -> wire::Instance {
        wire::Instance {
            instance_id: "i-0123".to_owned(),
            instance_state: wire::InstanceState { name: "running".to_owned() },
            instance_type: "m5.large".to_owned(),
            launch_time: "2026-01-02T03:04:05.000Z".to_owned(),
            placement: Placement { availability_zone: "us-east-1a".to_owned(), host_id: "h-1".to_owned() },
            private_dns_name: "ip-10-0-0-1.ec2.internal".to_owned(),
            dns_name: "ec2-1-2-3-4.compute-1.amazonaws.com".to_owned(),
            ip_address: "1.2.3.4".to_owned(),
            instance_lifecycle: "spot".to_owned(),
            network_interfaces: Items {
                item: ["in-use", "detaching"]
                    .map(|status| NetworkInterface {
                        status: status.to_owned(),
                        ipv6_addresses: Items { item: vec![Ipv6Address { ipv6_address: "2001:DB8:0::1".to_owned() }] },
                        private_ip_addresses: Items {
                            item: vec![PrivateIpAddress { private_ip_address: "10.0.0.1".to_owned() }],
                        },
                    })
                    .into(),
            },
            ..wire::Instance::default()
        }
    }

    #[test]
    fn addresses_come_in_the_order_that_users_know() {
        let domains = ["ec2.internal".to_owned(), "corp.example".to_owned()];
        let seen = instance(&running(), "us-east-1", &domains, false);
        let lines: Vec<_> = seen.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
        expect![[r#"
            InternalIP 2001:db8::1
            InternalIP 10.0.0.1
            ExternalIP 1.2.3.4
            InternalDNS ip-10-0-0-1.ec2.internal
            Hostname ip-10-0-0-1.ec2.internal
            InternalDNS ip-10-0-0-1.corp.example
            ExternalDNS ec2-1-2-3-4.compute-1.amazonaws.com"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn identity_place_and_status_are_told() {
        let seen = instance(&running(), "us-east-1", &[], true);
        assert_eq!(seen.provider_id.as_deref(), Some("aws:///us-east-1a/i-0123"));
        assert_eq!(instance_id(seen.provider_id.as_deref()), Some("i-0123"));
        assert_eq!((seen.state, seen.power, seen.interruptible), (State::Running, Power::On, true));
        let status = seen.provider_status.expect("there is one");
        assert_eq!(status["dedicatedHost"]["id"], "h-1");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
        let plain = instance(&running(), "us-east-1", &[], false).provider_status.expect("there is one");
        assert!(plain["dedicatedHost"].is_null());
    }

    #[test]
    fn ids_of_other_clouds_are_none_of_ours() {
        for bad in [None, Some(""), Some("aws:///us-east-1a/"), Some("gce://p/z/i-1"), Some("aws:///us-east-1a/x-1")] {
            assert_eq!(instance_id(bad), None, "{bad:?}");
        }
        assert_eq!(instance_id(Some("aws:///i-1")), Some("i-1"));
    }

    #[test]
    fn an_instance_without_a_zone_has_no_identity_yet() {
        let young = wire::Instance { placement: Placement::default(), ..running() };
        assert_eq!(instance(&young, "us-east-1", &[], false).provider_id, None);
    }
}
