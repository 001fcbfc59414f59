//! Where volumes stand in a container: as directories, or as devices.

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use super::volumes::Volumes;

pub(super) fn mounts(container: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    let list = container.field("volumeMounts");
    let devices: Vec<(&str, &str)> = pairs(&container.field("volumeDevices"), "devicePath");
    let mut seen = Vec::new();
    for mount in list.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.is_empty() {
            findings.required(&name, "");
        }
        if !volumes.contains_key(name.text()) {
            findings.not_found(&name);
        }
        if path.is_empty() {
            findings.required(&path, "");
        }
        if seen.contains(&path.text()) {
            findings.invalid_as(&path, path.text(), "must be unique");
        }
        seen.push(path.text());
        if devices.iter().any(|(device, _)| *device == name.text()) {
            findings.invalid_as(&name, name.text(), "must not already exist in volumeDevices");
        }
        if devices.iter().any(|(_, device)| *device == path.text()) {
            findings.invalid_as(&path, path.text(), "must not already exist as a path in volumeDevices");
        }
        // The real server tells about the rest at the path of the list.
        let at_list = |field: &str| mount.field(field).known_as(list.child(field));
        if !mount.field("subPath").is_empty() {
            rules::descending_path(&at_list("subPath"), findings);
        }
        if !mount.field("subPathExpr").is_empty() {
            if !mount.field("subPath").is_empty() {
                findings.invalid(&mount.field("subPathExpr"), "subPathExpr and subPath are mutually exclusive");
            }
            rules::descending_path(&at_list("subPathExpr"), findings);
        }
        propagation(&at_list("mountPropagation"), container, findings);
        recursive_read_only(&mount, &at_list("recursiveReadOnly"), findings);
    }
}

fn pairs<'v>(list: &Place<'v>, path: &str) -> Vec<(&'v str, &'v str)> {
    list.items().map(|item| (item.field("name").text(), item.field(path).text())).collect()
}

fn propagation(place: &Place<'_>, container: &Place<'_>, findings: &mut Findings) {
    if !place.is_set() {
        return;
    }
    findings.one_of(place, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = container.field("securityContext").field("privileged").is_true();
    if place.text() == "Bidirectional" && !privileged {
        findings.forbidden(place, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(mount: &Place<'_>, place: &Place<'_>, findings: &mut Findings) {
    if !place.is_set() {
        return;
    }
    match place.text() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").is_true() {
                findings.forbidden(place, "may only be specified when readOnly is true");
            }
            let propagation = mount.field("mountPropagation");
            if propagation.is_set() && propagation.text() != "None" {
                findings.forbidden(place, "may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => findings.unsupported(place, &["Disabled", "Enabled", "IfPossible"]),
    }
}

pub(super) fn devices(container: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    let mounts: Vec<(&str, &str)> = pairs(&container.field("volumeMounts"), "mountPath");
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for device in container.field("volumeDevices").items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        if name.is_empty() {
            findings.required(&name, "");
        }
        if names.contains(&name.text()) {
            findings.invalid_as(&name, name.text(), "must be unique");
        }
        match volumes.get(name.text()).map(String::as_str) {
            Some("persistentVolumeClaim" | "ephemeral") => {}
            Some(_) => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                findings.invalid_as(&name, name.text(), detail);
            }
            None => findings.not_found(&name),
        }
        if path.is_empty() {
            findings.required(&path, "");
        }
        if paths.contains(&path.text()) {
            findings.invalid_as(&path, path.text(), "must be unique");
        }
        if path.text().split('/').any(|part| part == "..") {
            findings.invalid(&path, "can not contain backsteps ('..')");
        } else {
            paths.push(path.text());
        }
        if mounts.iter().any(|(mount, _)| *mount == name.text()) {
            findings.invalid_as(&name, name.text(), "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|(_, mount)| *mount == path.text()) {
            findings.invalid_as(&path, path.text(), "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.push(name.text());
        }
    }
}
