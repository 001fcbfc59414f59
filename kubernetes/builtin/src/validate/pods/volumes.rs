//! Volumes of a pod: each has a name of its own and exactly one source.

use std::collections::BTreeMap;

use schema::names;

use super::super::place::{Find, Findings, Place};
use super::super::{rules, sources, storage};
use super::{Owner, env, resources};

/// Volumes without a fault: their names, and the fields of their sources.
pub(crate) type Volumes = BTreeMap<String, String>;

/// The sources there are, in the order the real server looks for them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

pub(super) fn all(list: &Place<'_>, owner: Owner<'_>, findings: &mut Findings) -> Volumes {
    let mut volumes = Volumes::new();
    let created: Vec<String> = match owner.name() {
        "" => Vec::new(),
        pod => {
            let ephemeral = list.items().filter(|volume| volume.field("ephemeral").is_set());
            ephemeral.map(|volume| format!("{pod}-{}", volume.field("name").text())).collect()
        }
    };
    for volume in list.items() {
        let mut own = Findings::new();
        let kind = source(&volume, owner, &mut own);
        let name = volume.field("name");
        match name.is_empty() {
            true => own.required(&name, ""),
            false => rules::label(&name, &mut own),
        }
        if volumes.contains_key(name.text()) {
            own.duplicate_as(&name, name.text());
        }
        if own.is_empty() {
            volumes.insert(name.text().to_owned(), kind);
        } else {
            findings.append(&mut own);
        }
        let claim = volume.field("persistentVolumeClaim").field("claimName");
        if claim.is_set() && created.iter().any(|name| name == claim.text()) {
            findings.invalid(&claim, "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    volumes
}

fn source(volume: &Place<'_>, owner: Owner<'_>, findings: &mut Findings) -> String {
    let mut found = String::new();
    for kind in SOURCES {
        let own = volume.field(kind);
        if !own.is_set() {
            continue;
        }
        if !found.is_empty() {
            let told = match kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            findings.forbidden(&volume.field(told), "may not specify more than 1 volume type");
            continue;
        }
        found = kind.to_owned();
        check(volume, &own, kind, owner, findings);
    }
    if found.is_empty() {
        findings.required(volume, "must specify a volume type");
    }
    found
}

fn check(volume: &Place<'_>, own: &Place<'_>, kind: &str, owner: Owner<'_>, findings: &mut Findings) {
    match kind {
        "emptyDir" => {
            let limit = own.field("sizeLimit");
            if limit.is_set() && resources::amount_of(limit.value).0 < 0 {
                findings.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
            }
        }
        "gitRepo" => {
            required(own, &["repository"], findings);
            rules::descending_path(&own.field("directory"), findings);
        }
        "secret" => keyed(own, "secretName", findings),
        "configMap" => keyed(own, "name", findings),
        "iscsi" => {
            sources::iscsi(own, "must be valid format starting with iqn, eui, or naa", findings);
            let name = volume.field("name");
            let portal = own.field("targetPortal");
            if own.field("initiatorName").is_set() && name.text().len() + 1 + portal.text().len() > 64 {
                findings.invalid(&name, sources::TOO_LONG);
            }
        }
        "persistentVolumeClaim" => required(own, &["claimName"], findings),
        "downwardAPI" => {
            rules::file_mode(&own.field("defaultMode"), findings);
            for file in own.field("items").items() {
                downward_file(&file, own, findings);
            }
        }
        "projected" => {
            rules::file_mode(&own.field("defaultMode"), findings);
            projected(own, findings);
        }
        "csi" => csi(own, findings),
        "ephemeral" => ephemeral(volume, own, owner, findings),
        "image" => {
            if owner.is_pod() && own.field("reference").is_empty() {
                findings.required(&own.field("reference"), "");
            }
            findings.required_one_of(&own.field("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
        }
        _ => sources::check(kind, own, false, findings),
    }
}

fn required(place: &Place<'_>, fields: &[&str], findings: &mut Findings) {
    for field in fields.iter().map(|name| place.field(name)).filter(Place::is_empty) {
        findings.required(&field, "");
    }
}

fn keyed(own: &Place<'_>, name: &str, findings: &mut Findings) {
    required(own, &[name], findings);
    rules::file_mode(&own.field("defaultMode"), findings);
    for item in own.field("items").items() {
        key_to_path(&item, findings);
    }
}

fn key_to_path(item: &Place<'_>, findings: &mut Findings) {
    required(item, &["key", "path"], findings);
    rules::non_reserved_path(&item.field("path"), findings);
    rules::file_mode(&item.field("mode"), findings);
}

/// A file made of a field; the real server tells about it at the path of the volume.
fn downward_file(file: &Place<'_>, volume: &Place<'_>, findings: &mut Findings) {
    const FIELDS: [&str; 5] =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let file = file.known_as(&volume.path);
    required(&file, &["path"], findings);
    rules::non_reserved_path(&file.field("path"), findings);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    if field.is_set() {
        env::field_ref(&field, &FIELDS, findings);
        if resource.is_set() {
            findings.invalid_as(&file, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if resource.is_set() {
        env::resource_ref(&resource, true, findings);
    } else {
        findings.required(&file, "one of fieldRef and resourceFieldRef is required");
    }
    rules::file_mode(&file.field("mode"), findings);
}

fn projected(own: &Place<'_>, findings: &mut Findings) {
    let mut paths: Vec<&str> = Vec::new();
    for source in own.field("sources").items() {
        let mut count = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken"] {
            let place = source.field(kind);
            if !place.is_set() {
                continue;
            }
            count += 1;
            match kind {
                "secret" | "configMap" => {
                    required(&place, &["name"], findings);
                    for item in place.field("items").items() {
                        key_to_path(&item, findings);
                        once(own, place.field("name").text(), item.field("path").text(), &mut paths, findings);
                    }
                }
                "downwardAPI" => {
                    for file in place.field("items").items() {
                        downward_file(&file, &place, findings);
                        let path = file.field("path").text();
                        once(own, path, path, &mut paths, findings);
                    }
                }
                _ => token(own, &place, findings),
            }
        }
        if count > 1 {
            findings.forbidden(&source, "may not specify more than 1 volume type per source");
        }
    }
}

fn once<'v>(own: &Place<'_>, told: &str, path: &'v str, paths: &mut Vec<&'v str>, findings: &mut Findings) {
    if path.is_empty() {
        return;
    }
    match paths.contains(&path) {
        true => findings.invalid_as(own, told, "conflicting duplicate paths"),
        false => paths.push(path),
    }
}

fn token(own: &Place<'_>, token: &Place<'_>, findings: &mut Findings) {
    let seconds = token.field("expirationSeconds");
    if seconds.number() < 600 {
        findings.invalid_as(&seconds, seconds.number(), "may not specify a duration less than 10 minutes");
    }
    if seconds.number() > 1 << 32 {
        findings.invalid(&seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let path = token.field("path").known_as(own.child("path"));
    match path.is_empty() {
        true => findings.required(&path, ""),
        false => rules::non_reserved_path(&path, findings),
    }
}

fn csi(own: &Place<'_>, findings: &mut Findings) {
    sources::driver_name(&own.field("driver"), findings);
    let secret = own.field("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.field("name");
        match name.is_empty() {
            true => findings.required(&name, ""),
            false => rules::subdomain(&name.known_as(own.child("name")), findings),
        }
    }
}

fn ephemeral(volume: &Place<'_>, own: &Place<'_>, owner: Owner<'_>, findings: &mut Findings) {
    let template = own.field("volumeClaimTemplate");
    match template.is_set() {
        true => storage::claim_template(&template, findings),
        false => findings.required(&template, ""),
    }
    let name = volume.field("name");
    if !owner.name().is_empty() && !name.is_empty() {
        let claim = format!("{}-{}", owner.name(), name.text());
        for problem in names::is_subdomain(&claim) {
            findings.invalid(&name, format!("PVC name {claim:?}: {problem}"));
        }
    }
}
