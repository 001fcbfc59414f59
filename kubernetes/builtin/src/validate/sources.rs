//! Sources of storage that pods and persistent volumes share.

use schema::{FieldError, names};

use super::place::{Find, Findings, Place};
use super::rules;

pub(crate) const TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// A source by the name of its field; `persistent` if a persistent volume has it, where secrets have namespaces.
pub(crate) fn check(kind: &str, own: &Place<'_>, persistent: bool, findings: &mut Findings) {
    match kind {
        "hostPath" => host_path(own, findings),
        // The real server tells about this one under another name.
        "gcePersistentDisk" => {
            let path = own.path.replace("gcePersistentDisk", "persistentDisk");
            disk(&own.known_as(path), "pdName", findings);
        }
        "awsElasticBlockStore" => disk(own, "volumeID", findings),
        "nfs" => {
            required(own, &["server", "path"], findings);
            if !own.field("path").text().starts_with('/') {
                findings.invalid_as(&own.field("path"), own.field("path").text(), "must be an absolute path");
            }
        }
        "glusterfs" => {
            required(own, &["endpoints", "path"], findings);
            let namespace = own.field("endpointsNamespace");
            if persistent && namespace.is_set() {
                match namespace.is_empty() {
                    true => {
                        findings
                            .invalid(&namespace, "if the endpointnamespace is set, it must be a valid namespace name");
                    }
                    false => rules::label(&namespace, findings),
                }
            }
        }
        "flocker" => flocker(own, findings),
        "rbd" => required(own, &["monitors", "image"], findings),
        "cinder" => {
            required(own, &["volumeID"], findings);
            secret(own, persistent, findings);
        }
        "cephfs" => required(own, &["monitors"], findings),
        "quobyte" => quobyte(own, findings),
        "fc" => fibre_channel(own, findings),
        "flexVolume" => flex(own, findings),
        "azureFile" => {
            required(own, &["secretName", "shareName"], findings);
            let namespace = own.field("secretNamespace");
            if persistent && namespace.is_set() && namespace.is_empty() {
                findings.required(&namespace, "");
            }
        }
        "vsphereVolume" => required(own, &["volumePath"], findings),
        "photonPersistentDisk" => required(own, &["pdID"], findings),
        "portworxVolume" => required(own, &["volumeID"], findings),
        "azureDisk" => azure_disk(own, findings),
        "scaleIO" => required(own, &["gateway", "system", "volumeName"], findings),
        "storageos" => storage_os(own, persistent, findings),
        "local" => {
            if own.field("path").is_empty() {
                return findings.required(&own.field("path"), "");
            }
            rules::no_backsteps(&own.field("path"), findings);
        }
        _ => {}
    }
}

fn required(place: &Place<'_>, fields: &[&str], findings: &mut Findings) {
    for field in fields.iter().map(|name| place.field(name)).filter(Place::is_empty) {
        findings.required(&field, "");
    }
}

fn secret(own: &Place<'_>, persistent: bool, findings: &mut Findings) {
    let secret = own.field("secretRef");
    if secret.is_set() {
        required(&secret, if persistent { &["name", "namespace"] } else { &["name"] }, findings);
    }
}

fn host_path(own: &Place<'_>, findings: &mut Findings) {
    if own.field("path").is_empty() {
        return findings.required(&own.field("path"), "");
    }
    rules::no_backsteps(&own.field("path"), findings);
    let known = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if own.field("type").is_set() {
        findings.one_of(&own.field("type"), &known);
    }
}

fn disk(own: &Place<'_>, name: &str, findings: &mut Findings) {
    required(own, &[name], findings);
    let partition = own.field("partition");
    if !(0..=255).contains(&partition.number()) {
        findings.invalid(&partition, rules::inclusive(&(1..=255)));
    }
}

/// A disk by its initiator's network; `format` is what is said of a name that starts with none of the known prefixes.
pub(crate) fn iscsi(own: &Place<'_>, format: &str, findings: &mut Findings) {
    required(own, &["targetPortal"], findings);
    let name = own.field("iqn");
    match name.is_empty() {
        true => findings.required(&name, ""),
        false => initiator(&name, format, findings),
    }
    rules::in_range(&own.field("lun"), 0..=255, findings);
    let chap = own.field("chapAuthDiscovery").is_true() || own.field("chapAuthSession").is_true();
    if chap && !own.field("secretRef").is_set() {
        findings.required(&own.field("secretRef"), "");
    }
    let own_name = own.field("initiatorName");
    if own_name.is_set() {
        initiator(&own_name.known_as(own.child("initiatorname")), format, findings);
    }
}

fn initiator(name: &Place<'_>, format: &str, findings: &mut Findings) {
    let text = name.text();
    let alphanumeric =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let fits = match text.get(..3) {
        Some("iqn") => is_qualified(text),
        Some("eui") => alphanumeric(text.get(4..).unwrap_or_default(), 16),
        Some("naa") => alphanumeric(text.get(4..).unwrap_or_default(), 32),
        _ => return findings.invalid(name, format),
    };
    if !fits {
        findings.invalid(name, "must be valid format");
    }
}

/// `iqn.2001-04.com.example:storage`.
fn is_qualified(text: &str) -> bool {
    let Some((date, rest)) = text.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else { return false };
    let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    let dated = date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2));
    let Some((authority, own)) = rest.split_once(':') else { return false };
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let free = |c: char| !",;*&$|".contains(c) && !c.is_ascii_whitespace();
    dated && !authority.is_empty() && authority.bytes().all(known) && !own.is_empty() && own.chars().all(free)
}

fn fibre_channel(own: &Place<'_>, findings: &mut Findings) {
    let (names, ids, lun) = (own.field("targetWWNs"), own.field("wwids"), own.field("lun"));
    if names.is_empty() && ids.is_empty() {
        findings.required(&names, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        findings.invalid(&names, "targetWWNs and wwids can not be specified simultaneously");
    }
    if !names.is_empty() {
        match lun.is_set() {
            true => rules::in_range(&lun, 0..=255, findings),
            false => findings.required(&lun, "lun is required if targetWWNs is specified"),
        }
    }
}

fn flocker(own: &Place<'_>, findings: &mut Findings) {
    let (name, uuid) = (own.field("datasetName"), own.field("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        findings.required(own, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        findings.invalid_as(own, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.text().contains('/') {
        findings.invalid(&name, "must not contain '/'");
    }
}

fn quobyte(own: &Place<'_>, findings: &mut Findings) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = own.field("registry");
    if registry.is_empty() {
        findings.required(&registry, PAIRS);
    } else if own.field("tenant").text().len() >= 65 {
        findings.required(&own.field("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.text().split(',') {
            if pair.matches(':').count() != 1 && !(pair.starts_with('[') && pair.contains("]:")) {
                findings.invalid(&registry, PAIRS);
            }
        }
    }
    required(own, &["volume"], findings);
}

fn flex(own: &Place<'_>, findings: &mut Findings) {
    required(own, &["driver"], findings);
    for (key, place) in own.field("options").entries() {
        let namespace = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            findings.invalid_as(&place, key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(own: &Place<'_>, findings: &mut Findings) {
    required(own, &["diskName", "diskURI"], findings);
    let (caching, kind, uri) = (own.field("cachingMode"), own.field("kind"), own.field("diskURI"));
    if caching.is_set() {
        findings.one_of(&caching, &["None", "ReadOnly", "ReadWrite"]);
    }
    if !kind.is_set() {
        return;
    }
    findings.one_of(&kind, &["Dedicated", "Managed", "Shared"]);
    let (start, known) = match kind.text() {
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.text().starts_with(start) {
        findings.unsupported(&uri, &[known]);
    }
}

fn storage_os(own: &Place<'_>, persistent: bool, findings: &mut Findings) {
    let (name, namespace) = (own.field("volumeName"), own.field("volumeNamespace"));
    match name.is_empty() {
        true => findings.required(&name, ""),
        false => rules::label(&name, findings),
    }
    if !namespace.is_empty() {
        rules::label(&namespace, findings);
    }
    secret(own, persistent, findings);
}

/// The name of a driver: a subdomain in any case, and short.
pub(crate) fn driver_name(name: &Place<'_>, findings: &mut Findings) {
    if name.is_empty() {
        return findings.required(name, "");
    }
    if name.text().len() > 63 {
        findings.too_long(name, 63);
    }
    for problem in names::is_subdomain(&name.text().to_lowercase()) {
        findings.push(FieldError::invalid(&name.path, name.text(), problem));
    }
}
