//! The messages of version 1.
//!
//! A call is `POST /v1/CALL` with a question as its body; the answer is a document of the same call, or one with the single field
//! `error`. Fields that a reader does not know are to be ignored, so that later versions can add some.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of these messages, which is also the beginning of every path.
pub const VERSION: u32 = 1;

/// The schema of all messages of this version: for each call what is asked and what is answered.
pub fn schema() -> Schema {
    schema_for!(Calls)
}

/// The calls of version 1. Each is `POST /v1/` and its name.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", title = "Machine provider, version 1")]
#[expect(dead_code, reason = "only its schema is used")]
struct Calls {
    /// Which provider this is and what its providerSpec looks like. Asked before the first call and about once a minute.
    describe: Exchange<Nothing, Description>,
    /// The instances of many Machines: one answer for each request, in the same order. Terminated ones are left out.
    instances: Exchange<Instances, Found>,
    /// Makes the instance under the recorded intent. Called again with the same token it returns the same instance, and never
    /// makes another. A token whose instance is gone is answered with an instance in state `Failed`.
    create: Exchange<Create, One>,
    /// Brings what may change on a living instance in line with the spec, and returns it.
    update: Exchange<Update, One>,
    /// Asks for the removal of everything that this Machine has in the cloud. Succeeds when nothing is there.
    delete: Exchange<Ask, Removal>,
    /// Switches the instance on or off. Called only if `canSwitchPower` was described.
    power: Exchange<Switch, Nothing>,
    /// Everything that carries the mark of a cluster.
    marked: Exchange<Seek, Listed>,
    /// Removes one thing that `marked` listed. Succeeds when it is gone already.
    remove: Exchange<Remove, Removal>,
    /// What a machine of this spec offers; `null` if the cloud does not know.
    capacity: Exchange<Ask, Offer>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
struct Exchange<Q, A> {
    question: Q,
    answer: Answer<A>,
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Answer<A> {
    Done(A),
    Failed(Failed),
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failed {
    pub error: Error,
}

/// What is wrong. The kind decides what happens next, the message is for people; it never carries credentials or user data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    /// With `Throttled`: when to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// The cloud's id of the failed request, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// Something that the spec names does not exist. It is tried again.
    NotFound,
    /// The spec is refused and always will be. Creation fails for good.
    InvalidSpec,
    /// The cloud has no such machine to give just now.
    NoCapacity,
    /// The account may not have more.
    Quota,
    /// Too many calls.
    Throttled,
    /// The credentials are missing, wrong or expired, or lack a right.
    Credentials,
    /// The cloud did not answer.
    Unreachable,
    /// Anything else. It is tried again with growing pauses.
    Other,
}

/// An empty object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// A provider about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// 1.
    pub version: u32,
    pub name: String,
    /// How long after `create` an instance may still be missing among `instances`.
    #[serde(default)]
    pub settling_seconds: u32,
    #[serde(default)]
    pub can_switch_power: bool,
    /// The spec names a Secret with credentials in `credentialsSecret.name`, which every call needs.
    #[serde(default)]
    pub needs_credentials: bool,
    /// Fields of the providerSpec, besides `apiVersion`, `kind`, `metadata`, `userDataSecret` and `credentialsSecret`.
    #[serde(default)]
    pub fields: Vec<Field>,
}

/// A field of the providerSpec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub type_: Type,
    #[serde(default)]
    pub required: bool,
    /// What stands there if the user wrote nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub default: Value,
    /// The values that it may have; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Value>,
    /// It says where the instance is (a region, an endpoint): kept for the deletion of a Machine that lost its spec.
    #[serde(default)]
    pub place: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Type {
    String,
    Integer,
    Boolean,
    Object,
    Array,
}

/// Whose something in the cloud is. Everything that is made carries all of it, as tags or as parts of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    pub cluster: String,
    pub namespace: String,
    pub machine: String,
    pub uid: String,
}

/// A Machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub mark: Mark,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub control_plane: bool,
    /// `spec.providerSpec.value`, or only the fields of its place if the Machine lost it.
    pub spec: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// `status.providerStatus`, as the provider last gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<Value>,
    /// What was recorded before the first creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The data of the credentials Secret, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Equal tokens never make two instances.
    pub token: String,
    /// Counts the attempts of a Machine from 1.
    pub attempt: u32,
    /// When it was recorded, as RFC 3339.
    pub recorded: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// The identity that the node will carry too. Once known, it never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    pub state: State,
    /// Why, in state `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The cloud's own word for the state; absent, the state in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_word: Option<String>,
    #[serde(default)]
    pub power: Power,
    #[serde(default)]
    pub addresses: Vec<Address>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// The cloud may take it back at any time.
    #[serde(default)]
    pub interruptible: bool,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// `status.providerStatus`; it must not change while the instance does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<Value>,
    /// When it was made, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum State {
    Pending,
    Running,
    Stopped,
    Deleting,
    /// The cloud accepted the creation and gave up on it later.
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Power {
    On,
    Off,
    #[default]
    Unknown,
}

/// An address of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    /// `InternalIP`, `ExternalIP`, `InternalDNS`, `ExternalDNS` or `Hostname`.
    #[serde(rename = "type")]
    pub type_: String,
    pub address: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instances {
    pub requests: Vec<Request>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Each is read alone, so that one that cannot be read says nothing of the others.
    #[schemars(with = "Vec<Sighting>")]
    pub answers: Vec<Value>,
}

/// The instances of one Machine, or why they are not known.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Sighting {
    Known(Known),
    Unknown(Failed),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    pub instances: Vec<Instance>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    pub request: Request,
    pub intent: Intent,
    /// The data of the user data Secret, in base64; the key is `userData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    pub request: Request,
    pub instance: Instance,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct One {
    pub instance: Instance,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switch {
    pub request: Request,
    pub wish: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Wish {
    On,
    Off,
    /// Off and on again, without asking the operating system.
    Cycle,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Removal {
    pub removal: Deletion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Deletion {
    /// The request was accepted; something is still there.
    Requested,
    /// Everything is verified to be gone.
    Gone,
}

/// Where to look for what carries a cluster's mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    pub cluster: String,
    /// The fields of a place.
    pub place: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seek {
    pub search: Search,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    pub marked: Vec<Marked>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Marked {
    pub mark: Mark,
    /// `instance`, or what else it is: `volume`, `port`.
    pub kind: String,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remove {
    pub search: Search,
    pub marked: Marked,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Offer {
    pub capacity: Option<Capacity>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    pub cpus: u64,
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<u64>,
    /// Labels that the node will have.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}
