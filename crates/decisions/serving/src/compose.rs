//! Builds the Ignition config that a new machine is served: the pool's config, fresh certificates, and the files its
//! daemon needs to start.
//!
//! It works on copies, because the input objects are shared by all requests.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::MachineConfig;
use api::names::state;
use ignition::down::lower;
use ignition::{Config, File, Resource, Version, data_url};
use serde::Serialize;
use serde_json::{Value, json};

use crate::daemon::{self, Fetched};

const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
const CLOUD_CA: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
const NODE_ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// The CA with which the machine verifies the config server when it reports on its first boot.
pub const SERVER_CA: &str = "/etc/machinist/config-server-ca.crt";
const CONTENT: &str = "/etc/mcs-machine-config-content.json";
const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";

/// The mode that upstream gives to every file it adds. The daemon restricts files that hold secrets when it takes over.
const MODE: i64 = 0o644;

/// The input of one response.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub machine_config: &'a MachineConfig,
    /// The layered image to boot with, if one was built for this config.
    pub image: Option<&'a str>,
    /// The CA that the kubelet trusts; empty if the cluster does not provide one.
    pub kubelet_ca: &'a [u8],
    /// The CA of the cloud provider's API; empty if the cluster does not provide one.
    pub cloud_ca: &'a [u8],
    /// The kubelet's first kubeconfig, as YAML.
    pub kubeconfig: &'a str,
    /// The CA of the config server itself; empty if it is not known.
    pub server_ca: &'a [u8],
    /// CAs of registries that are needed before there is a cluster: host and certificate.
    pub registries: &'a [(String, Vec<u8>)],
    /// The daemon's binary, for images that may not contain it.
    pub daemon: Option<&'a Fetched>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("MachineConfig {name}: spec.config: {source}")]
    Config { name: String, source: ignition::Error },
    #[error(
        "MachineConfig {name} cannot be served in Ignition {version}: {source}; boot an image with a newer Ignition, or leave that out of the pool's configs"
    )]
    Lower { name: String, version: Version, source: ignition::Error },
}

/// Builds the Ignition config for a machine of this pool, in `version`.
pub fn compose(parts: &Parts<'_>, version: Version) -> Result<Value, Error> {
    let name = parts.machine_config.metadata.name.clone().unwrap_or_default();
    let mut served = parts.machine_config.clone();
    if let Some(image) = parts.image {
        served.spec.os_image_url = Some(image.to_owned());
    }
    let mut config = match &served.spec.config {
        None => ignition::empty(),
        Some(raw) => ignition::parse(raw).map_err(|source| Error::Config { name: name.clone(), source })?,
    };

    refresh(&mut config, KUBELET_CA, parts.kubelet_ca);
    refresh(&mut config, CLOUD_CA, parts.cloud_ca);
    let pre_built = served.metadata.annotations.as_ref().and_then(|all| all.get(annotations::PRE_BUILT_IMAGE)).cloned();
    let image = pre_built.as_deref().or(parts.image);
    append(&mut config, NODE_ANNOTATIONS, &pretty(&node_annotations(&name, image)));
    append(&mut config, KUBECONFIG, parts.kubeconfig.as_bytes());
    // Lowering moves kernel arguments that an older spec cannot express into the MachineConfig, so these two files are
    // filled in afterwards.
    append(&mut config, CONTENT, b"");
    for (registry, certificate) in parts.registries {
        append(&mut config, &format!("/etc/docker/certs.d/{registry}/ca.crt"), certificate);
    }
    if !parts.server_ca.is_empty() {
        append(&mut config, SERVER_CA, parts.server_ca);
    }
    append(&mut config, ENCAPSULATED, b"");
    if let Some(daemon) = parts.daemon {
        daemon::add(&mut config, daemon);
    }

    let arguments = std::mem::take(&mut served.spec.kernel_arguments);
    let mut lowered = lower(config, version, arguments).map_err(|source| Error::Lower { name, version, source })?;
    served.spec.kernel_arguments = lowered.kernel_arguments;
    set_source(&mut lowered.config, CONTENT, &pretty(&served));
    served.spec.config = Some(json!({"ignition": {"version": version.as_str()}}));
    set_source(&mut lowered.config, ENCAPSULATED, &pretty(&served));
    Ok(lowered.config)
}

/// Replaces certificates from the time of rendering with current ones, so that new machines of a paused pool get them
/// too. Empty `bytes` leave the config unchanged.
fn refresh(config: &mut Config, path: &str, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let files = config.storage.get_or_insert_default().files.get_or_insert_default();
    match files.iter_mut().find(|file| file.path == path) {
        // Drop the old compression and hash: neither applies to the new bytes.
        Some(file) => file.contents = Some(resource(bytes)),
        None => append(config, path, bytes),
    }
}

fn append(config: &mut Config, path: &str, bytes: &[u8]) {
    let mut file = File::new(path.to_owned());
    file.mode = Some(MODE);
    file.overwrite = Some(true);
    file.contents = Some(resource(bytes));
    config.storage.get_or_insert_default().files.get_or_insert_default().push(file);
}

fn resource(bytes: &[u8]) -> Resource {
    Resource { source: Some(data_url::encode(bytes)), ..Resource::default() }
}

/// Replaces the contents of a file in a config of any version; all versions keep files at the same place.
fn set_source(config: &mut Value, path: &str, bytes: &[u8]) {
    let files = config.pointer_mut("/storage/files").and_then(Value::as_array_mut);
    if let Some(file) = files.into_iter().flatten().find(|file| file["path"] == path) {
        file["contents"]["source"] = data_url::encode(bytes).into();
    }
}

/// Annotations that the daemon writes to its Node at first contact.
fn node_annotations<'a>(config: &'a str, image: Option<&'a str>) -> BTreeMap<&'static str, &'a str> {
    let mut annotations = BTreeMap::from([
        (annotations::CURRENT_CONFIG, config),
        (annotations::DESIRED_CONFIG, config),
        (annotations::FIRST_PIVOT_CONFIG, config),
        (annotations::STATE, state::DONE),
    ]);
    if let Some(image) = image {
        annotations.insert(annotations::CURRENT_IMAGE, image);
        annotations.insert(annotations::DESIRED_IMAGE, image);
    }
    annotations
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("objects of ours have string keys and no floats")
}
