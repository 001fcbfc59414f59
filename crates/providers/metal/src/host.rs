//! A BareMetalHost, as far as machines need it, and what is written on it.
//!
//! Nothing here calls anybody. A host's consumerRef says whose it is; it is written together with the image, in one patch that
//! fails if the host has changed since it was looked at.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeAddress;
use kube::core::DynamicObject;
use machine::provider::{Capacity, Error, ErrorKind, Instance, Mark, Power, State};
use machine::spec::SecretReference;
use serde_json::{Value, json};

use crate::spec::MetalSpec;

/// Whose a host is, and since when: the consumerRef has no place for the cluster or a time.
pub(crate) const CLUSTER: &str = "machinist.dev/cluster";
pub(crate) const CLAIMED: &str = "machinist.dev/claimed";
/// Metal3 leaves such hosts alone, so that nothing asked of them would happen.
const HANDS_OFF: [&str; 2] = ["baremetalhost.metal3.io/paused", "baremetalhost.metal3.io/detached"];
/// The annotation that asks Metal3 to switch a host off and on.
pub(crate) const REBOOT: &str = "reboot.metal3.io/machinist";
/// The annotation by which upstream finds a Machine's host again.
const HOST: &str = "metal3.io/BareMetalHost";
const PREFIX: &str = "baremetalhost:///";
/// Metal3 tries again by itself; one failure may be the network's.
const PATIENCE: i64 = 3;

/// A host.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) DynamicObject);

impl Host {
    pub(crate) fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.0.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.0.metadata.labels.clone().unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.0.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn spec(&self) -> &Value {
        &self.0.data["spec"]
    }

    fn status(&self) -> &Value {
        &self.0.data["status"]
    }

    /// Metal3's word for how far the host is.
    pub(crate) fn state_word(&self) -> &str {
        self.status()["provisioning"]["state"].as_str().unwrap_or_default()
    }

    fn error(&self) -> Option<&str> {
        let message = self.status()["errorMessage"].as_str().filter(|message| !message.is_empty());
        message.or_else(|| self.status()["errorType"].as_str().filter(|kind| !kind.is_empty()))
    }

    fn is_on(&self) -> bool {
        self.status()["poweredOn"] == true
    }

    fn is_external(&self) -> bool {
        self.spec()["externallyProvisioned"] == true || self.state_word() == "externally provisioned"
    }

    /// Whether the host is a Machine's: by the uid in its consumerRef or, where upstream wrote none, by name.
    pub(crate) fn is_of(&self, mark: &Mark) -> bool {
        let Some(consumer) = self.consumer() else { return false };
        let is_named = consumer["name"] == mark.machine.as_str() && consumer["namespace"] == mark.namespace.as_str();
        match consumer["uid"].as_str().filter(|uid| !uid.is_empty()) {
            Some(uid) => uid == mark.uid,
            None => is_named,
        }
    }

    /// The consumerRef, if it is of a Machine.
    fn consumer(&self) -> Option<&Value> {
        let consumer = &self.spec()["consumerRef"];
        (consumer["kind"] == "Machine").then_some(consumer)
    }

    /// Whether anybody may have it now.
    pub(crate) fn is_free(&self) -> bool {
        let is_taken = self.spec()["consumerRef"].is_object() || self.spec()["image"].is_object();
        let is_ready = matches!(self.state_word(), "ready" | "available");
        let is_left_alone = HANDS_OFF.iter().any(|key| self.annotation(key).is_some());
        !is_taken && is_ready && !is_left_alone && !self.is_external() && self.error().is_none() && !self.is_leaving()
    }

    fn is_leaving(&self) -> bool {
        self.0.metadata.deletion_timestamp.is_some()
    }

    /// The mark of the Machine that has it, if we gave it away.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let consumer = self.consumer()?;
        let text = |key: &str| consumer[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let cluster = self.annotation(CLUSTER)?.to_owned();
        Some(Mark { cluster, namespace: text("namespace")?, machine: text("name")?, uid: text("uid")? })
    }

    pub(crate) fn claimed(&self) -> Option<Timestamp> {
        self.annotation(CLAIMED)?.parse().ok()
    }

    pub(crate) fn provider_id(&self) -> String {
        format!("{PREFIX}{}/{}/{}", self.namespace(), self.name(), self.uid())
    }

    /// Whether there is something on it that Metal3 has to take off.
    pub(crate) fn is_used(&self) -> bool {
        let spec = self.spec();
        let is_asked = ["image", "customDeploy", "userData"].iter().any(|key| spec[*key].is_object());
        let is_busy = matches!(self.state_word(), "provisioning" | "provisioned" | "deprovisioning");
        // A host that others provisioned keeps its system; it is only switched off.
        if self.is_external() { self.is_on() || spec["online"] == true } else { is_asked || is_busy }
    }

    /// What a Machine with this host offers.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        let hardware = &self.status()["hardware"];
        let cpus = hardware["cpu"]["count"].as_u64()?;
        let memory_mib = hardware["ramMebibytes"].as_u64()?;
        Some(Capacity { cpus, memory_mib, ..Capacity::default() })
    }

    pub(crate) fn instance(&self) -> Instance {
        let host = format!("{}/{}", self.namespace(), self.name());
        Instance {
            provider_id: Some(self.provider_id()),
            state: self.state(),
            state_word: self.state_word().to_owned(),
            power: if self.is_on() { Power::On } else { Power::Off },
            addresses: self.addresses(),
            annotations: BTreeMap::from([(HOST.to_owned(), host)]),
            created: self.claimed(),
            ..Instance::default()
        }
    }

    fn state(&self) -> State {
        match self.state_word() {
            "provisioned" | "externally provisioned" if self.is_on() => State::Running,
            "provisioned" | "externally provisioned" => State::Stopped,
            "deprovisioning" | "deleting" | "powering off before delete" => State::Deleting,
            _ if self.has_given_up() => State::Failed(self.failure()),
            _ => State::Pending,
        }
    }

    fn has_given_up(&self) -> bool {
        let count = self.status()["errorCount"].as_i64().unwrap_or_default();
        self.status()["errorType"] == "provisioning error" && count >= PATIENCE
    }

    fn failure(&self) -> Error {
        let words = self.error().unwrap_or("Metal3 gives no reason");
        Error::new(ErrorKind::Other, format!("host {} cannot be provisioned: {words}", self.name()))
    }

    /// Addresses of all interfaces, then the names.
    fn addresses(&self) -> Vec<NodeAddress> {
        let hardware = &self.status()["hardware"];
        let named = |kind: &str, address: &str| NodeAddress { type_: kind.to_owned(), address: address.to_owned() };
        let interfaces = hardware["nics"].as_array().into_iter().flatten();
        let addresses = interfaces.filter_map(|nic| nic["ip"].as_str()).filter(|address| !address.is_empty());
        let mut found: Vec<_> = addresses.map(|address| named("InternalIP", address)).collect();
        if let Some(name) = hardware["hostname"].as_str().filter(|name| !name.is_empty()) {
            found.extend([named("Hostname", name), named("InternalDNS", name)]);
        }
        found
    }

    /// The patch that gives the host to a Machine. It holds the version that was looked at.
    pub(crate) fn claim(&self, spec: &MetalSpec, mark: &Mark, since: Timestamp) -> Value {
        let SecretReference { name, namespace } = spec.user_data.clone().unwrap_or_default();
        let namespace = if namespace.is_empty() { mark.namespace.clone() } else { namespace };
        let mut wanted = json!({
            "consumerRef": {"apiVersion": format!("{}/{}", api::machine::GROUP, api::machine::VERSION), "kind": "Machine", "name": mark.machine,
                "namespace": mark.namespace, "uid": mark.uid},
            "userData": {"name": name, "namespace": namespace},
            "online": true,
        });
        if !spec.image.url.is_empty() {
            wanted["image"] = json!({"url": spec.image.url});
            if !spec.image.checksum.is_empty() {
                wanted["image"]["checksum"] = json!(spec.image.checksum);
            }
        }
        if !spec.custom_deploy.method.is_empty() {
            wanted["customDeploy"] = json!({"method": spec.custom_deploy.method});
        }
        let annotations = json!({CLUSTER: mark.cluster, CLAIMED: since.to_string()});
        json!({"metadata": {"resourceVersion": self.version(), "annotations": annotations}, "spec": wanted})
    }

    /// The patch that lets Metal3 take everything off.
    pub(crate) fn clear(&self) -> Value {
        let spec = if self.is_external() {
            json!({"online": false})
        } else {
            json!({"image": null, "customDeploy": null, "userData": null, "online": false})
        };
        json!({"metadata": {"resourceVersion": self.version()}, "spec": spec})
    }

    /// Whether that was asked already.
    pub(crate) fn is_cleared(&self) -> bool {
        let spec = self.spec();
        let is_asked = ["image", "customDeploy", "userData"].iter().any(|key| spec[*key].is_object());
        spec["online"] != true && (self.is_external() || !is_asked)
    }

    /// The patch that gives the host back.
    pub(crate) fn release(&self) -> Value {
        let annotations = json!({CLUSTER: null, CLAIMED: null});
        json!({"metadata": {"resourceVersion": self.version(), "annotations": annotations}, "spec": {"consumerRef": null}})
    }

    pub(crate) fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

/// Namespace and name of the host in a provider ID.
pub(crate) fn host_in(provider_id: &str) -> Option<(&str, &str, &str)> {
    let mut parts = provider_id.strip_prefix(PREFIX)?.split('/');
    let found = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(found)
}
