//! Finds out who wrote a field of an object, from `metadata.managedFields`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The path of a pool's `spec.paused` in `managedFields`.
pub const PAUSED: &str = "/f:spec/f:paused";
/// The path of a node's annotation `desiredConfig` in `managedFields`.
pub const DESIRED_CONFIG: &str = "/f:metadata/f:annotations/f:machineconfiguration.openshift.io~1desiredConfig";

/// An owner of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The field manager that the client specified, for example `kubectl-edit`.
    pub manager: String,
    /// When this manager last wrote to the object.
    pub at: Option<Timestamp>,
}

/// Returns all owners of a field. There are several if each has applied the same value.
pub fn writers<'a>(metadata: &'a ObjectMeta, field: &'a str) -> impl Iterator<Item = Writer> + 'a {
    let owns = move |fields: &serde_json::Value| fields.pointer(field).is_some();
    let entries = metadata.managed_fields.iter().flatten();
    let entries = entries.filter(move |entry| entry.fields_v1.as_ref().is_some_and(|fields| owns(&fields.0)));
    entries.map(|entry| Writer {
        manager: entry.manager.clone().unwrap_or_default(),
        at: entry.time.as_ref().map(|time| time.0),
    })
}

/// Returns the last writer of a field.
pub fn last_writer(metadata: &ObjectMeta, field: &str) -> Option<Writer> {
    writers(metadata, field).max_by_key(|writer| writer.at)
}
