//! Where machines of the control plane are placed, and whether one still looks like its template there.

use api::machine::{ControlPlaneMachineSet, FailureDomains, Machine, annotation};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Snapshot;

/// Failure domains that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    #[error("failureDomains.platform: failure domains of {0} cannot be written into a provider spec")]
    Platform(String),
    #[error("spec.template.machines_v1beta1_machine_openshift_io.spec.providerSpec.value is missing")]
    NoProviderSpec,
}

/// The domains that the set lists, in their order.
fn listed(set: &ControlPlaneMachineSet) -> (String, Vec<Value>) {
    let domains = set.spec.template.machines.as_ref().and_then(|template| template.failure_domains.clone());
    let Some(FailureDomains { platform, aws, azure, gcp, openstack, vsphere, nutanix }) = domains else {
        return (String::new(), Vec::new());
    };
    let places = match platform.as_str() {
        "AWS" => aws,
        "Azure" => azure,
        "GCP" => gcp,
        "OpenStack" => openstack,
        "VSphere" => vsphere,
        "Nutanix" => nutanix,
        _ => None,
    };
    (platform, places.unwrap_or_default())
}

/// The provider spec of the template in one of the domains.
pub(super) fn provider_spec(set: &ControlPlaneMachineSet, domain: Option<usize>) -> Result<Value, DomainError> {
    let template = set.spec.template.machines.as_ref().and_then(|template| template.spec.as_ref());
    let value = template.and_then(|spec| spec.provider_value()).cloned();
    let mut value = value.ok_or(DomainError::NoProviderSpec)?;
    let (platform, places) = listed(set);
    if let Some(place) = domain.and_then(|index| places.get(index)) {
        merge(&mut value, &overlay(&platform, place)?);
    }
    Ok(value)
}

/// The provider specs of all places that machines of the set may be made in.
///
/// # Errors
/// When the template has none, or its failure domains cannot be written into one.
pub fn provider_specs(set: &ControlPlaneMachineSet) -> Result<Vec<Value>, DomainError> {
    match listed(set).1.len() {
        0 => Ok(vec![provider_spec(set, None)?]),
        domains => (0..domains).map(|index| provider_spec(set, Some(index))).collect(),
    }
}

/// What a domain means in the provider spec of its platform.
fn overlay(platform: &str, place: &Value) -> Result<Value, DomainError> {
    let mut fields = match platform {
        "AWS" => {
            let subnet = &place["subnet"];
            let subnet = match subnet["type"].as_str() {
                Some("ID") => json!({"id": subnet["id"]}),
                Some("ARN") => json!({"arn": subnet["arn"]}),
                Some("Filters") => json!({"filters": subnet["filters"]}),
                _ => Value::Null,
            };
            let zone = &place["placement"]["availabilityZone"];
            let placement = if zone.is_null() { Value::Null } else { json!({"availabilityZone": zone}) };
            json!({"placement": placement, "subnet": subnet})
        }
        "Azure" => json!({"zone": place["zone"], "subnet": place["subnet"]}),
        "GCP" => json!({"zone": place["zone"]}),
        "OpenStack" => json!({"availabilityZone": place["availabilityZone"], "rootVolume": place["rootVolume"]}),
        other => return Err(DomainError::Platform(other.to_owned())),
    };
    if let Value::Object(members) = &mut fields {
        members.retain(|_, value| !value.is_null());
    }
    Ok(fields)
}

/// Objects are joined; everything else, and a subnet as a whole, is replaced.
fn merge(value: &mut Value, overlay: &Value) {
    let (Value::Object(members), Value::Object(overlay)) = (value, overlay) else { return };
    for (key, part) in overlay {
        match (members.get_mut(key), part) {
            (Some(present @ Value::Object(_)), Value::Object(_)) if key != "subnet" => merge(present, part),
            _ => {
                members.insert(key.clone(), part.clone());
            }
        }
    }
}

/// Which of the set's domains a machine is in.
pub(super) fn of_machine(set: &ControlPlaneMachineSet, machine: &Machine) -> Option<usize> {
    let (platform, places) = listed(set);
    let value = machine.spec.provider_value()?;
    places.iter().position(|place| overlay(&platform, place).is_ok_and(|overlay| includes(value, &overlay)))
}

/// Whether a machine looks like the template in its domain. A machine that is in none of the domains does not.
pub(super) fn is_up_to_date(set: &ControlPlaneMachineSet, machine: &Machine, domain: Option<usize>) -> bool {
    if domain.is_none() && !listed(set).1.is_empty() {
        return false;
    }
    let Ok(wanted) = provider_spec(set, domain) else { return true };
    let recorded = machine.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TEMPLATE_HASH));
    let value = machine.spec.provider_value().unwrap_or(&Value::Null);
    match recorded {
        Some(recorded) => *recorded == hash(&wanted),
        // Admission fills in what the template leaves out, so the machine may have more.
        None => includes(value, &wanted),
    }
}

pub(super) fn hash(value: &Value) -> String {
    hex::encode(&Sha256::digest(value.to_string())[..8])
}

/// Whether everything in `part` is in `whole`. Lists are compared as they are.
fn includes(whole: &Value, part: &Value) -> bool {
    let none = Map::new();
    match part {
        Value::Object(part) => {
            let whole = whole.as_object().unwrap_or(&none);
            part.iter().all(|(key, part)| includes(whole.get(key).unwrap_or(&Value::Null), part))
        }
        part => whole == part,
    }
}

/// The domain of a new machine: that of the machine it replaces, else the one with the fewest machines.
pub(super) fn choose(snapshot: &Snapshot, index: u32) -> Result<Option<usize>, DomainError> {
    let (_, places) = listed(&snapshot.set);
    let inherited =
        snapshot.masters.iter().filter(|master| master.index == Some(index)).find_map(|master| master.domain);
    if inherited.is_some() || places.is_empty() {
        return Ok(inherited);
    }
    let used = |domain: usize| snapshot.masters.iter().filter(|master| master.domain == Some(domain)).count();
    Ok((0..places.len()).min_by_key(|domain| (used(*domain), *domain)))
}
