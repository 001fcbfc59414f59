//! A domain as the machine controllers see it.

use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{Instance, Power, State};
use serde_json::json;
use uuid::Uuid;

use crate::client::Described;
use crate::mark::{Label, Stage};
use crate::xml::Element;

const PREFIX: &str = "libvirt:///";

/// No cloud controller manager writes ids for libvirt, so this form is ours.
pub(super) fn provider_id(uuid: Uuid) -> String {
    format!("{PREFIX}{uuid}")
}

pub(super) fn uuid(provider_id: Option<&str>) -> Option<Uuid> {
    provider_id?.strip_prefix(PREFIX)?.parse().ok()
}

pub(super) fn instance(domain: &Described) -> Instance {
    let word = word(&domain.state);
    let name = name(domain);
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    let mut addresses: Vec<_> = domain.addresses.iter().map(|it| address("InternalIP", it)).collect();
    if !addresses.is_empty() {
        addresses.extend([address("Hostname", name), address("InternalDNS", name)]);
    }
    let is_on = is_active(domain);
    Instance {
        provider_id: Some(provider_id(domain.uuid)),
        state: if is_on { State::Running } else { State::Stopped },
        state_word: word.to_owned(),
        power: if is_on { Power::On } else { Power::Off },
        addresses,
        provider_status: Some(json!({
            "apiVersion": "libvirtproviderconfig.openshift.io/v1beta1", "kind": "LibvirtMachineProviderStatus",
            "instanceID": domain.uuid.to_string(), "instanceState": word,
        })),
        created: Label::of(&domain.definition).and_then(|label| label.created),
        ..Instance::default()
    }
}

pub(super) fn name(domain: &Described) -> &str {
    domain.definition.at(&["name"]).map(Element::text).unwrap_or_default()
}

/// Whether the domain has power. A paused one has, and nobody but a person pauses one.
pub(super) fn is_active(domain: &Described) -> bool {
    !matches!(domain.state.as_str(), "shut off" | "crashed")
}

/// Whether a creation has not been finished yet.
pub(super) fn is_half_made(domain: &Described) -> bool {
    let is_making = Label::of(&domain.definition).is_some_and(|label| label.stage == Stage::Making);
    is_making && !is_active(domain)
}

/// Upstream's words for libvirt's states.
fn word(state: &str) -> &'static str {
    match state {
        "running" => "Running",
        "idle" => "Blocked",
        "paused" => "Paused",
        "in shutdown" => "Shutdown",
        "shut off" => "Shutoff",
        "crashed" => "Crashed",
        "pmsuspended" => "Suspended",
        "no state" => "None",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(state: &str, addresses: &[&str]) -> Described {
        Described {
            uuid: Uuid::from_u128(7),
            definition: Element::parse("<domain><name>m-1</name></domain>").unwrap(),
            state: state.to_owned(),
            starts_with_host: false,
            addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
        }
    }

    #[test]
    fn a_running_domain_has_its_addresses_and_then_its_names() {
        let seen = instance(&domain("running", &["10.0.0.51"]));
        let shown: Vec<_> = seen.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
        assert_eq!(shown, ["InternalIP 10.0.0.51", "Hostname m-1", "InternalDNS m-1"]);
        assert_eq!((seen.state, seen.state_word.as_str(), seen.power), (State::Running, "Running", Power::On));
        assert_eq!(uuid(seen.provider_id.as_deref()), Some(Uuid::from_u128(7)));
        assert!(instance(&domain("running", &[])).addresses.is_empty(), "a name alone does not find a machine");
    }

    #[test]
    fn a_domain_without_power_is_stopped_and_not_gone() {
        for (state, expected, word) in [
            ("shut off", State::Stopped, "Shutoff"),
            ("crashed", State::Stopped, "Crashed"),
            ("paused", State::Running, "Paused"),
        ] {
            let seen = instance(&domain(state, &[]));
            assert_eq!((seen.state, seen.state_word.as_str()), (expected, word));
        }
    }

    #[test]
    fn ids_of_other_platforms_are_not_ours() {
        assert_eq!(uuid(Some("aws:///us-east-1a/i-1")), None);
        assert_eq!(uuid(Some("libvirt:///m-1")), None);
    }
}
