//! An instance of Google's as the machine controllers see it, and the labels that say whose it is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{Error, ErrorKind, Instance, Mark, Power, Request, State};
use serde_json::{Value, json};

use super::Site;

const PREFIX: &str = "gce://";
/// Keys of the labels, in the order of a mark's parts.
const KEYS: [&str; 4] = ["machinist-cluster", "machinist-namespace", "machinist-machine", "machinist-uid"];

/// Words for an instance that has not run yet, or that goes away, perhaps because it could not be made.
const MAY_VANISH: [&str; 6] = ["PROVISIONING", "STAGING", "PENDING", "STOPPING", "PENDING_STOP", "DEPROVISIONING"];

/// As Google's cloud controller manager writes it.
pub(super) fn provider_id(project: &str, zone: &str, name: &str) -> String {
    format!("{PREFIX}{project}/{zone}/{name}")
}

pub(super) fn labels(mark: &Mark) -> Result<BTreeMap<String, String>, Error> {
    let Mark { cluster, namespace, machine, uid } = mark;
    let mut labels = BTreeMap::new();
    for (key, value) in KEYS.into_iter().zip([cluster, namespace, machine, uid]) {
        let is_good =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '-' | '_');
        if value.len() > 63 || !value.chars().all(is_good) {
            let message =
                format!("{value:?} cannot be a label on Google: at most 63 lower-case letters, digits, - and _");
            return Err(Error::new(ErrorKind::InvalidSpec, message));
        }
        labels.insert(key.to_owned(), value.clone());
    }
    Ok(labels)
}

pub(super) fn mark(thing: &Value) -> Option<Mark> {
    let part = |key: &str| thing["labels"][key].as_str().map(str::to_owned);
    let [cluster, namespace, machine, uid] = KEYS.map(part);
    Some(Mark { cluster: cluster?, namespace: namespace?, machine: machine?, uid: uid? })
}

/// An instance as its Machine may know it, made by this operation if that is known.
///
/// Google shows an instance while it still looks for a place for it, and takes it away if there is none. One that has not
/// run yet is therefore shown without identity and addresses, by which a Machine says that it once had an instance, and the
/// operation that tells what became of it stays recorded.
pub(super) fn instance(found: &Value, site: &Site, request: &Request, operation: Option<&str>) -> Instance {
    let seen = shown(found, &site.project, &site.region, &site.zone);
    let is_known = request.provider_id.as_deref().is_some_and(|id| !id.is_empty());
    if is_known || !MAY_VANISH.contains(&seen.state_word.as_str()) {
        return seen;
    }
    let mut status = seen.provider_status.clone().unwrap_or_default();
    if let Some(operation) = operation {
        status["operation"] = json!(operation);
        status["attempt"] = json!(request.intent.as_ref().map(|intent| intent.attempt));
    }
    Instance { provider_id: None, addresses: Vec::new(), provider_status: Some(status), ..seen }
}

fn shown(found: &Value, project: &str, region: &str, zone: &str) -> Instance {
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    let (name, status) = (text("name"), text("status"));
    let (state, power) = match status {
        "RUNNING" => (State::Running, Power::On),
        "PROVISIONING" | "STAGING" | "PENDING" => (State::Pending, Power::Unknown),
        "REPAIRING" => (State::Running, Power::Unknown),
        _ => (State::Stopped, Power::Off),
    };
    let scheduling = &found["scheduling"];
    let is_spot =
        scheduling["provisioningModel"].as_str() == Some("SPOT") || scheduling["preemptible"].as_bool() == Some(true);
    let id = provider_id(project, zone, name);
    Instance {
        provider_id: Some(id.clone()),
        state,
        state_word: status.to_owned(),
        power,
        addresses: addresses(found, project, zone, name),
        region: Some(region.to_owned()),
        zone: Some(zone.to_owned()),
        instance_type: text("machineType").rsplit('/').next().map(str::to_owned),
        interruptible: is_spot,
        provider_status: Some(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "GCPMachineProviderStatus",
            "instanceId": name, "instanceState": status,
        })),
        created: text("creationTimestamp").parse().ok(),
        ..Instance::default()
    }
}

/// Internal and external addresses of all cards, then the names that Google's DNS has for the instance.
fn addresses(found: &Value, project: &str, zone: &str, name: &str) -> Vec<NodeAddress> {
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    let mut all = Vec::new();
    for card in found["networkInterfaces"].as_array().into_iter().flatten() {
        all.extend(card["networkIP"].as_str().filter(|ip| !ip.is_empty()).map(|ip| address("InternalIP", ip)));
        let outside = card["accessConfigs"].as_array().into_iter().flatten();
        all.extend(
            outside
                .filter_map(|it| it["natIP"].as_str())
                .filter(|ip| !ip.is_empty())
                .map(|ip| address("ExternalIP", ip)),
        );
    }
    if !all.is_empty() {
        for domain in [format!("{zone}.c.{project}.internal"), format!("c.{project}.internal")] {
            all.push(address("InternalDNS", &format!("{name}.{domain}")));
        }
        all.push(address("InternalDNS", name));
    }
    all
}

/// An instance that Google is still at.
pub(super) fn under_way(operation: &str, request: &Request) -> Instance {
    let attempt = request.intent.as_ref().map(|intent| intent.attempt);
    Instance {
        state: State::Pending,
        state_word: "PROVISIONING".to_owned(),
        provider_status: Some(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "GCPMachineProviderStatus",
            "operation": operation, "attempt": attempt,
        })),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_its_addresses_and_then_its_names() {
        let found = json!({"name": "m", "status": "RUNNING", "machineType": "https://x/zones/z/machineTypes/n1-standard-4",
            "networkInterfaces": [{"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "192.0.2.7"}]}],
            "scheduling": {"provisioningModel": "SPOT"}});
        let seen = shown(&found, "p", "r", "z");
        let shown: Vec<_> = seen.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
        assert_eq!(
            shown,
            [
                "InternalIP 10.0.0.2",
                "ExternalIP 192.0.2.7",
                "InternalDNS m.z.c.p.internal",
                "InternalDNS m.c.p.internal",
                "InternalDNS m"
            ]
        );
        assert_eq!(seen.provider_id.as_deref(), Some("gce://p/z/m"));
        assert_eq!((seen.instance_type.as_deref(), seen.interruptible), (Some("n1-standard-4"), true));
    }

    #[test]
    fn a_mark_reads_as_it_was_written_and_what_is_no_label_is_refused() {
        let text = str::to_owned;
        let whose = Mark { cluster: text("c-1"), namespace: text("n"), machine: text("m"), uid: text("u") };
        assert_eq!(mark(&json!({"labels": labels(&whose).unwrap()})), Some(whose.clone()));
        assert!(labels(&Mark { cluster: text("C.1"), ..whose }).unwrap_err().is_final());
    }
}
