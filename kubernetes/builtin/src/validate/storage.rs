//! Claims, volumes and classes of storage.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::place::{Find, Findings, Place};
use super::{pods, rules, sources};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// A claim that is made for a pod: only labels and annotations of its metadata are taken.
pub(crate) fn claim_template(template: &Place<'_>, findings: &mut Findings) {
    template_metadata(&template.field("metadata"), findings);
    claim_spec(&template.field("spec"), findings);
}

/// Of the metadata of a template, labels and annotations are taken.
pub(crate) fn template_metadata(metadata: &Place<'_>, findings: &mut Findings) {
    rules::annotations(&metadata.field("annotations"), findings);
    rules::labels(&metadata.field("labels"), findings);
    for (name, value) in metadata.value.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "annotations" | "labels") && !value.is_null() {
            findings.forbidden(&metadata.field(name), "cannot be set");
        }
    }
}

pub(crate) fn claim_spec(spec: &Place<'_>, findings: &mut Findings) {
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
        findings.invalid_as(spec, json!({}), "may not be specified when dataSourceRef.namespace is specified");
    } else if source.is_set() && reference.is_set() && differs {
        findings.invalid_as(spec, json!({}), "must match dataSourceRef");
    }
}

pub(crate) fn claim(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    claim_spec(&spec, findings);
    let Some(old) = old else { return };
    let before = &old["spec"];
    let bound = object.field("status").field("phase").text() == "Bound";
    let mut after = spec.value.clone();
    if before["volumeName"].as_str().is_none_or(str::is_empty) {
        after["volumeName"] = before["volumeName"].clone();
    }
    if before["storageClassName"].is_null() {
        after["storageClassName"] = Value::Null;
    }
    if bound {
        after["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        after["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
    }
    if !rules::same(&after, before) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        findings.forbidden(&spec, detail);
    }
    let asked = spec.field("resources").field("requests").field("storage");
    let shrinks = pods::compare(asked.value, &before["resources"]["requests"]["storage"]) == Ordering::Less;
    if shrinks && pods::compare(asked.value, &old["status"]["capacity"]["storage"]) != Ordering::Greater {
        findings.forbidden(&asked, "field can not be less than status.capacity");
    }
    rules::immutable(&spec.field("volumeMode").known_as("volumeMode"), &before["volumeMode"], findings);
}

/// The sources of a persistent volume, in the order the real server looks for them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(crate) fn volume(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        findings.required(&modes, "");
    }
    access_modes(&modes, findings);
    capacity(&spec.field("capacity"), findings);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        findings.one_of(&policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        match affinity.field("required").is_set() {
            true => pods::node_selector(&affinity.field("required"), findings),
            false => findings.required(&affinity.field("required"), "must specify required node constraints"),
        }
    }
    volume_source(&spec, object.field("metadata").field("name").text(), findings);
    recycled_root(&spec, findings);
    if !spec.field("storageClassName").is_empty() {
        rules::subdomain(&spec.field("storageClassName"), findings);
    }
    if spec.field("volumeMode").is_set() {
        findings.one_of(&spec.field("volumeMode"), &["Block", "Filesystem"]);
    }
    attributes_class(&spec, findings);
    if let Some(old) = old {
        volume_changes(&spec, &old["spec"], findings);
    }
}

/// A volume that stands in an attachment: only what its driver must know.
pub(crate) fn inline_volume(spec: &Place<'_>, findings: &mut Findings) {
    const INLINE: &str = "in the context of inline volumes";
    let (modes, policy) = (spec.field("accessModes"), spec.field("persistentVolumeReclaimPolicy"));
    for (field, said) in [
        ("claimRef", spec.field("claimRef").is_set()),
        ("capacity", !spec.field("capacity").is_empty()),
        ("nodeAffinity", spec.field("nodeAffinity").is_set()),
        ("storageClassName", !spec.field("storageClassName").is_empty()),
    ] {
        if said {
            findings.forbidden(&spec.field(field), format!("may not be specified {INLINE}"));
        }
    }
    let mode = spec.field("volumeMode");
    if mode.is_set() && mode.text() != "Filesystem" {
        findings.forbidden(&mode, format!("may not specify volumeMode other than Filesystem {INLINE}"));
    }
    if !spec.field("csi").is_set() {
        findings.required(&spec.field("csi"), &format!("has to be specified {INLINE}"));
    }
    if modes.is_empty() {
        findings.required(&modes, "");
    }
    access_modes(&modes, findings);
    if !policy.is_empty() && policy.text() != "Retain" {
        findings.forbidden(&policy, format!("may only be Retain {INLINE}"));
    }
    volume_source(spec, "", findings);
    recycled_root(spec, findings);
}

fn recycled_root(spec: &Place<'_>, findings: &mut Findings) {
    let policy = spec.field("persistentVolumeReclaimPolicy");
    let root = spec.field("hostPath").field("path").text();
    let is_root = !root.is_empty() && root.split('/').all(|part| part.is_empty() || part == ".");
    if is_root && policy.text() == "Recycle" {
        findings.forbidden(&policy, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

fn attributes_class(spec: &Place<'_>, findings: &mut Findings) {
    let class = spec.field("volumeAttributesClassName");
    if class.is_set() {
        match class.is_empty() {
            true => findings.required(&class, "an empty string is disallowed"),
            false => rules::subdomain(&class, findings),
        }
        if !spec.field("csi").is_set() {
            findings.required(&spec.field("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity(capacity: &Place<'_>, findings: &mut Findings) {
    if capacity.is_empty() {
        findings.required(capacity, "");
    }
    if capacity.value.get("storage").is_none() || capacity.count() > 1 {
        let supported = ["storage".to_owned()];
        findings.push(schema::FieldError::not_supported(&capacity.path, capacity.value.clone(), &supported));
    }
    for (_, amount) in capacity.entries() {
        let number = pods::amount_of(amount.value).0;
        if number < 0 {
            let (value, scale) = pods::amount_of(amount.value);
            let whole = 10_i128.checked_pow(scale.max(0).unsigned_abs()).and_then(|unit| value.checked_mul(unit));
            let whole = whole.and_then(|whole| i64::try_from(whole).ok()).unwrap_or(i64::MIN);
            findings.invalid_as(&amount, whole, "must be a valid resource quantity");
        }
        if number <= 0 {
            findings.invalid(&amount, "must be greater than zero");
        }
    }
}

fn volume_source(spec: &Place<'_>, name: &str, findings: &mut Findings) {
    let mut found = false;
    for kind in SOURCES {
        let own = spec.field(kind);
        if !own.is_set() {
            continue;
        }
        if found {
            let told = if kind == "cephfs" { "cephFS" } else { kind };
            findings.forbidden(&spec.field(told), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match kind {
            "iscsi" => {
                let portal = own.field("targetPortal");
                if own.field("initiatorName").is_set() && name.len() + 1 + portal.text().len() > 64 {
                    findings.invalid(&portal.known_as(own.child("targetportal")), sources::TOO_LONG);
                }
                sources::iscsi(&own, "must be valid format", findings);
            }
            "csi" => csi(&own, findings),
            _ => sources::check(kind, &own, true, findings),
        }
        if kind == "local" && !spec.field("nodeAffinity").is_set() {
            findings.required(&spec.field("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        findings.required(spec, "must specify a volume type");
    }
}

fn csi(own: &Place<'_>, findings: &mut Findings) {
    sources::driver_name(&own.field("driver"), findings);
    if own.field("volumeHandle").is_empty() {
        findings.required(&own.field("volumeHandle"), "");
    }
    for field in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let secret = own.field(field);
        if !secret.is_set() {
            continue;
        }
        let (name, namespace) = (secret.field("name"), secret.field("namespace"));
        match name.is_empty() {
            true => findings.required(&name, ""),
            false => rules::subdomain(&name, findings),
        }
        match namespace.is_empty() {
            true => findings.required(&namespace, ""),
            false => rules::label(&namespace, findings),
        }
    }
}

fn volume_changes(spec: &Place<'_>, old: &Value, findings: &mut Findings) {
    let differs = SOURCES.iter().any(|kind| {
        let mut own = spec.field(kind).value.clone();
        if *kind == "csi"
            && own.is_object()
            && old["csi"].is_object()
            && old["csi"]["controllerExpandSecretRef"].is_null()
        {
            own["controllerExpandSecretRef"] = Value::Null;
        }
        !rules::same(&own, &old[*kind])
    });
    if differs {
        let place = spec.known_as(spec.child("persistentvolumesource"));
        findings.forbidden(&place, "spec.persistentvolumesource is immutable after creation");
    }
    rules::immutable(&spec.field("volumeMode").known_as("volumeMode"), &old["volumeMode"], findings);
    let affinity = spec.field("nodeAffinity");
    if !old["nodeAffinity"].is_null() && !rules::same(affinity.value, &old["nodeAffinity"]) {
        let place = affinity.known_as("nodeAffinity");
        findings.invalid(&place, "field is immutable, except for updating from beta label to GA");
    }
    let class = spec.field("volumeAttributesClassName");
    if !old["volumeAttributesClassName"].is_null() && !class.is_set() {
        findings.forbidden(&class, "update from non-nil value to nil is forbidden");
    }
}

pub(crate) fn class(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    if let Some(old) = old {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            rules::immutable(&object.field(field), &old[field], findings);
        }
    }
    let provisioner = object.field("provisioner");
    match provisioner.is_empty() {
        true => findings.required(&provisioner, ""),
        false => {
            let lower = provisioner.text().to_lowercase();
            for problem in schema::names::is_qualified_name(&lower) {
                findings.invalid_as(&provisioner, lower.as_str(), problem);
            }
        }
    }
    let parameters = object.field("parameters");
    for (key, _) in parameters.entries().filter(|(key, _)| key.is_empty()) {
        findings.invalid_as(&parameters, key, "field can not be empty.");
    }
    let policy = object.field("reclaimPolicy");
    if !policy.is_empty() {
        findings.one_of(&policy, &["Delete", "Retain"]);
    }
    let mode = object.field("volumeBindingMode");
    match mode.is_set() {
        true => findings.one_of(&mode, &["Immediate", "WaitForFirstConsumer"]),
        false => findings.required(&mode, ""),
    }
    topologies(&object.field("allowedTopologies"), findings);
}

fn topologies(list: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for term in list.items() {
        let keys = topology_term(&term, findings);
        let empty = keys.as_object().is_some_and(serde_json::Map::is_empty);
        if empty || seen.contains(&keys) {
            findings.duplicate_as(&term.known_as(term.child("matchLabelExpressions")), "");
        }
        seen.push(keys);
    }
}

/// A term about where volumes may be made.
fn topology_term(term: &Place<'_>, findings: &mut Findings) -> Value {
    let mut keys = serde_json::Map::new();
    for own in term.field("matchLabelExpressions").items() {
        let (key, values) = (own.field("key"), own.field("values"));
        if values.is_empty() {
            findings.required(&values, "");
        }
        let mut seen: Vec<&str> = Vec::new();
        for value in values.items() {
            match seen.contains(&value.text()) {
                true => findings.duplicate(&value),
                false => seen.push(value.text()),
            }
        }
        rules::qualified_name(&key, findings);
        if keys.contains_key(key.text()) {
            findings.duplicate_as(&key, key.text());
        }
        seen.sort_unstable();
        keys.insert(key.text().to_owned(), seen.into());
    }
    keys.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_amount_beyond_all_numbers_is_refused_like_any_other() {
        for amount in ["-1e40", "-9e100", "-170141183460469231731687303715884105728", "-1"] {
            let value = json!({"storage": amount});
            let mut findings = Findings::new();
            capacity(&Place::root(&value), &mut findings);
            assert_eq!(findings.len(), 2, "{amount}: {findings:?}");
        }
    }
}
