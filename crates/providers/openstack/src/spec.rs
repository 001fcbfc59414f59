//! The OpenStack providerSpec: its fields, its defaults and its rules. Nothing here calls OpenStack.

mod types;
mod validation;

use std::collections::BTreeMap;

use machine::provider::{Capacity, Problem, Request, SecretNeed, SecretPurpose, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, SecretReference, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

/// The Secret with `clouds.yaml` that OpenShift's credentials operator makes.
pub const CREDENTIALS: &str = "openstack-cloud-credentials";
/// The entry of `clouds.yaml` that OpenShift's installer writes.
const CLOUD: &str = "openstack";
/// The end of the name of the volume that a machine boots from.
pub(crate) const ROOT: &str = "root";

const IDENTITY: Identity = Identity {
    kind: "OpenstackProviderSpec",
    groups: &["machine.openshift.io", "openstackproviderconfig.openshift.io", "openstackproviderconfig.k8s.io"],
    versions: &["v1alpha1"],
};

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, fill)
    }

    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict {
        validated(spec, |spec, verdict| validation::check(spec, surroundings, verdict))
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<OpenStackSpec>(spec) else { return Vec::new() };
        let need = |purpose, reference: &Option<SecretReference>, field: &str| {
            let SecretReference { name, namespace } = reference.clone().filter(|it| !it.name.is_empty())?;
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            Some(SecretNeed { purpose, namespace, name, field: format!("providerSpec.{field}.name") })
        };
        let credentials = need(SecretPurpose::Credentials, &spec.clouds_secret, "cloudsSecret");
        let user_data = need(SecretPurpose::UserData, &spec.user_data_secret, "userDataSecret");
        credentials.into_iter().chain(user_data).collect()
    }

    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<OpenStackSpec>(spec) else { return Value::Null };
        let mut place = json!({"cloudName": spec.cloud_name});
        if let Some(SecretReference { name, namespace }) = spec.clouds_secret {
            place["cloudsSecret"] = if namespace.is_empty() {
                json!({"name": name})
            } else {
                json!({"name": name, "namespace": namespace})
            };
        }
        place
    }

    fn children(&self, request: &Request) -> BTreeMap<String, String> {
        let Ok(read::Read { spec, .. }) = read::read::<OpenStackSpec>(&request.spec) else { return BTreeMap::new() };
        children(&spec, &request.mark.machine)
    }

    /// Only the cloud knows what its flavors offer.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

/// What a machine cannot be made without, with the names that OpenShift's installer uses.
fn fill(spec: &mut OpenStackSpec) {
    secret::default_secret(&mut spec.clouds_secret, CREDENTIALS);
    secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
    if spec.cloud_name.is_empty() {
        CLOUD.clone_into(&mut spec.cloud_name);
    }
}

/// Names of the ports and volumes of a machine, as upstream names them. A trunk has the name of its port.
pub(crate) fn children(spec: &OpenStackSpec, machine: &str) -> BTreeMap<String, String> {
    let ports = port_suffixes(spec).into_iter().enumerate();
    let ports = ports.map(|(index, suffix)| (port_key(index), format!("{machine}-{suffix}")));
    let volumes = volume_suffixes(spec).into_iter();
    let volumes = volumes.map(|suffix| (volume_key(suffix), format!("{machine}-{suffix}")));
    ports.chain(volumes).collect()
}

/// The key of a port's name in an intent.
pub(crate) fn port_key(index: usize) -> String {
    format!("port-{index}")
}

/// The key of a volume's name in an intent.
pub(crate) fn volume_key(suffix: &str) -> String {
    format!("volume-{suffix}")
}

/// How many ports an entry of `networks` gets.
pub(crate) fn ports_of(network: &Network) -> usize {
    if network.is_named() { 1 } else { network.subnets.len() }
}

/// The ends of the names of all ports: first those of networks, then those of their own, then the one that a spec without
/// either gets.
fn port_suffixes(spec: &OpenStackSpec) -> Vec<String> {
    let of_networks: usize = spec.networks.iter().map(ports_of).sum();
    let numbered = (0..of_networks).map(|index| index.to_string());
    let own = spec.ports.iter().enumerate().map(|(index, port)| match port.name_suffix.as_str() {
        "" => (of_networks + index).to_string(),
        suffix => suffix.to_owned(),
    });
    let suffixes: Vec<_> = numbered.chain(own).collect();
    if suffixes.is_empty() { vec!["0".to_owned()] } else { suffixes }
}

fn volume_suffixes(spec: &OpenStackSpec) -> Vec<&str> {
    let root = root_volume(spec).map(|_| ROOT);
    let further = spec.additional_block_devices.iter().filter(|device| device.storage.kind == "Volume");
    root.into_iter().chain(further.map(|device| device.name.as_str())).collect()
}

/// The volume to boot from. One without a size is none, as upstream.
pub(crate) fn root_volume(spec: &OpenStackSpec) -> Option<&RootVolume> {
    spec.root_volume.as_ref().filter(|volume| volume.size > 0)
}

/// The image by name or id. With a root volume, the spec's own comes first.
pub(crate) fn image(spec: &OpenStackSpec) -> &str {
    match root_volume(spec) {
        Some(volume) if spec.image.is_empty() => &volume.source_uuid,
        _ => &spec.image,
    }
}

/// A spec that a server can be made from, with its defaults.
///
/// The webhook asks new Machines for user data; those that were made before it, or past it, may boot without.
pub(crate) fn usable(value: &Value) -> Result<OpenStackSpec, Problem> {
    let read::Read { mut spec, .. } = read::read::<OpenStackSpec>(value)?;
    if spec.cloud_name.is_empty() {
        CLOUD.clone_into(&mut spec.cloud_name);
    }
    let mut verdict = Verdict::default();
    validation::check(&spec, &Surroundings::default(), &mut verdict);
    let is_optional = |path: &str| path.starts_with("providerSpec.userDataSecret");
    verdict.problems.into_iter().find(|problem| !is_optional(&problem.path)).map_or(Ok(spec), Err)
}

#[cfg(test)]
mod tests;
