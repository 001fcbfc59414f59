//! A virtual machine as the machine controllers see it.

use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{Instance, Power, Request, State};
use serde_json::{Value, json};

use super::lookup::Vm;
use crate::client::Reference;
use crate::settings::FailureDomain;

const PREFIX: &str = "vsphere://";

/// As vSphere's cloud controller manager writes it: the BIOS UUID.
pub(super) fn provider_id(uuid: &str) -> String {
    format!("{PREFIX}{uuid}")
}

pub(super) fn uuid(provider_id: Option<&str>) -> Option<String> {
    let uuid = provider_id?.strip_prefix(PREFIX)?;
    Some(uuid.to_lowercase()).filter(|uuid| !uuid.is_empty())
}

pub(super) fn instance(vm: &Vm, domain: Option<&FailureDomain>) -> Instance {
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    let mut addresses: Vec<_> = vm.addresses.iter().map(|it| address("InternalIP", it)).collect();
    if !addresses.is_empty() {
        addresses.extend([address("Hostname", &vm.name), address("InternalDNS", &vm.name)]);
    }
    let is_on = vm.is_on();
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Instance {
        provider_id: vm.uuid.as_deref().map(provider_id),
        state: if is_on { State::Running } else { State::Stopped },
        state_word: vm.power.clone(),
        power: if is_on { Power::On } else { Power::Off },
        addresses,
        region: domain.and_then(|domain| text(&domain.region)),
        zone: domain.and_then(|domain| text(&domain.zone)),
        provider_status: Some(json!({"instanceId": vm.uuid, "instanceState": vm.power}).with_kind()),
        created: vm.label.as_ref().and_then(|label| label.created),
        ..Instance::default()
    }
}

/// An instance that vCenter is still at. The status keeps the task, and the attempt that it belongs to, so that another
/// process finds it.
pub(super) fn under_way(task: &Reference, request: &Request) -> Instance {
    let attempt = request.intent.as_ref().map(|intent| intent.attempt);
    Instance {
        state: State::Pending,
        state_word: "cloning".to_owned(),
        provider_status: Some(json!({"taskRef": task.value, "attempt": attempt}).with_kind()),
        ..Instance::default()
    }
}

trait WithKind {
    fn with_kind(self) -> Value;
}

impl WithKind for Value {
    fn with_kind(mut self) -> Value {
        self["apiVersion"] = "machine.openshift.io/v1beta1".into();
        self["kind"] = "VSphereMachineProviderStatus".into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(power: &str, addresses: &[&str]) -> Vm {
        Vm {
            reference: Reference::new("VirtualMachine", "vm-1"),
            name: "m-1".to_owned(),
            parent: None,
            uuid: Some("420f1f2a-0000-0000-0000-000000000001".to_owned()),
            instance_uuid: None,
            is_template: false,
            power: power.to_owned(),
            label: None,
            addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
        }
    }

    #[test]
    fn a_running_machine_has_its_addresses_and_then_its_names() {
        let domain = FailureDomain { region: "r".to_owned(), zone: "z".to_owned(), ..FailureDomain::default() };
        let seen = instance(&vm("poweredOn", &["10.0.0.5", "fd00::5"]), Some(&domain));
        let shown: Vec<_> = seen.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
        assert_eq!(shown, ["InternalIP 10.0.0.5", "InternalIP fd00::5", "Hostname m-1", "InternalDNS m-1"]);
        assert_eq!((seen.state, seen.state_word.as_str(), seen.power), (State::Running, "poweredOn", Power::On));
        assert_eq!((seen.region.as_deref(), seen.zone.as_deref()), (Some("r"), Some("z")));
        assert_eq!(seen.provider_id.as_deref(), Some("vsphere://420f1f2a-0000-0000-0000-000000000001"));
        assert!(instance(&vm("poweredOn", &[]), None).addresses.is_empty(), "a name alone does not find a machine");
    }

    #[test]
    fn a_machine_without_power_is_stopped_and_not_gone() {
        for power in ["poweredOff", "suspended"] {
            assert_eq!(instance(&vm(power, &[]), None).state, State::Stopped);
        }
    }

    #[test]
    fn ids_of_other_platforms_are_not_ours() {
        assert_eq!(uuid(Some("aws:///us-east-1a/i-1")), None);
        assert_eq!(uuid(Some("vsphere://420F1F2A")).as_deref(), Some("420f1f2a"));
    }
}
