//! Who wrote a field of an object, as the API server's own records (`metadata.managedFields`) tell it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Where the records name a pool's `spec.paused`.
pub const PAUSED: &str = "/f:spec/f:paused";
/// Where the records name a node's annotation `desiredConfig`.
pub const DESIRED_CONFIG: &str = "/f:metadata/f:annotations/f:machineconfiguration.openshift.io~1desiredConfig";

/// One owner of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The name that the client gave itself, for example `kubectl-edit`.
    pub manager: String,
    /// When it last wrote anything to the object.
    pub at: Option<Timestamp>,
}

/// Everybody who owns a field. Several do after each has applied the same value.
pub fn writers<'a>(metadata: &'a ObjectMeta, field: &'a str) -> impl Iterator<Item = Writer> + 'a {
    let owns = move |fields: &serde_json::Value| fields.pointer(field).is_some();
    let entries = metadata.managed_fields.iter().flatten();
    let entries = entries.filter(move |entry| entry.fields_v1.as_ref().is_some_and(|fields| owns(&fields.0)));
    entries.map(|entry| Writer {
        manager: entry.manager.clone().unwrap_or_default(),
        at: entry.time.as_ref().map(|time| time.0),
    })
}

/// Who wrote a field last.
pub fn last_writer(metadata: &ObjectMeta, field: &str) -> Option<Writer> {
    writers(metadata, field).max_by_key(|writer| writer.at)
}
