//! What drivers of storage say of themselves, of nodes and of room, and the volumes that they attach.

use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::{pods, rules, sources, storage};

pub(crate) fn driver(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    // The real server tells of this field under a name of its own.
    let attach = spec.field("attachRequired").known_as("spec.attachedRequired");
    for field in [&attach, &spec.field("podInfoOnMount"), &spec.field("storageCapacity"), &spec.field("seLinuxMount")] {
        if !field.is_set() {
            findings.required(field, "");
        }
    }
    let policy = spec.field("fsGroupPolicy");
    if policy.is_set() {
        findings.one_of(&policy, &["File", "None", "ReadWriteOnceWithFSType"]);
    }
    tokens(&spec.field("tokenRequests"), findings);
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        findings.one_of(&mode.known_as(&modes.path), &["Persistent", "Ephemeral"]);
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.is_set() && period.number() < 10 {
        findings.invalid(&period, "must be greater than or equal to 10 seconds");
    }
    let secrets = spec.field("serviceAccountTokenInSecrets");
    if secrets.is_set() && spec.field("tokenRequests").is_empty() {
        findings.invalid(&secrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified");
    }
    if let Some(old) = old {
        rules::immutable(&attach, &old["spec"]["attachRequired"], findings);
        rules::immutable(&modes, &old["spec"]["volumeLifecycleModes"], findings);
    }
}

/// Each audience is asked for once.
fn tokens(list: &Place<'_>, findings: &mut Findings) {
    const LEAST: i64 = 600;
    const MOST: i64 = 1 << 32;
    let mut seen = Vec::new();
    for token in list.items() {
        let (audience, seconds) = (token.field("audience"), token.field("expirationSeconds"));
        if seen.contains(&audience.text()) {
            findings.duplicate_as(&audience, audience.text());
            continue;
        }
        seen.push(audience.text());
        if seconds.is_set() && seconds.number() < LEAST {
            findings.invalid(&seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds.number() > MOST {
            findings.invalid(&seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

pub(crate) fn node(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let drivers = object.field("spec").field("drivers");
    let mut seen = Vec::new();
    for driver in drivers.items() {
        let name = driver.field("name");
        node_driver(&driver, findings);
        match seen.contains(&name.text()) {
            true => findings.duplicate_as(&name, name.text()),
            false => seen.push(name.text()),
        }
    }
    let Some(old) = old else { return };
    for before in Place::root(&old["spec"]["drivers"]).items() {
        for driver in drivers.items().filter(|driver| driver.field("name").text() == before.field("name").text()) {
            // How many volumes fit may change, and nothing else.
            let [now, then] = [driver.value, before.value].map(|value| {
                let mut value = value.clone();
                value["allocatable"] = Value::Null;
                value
            });
            if !rules::same(&now, &then) {
                findings.invalid_as(&drivers, driver.value.clone(), rules::IMMUTABLE);
            }
        }
    }
}

fn node_driver(driver: &Place<'_>, findings: &mut Findings) {
    const LONGEST: usize = 256;
    sources::driver_name(&driver.field("name"), findings);
    let node = driver.field("nodeID");
    if node.is_empty() {
        findings.required(&node, "");
    }
    if node.text().len() > LONGEST {
        findings.invalid(&node, format!("must be {LONGEST} characters or less"));
    }
    findings.non_negative(&driver.field("allocatable").field("count"));
    let mut seen = Vec::new();
    for key in driver.field("topologyKeys").items() {
        let told = key.known_as(&driver.path);
        if key.is_empty() {
            findings.required(&told, "");
        }
        match seen.contains(&key.text()) {
            true => findings.duplicate(&told),
            false => seen.push(key.text()),
        }
        rules::qualified_name(&told, findings);
    }
}

pub(crate) fn capacity(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let (topology, class, amount) =
        (object.field("nodeTopology"), object.field("storageClassName"), object.field("capacity"));
    rules::label_selector(&topology, findings);
    findings.problems(&class, schema::names::is_subdomain(class.text()));
    if pods::amount_of(amount.value).0 < 0 {
        findings.invalid_as(&amount, pods::shown(amount.value), rules::NEGATIVE);
    }
    if let Some(old) = old {
        rules::immutable(&topology, &old["nodeTopology"], findings);
        if class.text() != old["storageClassName"].as_str().unwrap_or_default() {
            findings.invalid_as(&class, class.text(), rules::IMMUTABLE);
        }
    }
}

pub(crate) fn attachment(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    sources::driver_name(&spec.field("attacher"), findings);
    source(&spec.field("source"), findings);
    findings.problems(&spec.field("nodeName"), schema::names::is_subdomain(spec.field("nodeName").text()));
    let status = object.field("status");
    attached(&status, findings);
    let volume = spec.field("source").field("persistentVolumeName");
    if volume.is_set() {
        rules::subdomain(&volume, findings);
    }
    if let Some(old) = old {
        rules::immutable(&spec, &old["spec"], findings);
    }
}

fn source(source: &Place<'_>, findings: &mut Findings) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (inline, name) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => findings.required(source, ONE),
        (true, true) => findings.forbidden(source, ONE),
        (false, true) if name.is_empty() => findings.required(&name, "must specify non empty persistentVolumeName"),
        (false, true) => {}
        (true, false) => storage::inline_volume(&inline, findings),
    }
}

fn attached(status: &Place<'_>, findings: &mut Findings) {
    const METADATA: usize = 256 * 1024;
    const MESSAGE: usize = 1024;
    let metadata = status.field("attachmentMetadata");
    if metadata.entries().map(|(key, value)| key.len() + value.text().len()).sum::<usize>() > METADATA {
        findings.too_long(&metadata, METADATA as u64);
    }
    for error in ["attachError", "detachError"].map(|field| status.field(field)) {
        if error.field("message").text().len() > MESSAGE {
            findings.too_long(&error.field("message"), METADATA as u64);
        }
        let code = error.field("errorCode");
        if code.number() < 0 {
            findings.invalid(&code, rules::inclusive(&(0..=i64::from(i32::MAX))));
        }
    }
}
