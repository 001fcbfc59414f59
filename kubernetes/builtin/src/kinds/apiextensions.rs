//! CustomResourceDefinitions.

use schema::crd;
use serde_json::{Value, json};

use crate::{Generation, Kind, Strategy, conditions::set_condition, kind::Check};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy {
        generation: Generation::Counted,
        unconditional: false,
        status_only: true,
        deletion_finalizer: Some(DEFINITION_FINALIZER),
        deletion_counts: false,
        deletion_period: false,
        ..Strategy::PLAIN
    },
    default: |value, _| crd::default(value),
    create: |value, _| {
        value["status"] = json!({
            "acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored_versions(value),
        });
    },
    update: |update| {
        if update.subresource.is_empty() {
            keep_stored_versions(update.old, update.new);
        }
    },
    deleting: |value, now| {
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set_condition(&mut value["status"], "Terminating", "True", "InstanceDeletionPending", message, now);
    },
    validate: Check::Write(|write, findings| findings.extend(crd::validate(write.value, write.old))),
    ..Kind::plain(DEFINITIONS)
};

pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Definitions wait until their objects are gone.
pub const DEFINITION_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn stored_versions(definition: &Value) -> Vec<Value> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions.iter().find(|version| version["storage"] == true);
    stored.map(|version| version["name"].clone()).into_iter().collect()
}

/// A version that objects were once stored in stays in the list.
fn keep_stored_versions(old: &Value, new: &mut Value) {
    let mut stored = old["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in stored_versions(new) {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    new["status"]["storedVersions"] = stored.into();
}
