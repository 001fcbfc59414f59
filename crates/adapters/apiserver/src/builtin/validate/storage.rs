//! Claims, volumes and classes of storage.

use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::{pods, rules};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// A claim that is made for a pod: only labels and annotations of its metadata are taken.
pub(super) fn claim_template(template: &Place<'_>, findings: &mut Findings) {
    let metadata = template.field("metadata");
    rules::annotations(&metadata.field("annotations"), findings);
    rules::labels(&metadata.field("labels"), findings);
    for (name, value) in metadata.value.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "annotations" | "labels") && !value.is_null() {
            findings.forbidden(&metadata.field(name), "cannot be set");
        }
    }
    claim_spec(&template.field("spec"), findings);
}

pub(super) fn claim_spec(spec: &Place<'_>, findings: &mut Findings) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        findings.required(&modes, "at least 1 access mode is required");
    }
    rules::label_selector(&spec.field("selector"), findings);
    access_modes(&modes, findings);
    let amount = spec.field("resources").field("requests").field("storage");
    let amount = amount.known_as(format!("{}[storage]", spec.child("resources")));
    if !amount.is_set() {
        findings.required(&amount, "");
    } else if pods::amount_of(amount.value).0 <= 0 {
        findings.invalid(&amount, "must be greater than zero");
    }
    if !spec.field("storageClassName").is_empty() {
        rules::subdomain(&spec.field("storageClassName"), findings);
    }
    let mode = spec.field("volumeMode");
    if mode.is_set() {
        findings.one_of(&mode, &["Block", "Filesystem"]);
    }
    data_sources(spec, findings);
    let class = spec.field("volumeAttributesClassName");
    if !class.is_empty() {
        rules::subdomain(&class, findings);
    }
}

fn access_modes(modes: &Place<'_>, findings: &mut Findings) {
    for mode in modes.items() {
        findings.one_of(&mode.known_as(&modes.path), &MODES);
    }
    let single = modes.texts().any(|mode| mode == "ReadWriteOncePod");
    if single && modes.texts().any(|mode| MODES[..3].contains(&mode)) {
        findings.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

fn data_sources(spec: &Place<'_>, findings: &mut Findings) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for own in [&source, &reference].into_iter().filter(|own| own.is_set()) {
        for field in ["name", "kind"] {
            if own.field(field).is_empty() {
                findings.required(&own.field(field), "");
            }
        }
        let group = own.field("apiGroup");
        if group.is_empty() && own.field("kind").text() != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            findings.invalid_as(own, own.field("kind").text(), detail);
        }
        if !group.is_empty() {
            rules::subdomain(&group, findings);
        }
    }
    let namespace = reference.field("namespace");
    if !namespace.is_empty() {
        rules::label(&namespace, findings);
    }
    let differs = ["apiGroup", "kind", "name"].iter().any(|field| source.value[*field] != reference.value[*field]);
    if source.is_set() && !namespace.is_empty() {
        findings.invalid_as(
            spec,
            source.path.as_str(),
            "may not be specified when dataSourceRef.namespace is specified",
        );
    } else if source.is_set() && reference.is_set() && differs {
        findings.invalid_as(spec, source.path.as_str(), "must match dataSourceRef");
    }
}

pub(super) fn claim(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    claim_spec(&spec, findings);
    let _ = old;
}
