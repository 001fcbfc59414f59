//! Rules about images, root volumes and further disks.

use std::collections::HashSet;

use machine::provider::Verdict;
use machine::spec::Path;

use super::super::types::{BlockDevice, OpenStackSpec};
use super::super::{ROOT, image};
use super::unused;

pub(super) fn check(spec: &OpenStackSpec, verdict: &mut Verdict) {
    if image(spec).is_empty() {
        verdict.required(&Path::spec().child("image"), "name an image by its name or id");
    }
    check_root(spec, verdict);
    let mut names = HashSet::new();
    for (index, device) in spec.additional_block_devices.iter().enumerate() {
        let path = Path::spec().child("additionalBlockDevices").index(index);
        check_device(device, &path, verdict);
        if !device.name.is_empty() && !names.insert(device.name.as_str()) {
            verdict.invalid(&path.child("name"), &device.name, "another device has this name");
        }
    }
}

fn check_root(spec: &OpenStackSpec, verdict: &mut Verdict) {
    let Some(volume) = &spec.root_volume else { return };
    let path = Path::spec().child("rootVolume");
    if volume.size < 0 {
        verdict.invalid(&path.child("diskSize"), volume.size, "must be a number of GiB, such as 100");
    }
    if volume.size == 0 {
        verdict.warn(&path, "is not used without diskSize: the machine boots from a disk of its flavor");
    }
    let has_both = !volume.source_uuid.is_empty() && !spec.image.is_empty();
    unused(
        &path,
        verdict,
        &[
            ("sourceUUID", !has_both, ", because image is set"),
            ("sourceType", volume.source_type.is_empty(), ""),
            ("deviceType", volume.device_type.is_empty(), ""),
        ],
    );
}

fn check_device(device: &BlockDevice, path: &Path, verdict: &mut Verdict) {
    match device.name.as_str() {
        "" => verdict.required(&path.child("name"), "name the device, such as etcd"),
        ROOT => verdict.invalid(&path.child("name"), ROOT, "is the name of the volume to boot from"),
        name if name.contains([',', '/']) || name.len() > 60 => {
            verdict.invalid(&path.child("name"), name, "must have up to 60 letters, none of them a comma or a slash");
        }
        _ => {}
    }
    if device.size_gib < 1 {
        verdict.invalid(&path.child("sizeGiB"), device.size_gib, "must be a number of GiB, at least 1");
    }
    let storage = path.child("storage");
    match device.storage.kind.as_str() {
        "" => verdict.required(&storage.child("type"), "write Volume or Local"),
        "Volume" => {}
        "Local" if device.storage.volume.is_some() => {
            verdict.forbidden(&storage.child("volume"), "a device of type Local is no volume");
        }
        "Local" => {}
        other => verdict.unsupported(&storage.child("type"), other, &["Local", "Volume"]),
    }
}
