//! Disks, partitions, RAID, encrypted volumes and filesystems.

use std::collections::{HashMap, HashSet};

use super::nodes::check_path;
use super::{duplicate, duplicates, resource, strings};
use crate::path::Path;
use crate::report::{Problem, Report};
use crate::url;
use crate::v3_5::{Clevis, Disk, Filesystem, Luks, Partition, Raid, Storage};
use crate::version::Version;

pub(super) fn check(storage: &Storage, version: Version, report: &mut Report) {
    let at = Path::Root.key("storage");
    let (disks_at, raid_at) = (at.key("disks"), at.key("raid"));
    let (filesystems_at, luks_at) = (at.key("filesystems"), at.key("luks"));

    let disks = || storage.disks.iter().flatten();
    duplicates(disks().map(|disk| disk.device.as_str()), &mut HashSet::new(), disks_at, report);
    disks().enumerate().for_each(|(index, each)| disk(each, disks_at.index(index), report));

    let arrays = || storage.raid.iter().flatten();
    duplicates(arrays().map(|array| array.name.as_str()), &mut HashSet::new(), raid_at, report);
    arrays().enumerate().for_each(|(index, each)| raid(each, raid_at.index(index), report));

    let filesystems = || storage.filesystems.iter().flatten();
    duplicates(filesystems().map(|each| each.device.as_str()), &mut HashSet::new(), filesystems_at, report);
    filesystems().enumerate().for_each(|(index, each)| filesystem(each, filesystems_at.index(index), version, report));

    let volumes = || storage.luks.iter().flatten();
    duplicates(volumes().map(|volume| volume.name.as_str()), &mut HashSet::new(), luks_at, report);
    volumes().enumerate().for_each(|(index, each)| luks(each, luks_at.index(index), version, report));
}

fn disk(disk: &Disk, at: Path<'_>, report: &mut Report) {
    if disk.device.is_empty() {
        return report.problem(Problem::new(at.key("device").to_string(), "disk device is required"));
    }
    check_path(&disk.device, at.key("device"), report);
    let partitions = disk.partitions.as_deref().unwrap_or_default();
    let at = at.key("partitions");
    let mut keys = HashSet::new();
    let mut labels = HashSet::new();
    for (index, each) in partitions.iter().enumerate() {
        let at = at.index(index);
        partition(each, &at, report);
        let key = match (each.number.unwrap_or(0), &each.label) {
            (0, Some(label)) => format!("label:{label}"),
            (0, None) => String::new(),
            (number, _) => format!("number:{number}"),
        };
        if let Some(label) = &each.label
            && !labels.insert(label)
        {
            report.problem(Problem::new(at.to_string(), "cannot use the same partition label twice"));
        }
        if keys.contains(&key) {
            if each.number.unwrap_or(0) != 0 {
                report.problem(Problem::new(at.to_string(), "partition numbers collide"));
            }
            report.problem(duplicate(&at, &key));
        }
        keys.insert(key);
    }
    if let Some(index) = overlapping(partitions) {
        report.problem(Problem::new(at.index(index).to_string(), "partitions overlap"));
    }
    let absent = partitions.iter().any(|partition| partition.should_exist == Some(false));
    if absent && partitions.iter().any(|partition| partition.number.unwrap_or(0) == 0) {
        let message = "shouldExist is false for a partition and other partition(s) has start or size 0";
        report.problem(Problem::new(at.to_string(), message));
    }
}

/// Returns the index of a partition that overlaps another. Sorting keeps a thousand partitions cheap.
fn overlapping(partitions: &[Partition]) -> Option<usize> {
    let mut spans: Vec<(i64, i64, usize)> = partitions
        .iter()
        .enumerate()
        .filter_map(|(index, partition)| {
            let (start, size) = (partition.start_mib?, partition.size_mib?);
            let end = if size == 0 { start } else { start.saturating_add(size).saturating_sub(1) };
            (start != 0).then_some((start, end, index))
        })
        .collect();
    spans.sort_unstable();
    spans.windows(2).find(|pair| pair[1].0 <= pair[0].1).map(|pair| pair[1].2)
}

fn partition(partition: &Partition, at: &Path<'_>, report: &mut Report) {
    let filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let described = partition.label.is_some()
        || filled(&partition.type_guid)
        || filled(&partition.guid)
        || partition.start_mib.is_some()
        || partition.size_mib.is_some();
    if partition.should_exist == Some(false) && described {
        let message = "shouldExist specified false with other options also specified";
        report.problem(Problem::new(at.to_string(), message));
    }
    if partition.number.unwrap_or(0) == 0 && partition.label.is_none() {
        let message = "a partition number >= 1 or a label must be specified";
        report.problem(Problem::new(at.to_string(), message));
    }
    if let Some(label) = &partition.label {
        if label.len() > 36 {
            let message = "partition labels may not exceed 36 characters";
            report.problem(Problem::new(at.key("label").to_string(), message));
        }
        if label.contains(':') {
            let message = "partition label will be truncated to text before the colon";
            report.problem(Problem::new(at.key("label").to_string(), message));
        }
    }
    for (field, value) in [("guid", &partition.guid), ("typeGuid", &partition.type_guid)] {
        if value.as_deref().is_some_and(|guid| !is_guid(guid)) {
            let message = "doesn't match the form \"01234567-89AB-CDEF-EDCB-A98765432101\"";
            report.problem(Problem::new(at.key(field).to_string(), message));
        }
    }
}

pub(crate) fn is_guid(guid: &str) -> bool {
    let groups: Vec<&str> = guid.split('-').collect();
    guid.is_empty()
        || groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn raid(raid: &Raid, at: Path<'_>, report: &mut Report) {
    let level = raid.level.as_deref().unwrap_or_default();
    let message = match level {
        "" => Some("raid level is required"),
        "linear" | "raid0" | "0" | "stripe" if raid.spares.unwrap_or(0) != 0 => {
            Some("spares unsupported for linear and raid0 arrays")
        }
        "linear" | "raid0" | "0" | "stripe" | "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6"
        | "6" | "raid10" | "10" => None,
        _ => Some("unrecognized raid level"),
    };
    if let Some(message) = message {
        let allowed = "linear, raid0, raid1, raid4, raid5, raid6, raid10";
        report.problem(Problem::new(at.key("level").to_string(), message).allowed(allowed));
    }
    let devices_at = at.key("devices");
    let devices = raid.devices.as_deref().unwrap_or_default();
    if devices.is_empty() {
        report.problem(Problem::new(devices_at.to_string(), "raid devices required"));
    }
    duplicates(devices.iter().map(String::as_str), &mut HashSet::new(), devices_at, report);
    for (index, device) in devices.iter().enumerate() {
        check_path(device, devices_at.index(index), report);
    }
}

fn filesystem(each: &Filesystem, at: Path<'_>, version: Version, report: &mut Report) {
    let filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if let Some(path) = each.path.as_deref().filter(|path| !path.is_empty()) {
        check_path(path, at.key("path"), report);
    }
    check_path(&each.device, at.key("device"), report);
    let format = each.format.as_deref().unwrap_or_default();
    let described = filled(&each.path)
        || filled(&each.label)
        || filled(&each.uuid)
        || each.wipe_filesystem == Some(true)
        || each.mount_options.as_ref().is_some_and(|options| !options.is_empty())
        || each.options.as_ref().is_some_and(|options| !options.is_empty());
    let known = match format {
        "" if described => {
            let message =
                "format cannot be empty when path, label, uuid, wipeFilesystem, options, or mountOptions is specified";
            return report.problem(Problem::new(at.key("format").to_string(), message).allowed(formats(version)));
        }
        "" | "ext4" | "btrfs" | "xfs" | "swap" | "vfat" => true,
        "none" => version >= Version::V3_3,
        _ => false,
    };
    if !known {
        let message = format!("invalid filesystem format {format:?}");
        report.problem(Problem::new(at.key("format").to_string(), message).allowed(formats(version)));
    }
    label(format, each.label.as_deref(), &at, report);
}

fn formats(version: Version) -> &'static str {
    if version >= Version::V3_3 { "ext4, btrfs, xfs, swap, vfat, none" } else { "ext4, btrfs, xfs, swap, vfat" }
}

pub(crate) fn label(format: &str, label: Option<&str>, at: &Path<'_>, report: &mut Report) {
    let limits = HashMap::from([("ext4", 16), ("btrfs", 256), ("xfs", 12), ("swap", 15), ("vfat", 11)]);
    if let (Some(limit), Some(label)) = (limits.get(format), label)
        && label.len() > *limit
    {
        let message = format!("filesystem labels cannot be longer than {limit} characters when using {format}");
        report.problem(Problem::new(at.key("label").to_string(), message));
    }
}

fn luks(volume: &Luks, at: Path<'_>, version: Version, report: &mut Report) {
    let mut problem = |field: &'static str, message: &str| {
        report.problem(Problem::new(at.key(field).to_string(), message));
    };
    if volume.name.contains('/') {
        problem("name", "device names cannot contain slashes");
    }
    if volume.label.as_deref().is_some_and(|label| label.len() > 47) {
        problem("label", "luks device labels cannot be longer than 47 characters");
    }
    let device = volume.device.as_deref().unwrap_or_default();
    if device.is_empty() {
        problem("device", "disk device is required");
    }
    let clevis = volume.clevis.as_ref();
    if clevis.is_some_and(|clevis| has_custom(clevis) && has_pins(clevis)) {
        problem("clevis", "cannot use custom clevis config with tpm2, tang, or threshold");
    }
    if volume.cex.as_ref().is_some_and(|cex| cex.enabled == Some(true)) {
        if clevis.is_some_and(|clevis| has_custom(clevis) || has_pins(clevis)) {
            problem("cex", "cannot use cex with clevis");
        }
        if volume.key_file.as_ref().is_some_and(|key| key.source.as_deref().is_some_and(|source| !source.is_empty())) {
            problem("cex", "cannot use key file with cex");
        }
    }
    if !device.is_empty() {
        check_path(device, at.key("device"), report);
    }
    if let Some(key_file) = &volume.key_file {
        resource(key_file, at.key("keyFile"), version, report);
    }
    duplicates(strings(&volume.open_options), &mut HashSet::new(), at.key("openOptions"), report);
    if let Some(clevis) = clevis {
        check_clevis(clevis, at.key("clevis"), report);
    }
}

fn has_custom(clevis: &Clevis) -> bool {
    clevis.custom.as_ref().is_some_and(|custom| custom.pin.as_deref().is_some_and(|pin| !pin.is_empty()))
}

fn has_pins(clevis: &Clevis) -> bool {
    clevis.tang.as_ref().is_some_and(|tang| !tang.is_empty())
        || clevis.tpm2 == Some(true)
        || clevis.threshold.unwrap_or(0) != 0
}

fn check_clevis(clevis: &Clevis, at: Path<'_>, report: &mut Report) {
    if let Some(custom) = &clevis.custom {
        let at = at.key("custom");
        let empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        let silent = empty(&custom.pin) && empty(&custom.config) && custom.needs_network != Some(true);
        match custom.pin.as_deref().unwrap_or_default() {
            _ if silent => {}
            "tpm2" | "tang" | "sss" => {}
            "" => report.problem(Problem::new(at.key("pin").to_string(), "missing required custom clevis pin")),
            _ => report
                .problem(Problem::new(at.key("pin").to_string(), "unsupported clevis pin").allowed("tpm2, tang, sss")),
        }
        if !silent && empty(&custom.config) {
            report.problem(Problem::new(at.key("config").to_string(), "missing required custom clevis config"));
        }
    }
    let at = at.key("tang");
    let servers = || clevis.tang.iter().flatten();
    let key = |tang: &'_ crate::v3_5::Tang| tang.url.clone().unwrap_or_default();
    let mut seen = HashSet::new();
    for (index, tang) in servers().enumerate() {
        let at = at.index(index);
        let address = key(tang);
        match url::scheme(&address).as_deref() {
            Ok("http" | "https") => {}
            Ok(_) => {
                report.problem(Problem::new(at.key("url").to_string(), "invalid url scheme").allowed("http, https"))
            }
            Err(message) => report.problem(Problem::new(at.key("url").to_string(), *message)),
        }
        if tang.thumbprint.as_deref().unwrap_or_default().is_empty() {
            report.problem(Problem::new(at.key("thumbprint").to_string(), "thumbprint is required"));
        }
        if let Some(advertisement) = tang.advertisement.as_deref().filter(|text| !text.is_empty())
            && serde_json::from_str::<serde_json::Value>(advertisement).is_err()
        {
            report.problem(Problem::new(at.key("advertisement").to_string(), "advertisement is not valid JSON"));
        }
        if !seen.insert(address) {
            report.problem(duplicate(&at, &key(tang)));
        }
    }
}
