//! The validation rules of spec 2.2.

use super::types::{Config, Disk, Filesystem, Mount, Owner, Raid, User, Verification};
use crate::path::Path;
use crate::report::{Problem, Report};
use crate::validate::spec2_shared::{contents, dropin_name, is_guid, label, unit_name};
use crate::version::Version;
use crate::{unit_file, url};

pub(crate) fn check(config: &Config, report: &mut Report) {
    let ignition = Path::Root.key("ignition");
    let references = ignition.key("config");
    let append = references.key("append");
    for (index, each) in config.ignition.config.append.iter().enumerate() {
        source(&each.source, each.verification.as_ref(), &append.index(index), report);
    }
    if let Some(replace) = &config.ignition.config.replace {
        source(&replace.source, replace.verification.as_ref(), &references.key("replace"), report);
    }
    let authorities = ignition.key("security.tls.certificateAuthorities");
    for (index, each) in config.ignition.security.tls.certificate_authorities.iter().enumerate() {
        source(&each.source, each.verification.as_ref(), &authorities.index(index), report);
    }
    networkd(config, report);
    let passwd = Path::Root.key("passwd");
    let users = passwd.key("users");
    config.passwd.users.iter().enumerate().for_each(|(index, each)| user(each, &users.index(index), report));
    nodes(config, report);
    disks(config, report);
    units(config, report);
}

fn source(text: &str, verification: Option<&Verification>, at: &Path<'_>, report: &mut Report) {
    if !text.is_empty()
        && let Err(message) = url::check(text, Version::V2_2)
    {
        let problem = Problem::new(at.key("source").to_string(), message);
        report.problem(problem.allowed(url::allowed(Version::V2_2)));
    }
    let Some(hash) = verification.and_then(|verification| verification.hash.as_deref()) else {
        return;
    };
    let message = match hash.split_once('-') {
        None => "malformed hash specifier",
        Some(("sha512", sum)) if sum.len() == 128 => return,
        Some(("sha512", _)) => "incorrect size for hash sum",
        Some(_) => "unrecognized hash function",
    };
    let at = at.key("verification");
    report.problem(Problem::new(at.key("hash").to_string(), message).allowed("sha512-<128 digits>"));
}

fn networkd(config: &Config, report: &mut Report) {
    let at = Path::Root.key("networkd");
    let at = at.key("units");
    for (index, unit) in config.networkd.units.iter().enumerate() {
        let at = at.index(index);
        contents(Some(&unit.contents), &at, report);
        if ![".link", ".netdev", ".network"].iter().any(|extension| unit.name.ends_with(extension)) {
            report.problem(Problem::new(at.key("name").to_string(), "invalid networkd unit extension"));
        }
    }
}

fn user(user: &User, at: &Path<'_>, report: &mut Report) {
    let beside = [
        (!user.gecos.is_empty(), "gecos"),
        (!user.groups.is_empty(), "groups"),
        (!user.home_dir.is_empty(), "homeDir"),
        (user.no_create_home, "noCreateHome"),
        (user.no_log_init, "noLogInit"),
        (user.no_user_group, "noUserGroup"),
        (!user.primary_group.is_empty(), "primaryGroup"),
        (!user.shell.is_empty(), "shell"),
        (user.system, "system"),
        (user.uid.is_some(), "uid"),
    ];
    for (_, field) in beside.into_iter().filter(|(set, _)| *set && user.create.is_some()) {
        let message = format!("cannot use both the create object and the user-level {field} field");
        report.problem(Problem::new(at.to_string(), message));
    }
}

fn nodes(config: &Config, report: &mut Report) {
    let at = Path::Root.key("storage");
    let node = |path: &str,
                filesystem: &str,
                user: &Option<Owner>,
                group: &Option<Owner>,
                at: &Path<'_>,
                report: &mut Report| {
        if filesystem.is_empty() {
            report.problem(Problem::new(at.key("filesystem").to_string(), "no filesystem specified").allowed("root"));
        }
        absolute(path, at.key("path"), report);
        for (owner, field) in [(user, "user"), (group, "group")] {
            if owner.as_ref().is_some_and(|owner| owner.id.is_some() && !owner.name.is_empty()) {
                report.problem(Problem::new(at.key(field).to_string(), "cannot set both id and name"));
            }
        }
    };
    let mode = |mode: Option<i64>, at: &Path<'_>, report: &mut Report| {
        if let Some(mode) = mode.filter(|mode| !(0..=0o7777).contains(mode)) {
            let problem =
                Problem::new(at.key("mode").to_string(), format!("illegal file mode {mode} (octal {mode:o})"));
            report.problem(problem.allowed("0 to 4095, octal 0 to 7777"));
        }
    };
    let files = at.key("files");
    for (index, file) in config.storage.files.iter().enumerate() {
        let at = files.index(index);
        node(&file.path, &file.filesystem, &file.user, &file.group, &at, report);
        mode(file.mode, &at, report);
        let contents = at.key("contents");
        source(&file.contents.source, file.contents.verification.as_ref(), &contents, report);
        if !matches!(file.contents.compression.as_str(), "" | "gzip") {
            let message = format!("invalid compression method {:?}", file.contents.compression);
            report.problem(Problem::new(contents.key("compression").to_string(), message).allowed("gzip"));
        }
        if file.append && file.overwrite == Some(true) {
            report.problem(Problem::new(at.to_string(), "cannot set both append and overwrite to true"));
        }
    }
    let directories = at.key("directories");
    for (index, directory) in config.storage.directories.iter().enumerate() {
        let at = directories.index(index);
        node(&directory.path, &directory.filesystem, &directory.user, &directory.group, &at, report);
        mode(directory.mode, &at, report);
    }
    let links = at.key("links");
    for (index, link) in config.storage.links.iter().enumerate() {
        node(&link.path, &link.filesystem, &link.user, &link.group, &links.index(index), report);
    }
}

fn absolute(path: &str, at: Path<'_>, report: &mut Report) {
    if !path.starts_with('/') {
        report
            .problem(Problem::new(at.to_string(), format!("path not absolute: {path:?}")).allowed("an absolute path"));
    }
}

fn disks(config: &Config, report: &mut Report) {
    let at = Path::Root.key("storage");
    let (disks, raid, filesystems) = (at.key("disks"), at.key("raid"), at.key("filesystems"));
    config.storage.disks.iter().enumerate().for_each(|(index, each)| disk(each, &disks.index(index), report));
    config.storage.raid.iter().enumerate().for_each(|(index, each)| array(each, &raid.index(index), report));
    for (index, each) in config.storage.filesystems.iter().enumerate() {
        filesystem(each, &filesystems.index(index), report);
    }
}

fn disk(disk: &Disk, at: &Path<'_>, report: &mut Report) {
    if disk.device.is_empty() {
        report.problem(Problem::new(at.key("device").to_string(), "disk device is required"));
    } else {
        absolute(&disk.device, at.key("device"), report);
    }
    let at = at.key("partitions");
    let mut numbers = std::collections::HashSet::new();
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for (index, partition) in disk.partitions.iter().enumerate() {
        let at = at.index(index);
        if partition.number != 0 && !numbers.insert(partition.number) {
            report.problem(Problem::new(at.to_string(), "partition numbers collide"));
        }
        if partition.start % 2048 != 0 {
            report.problem(Problem::new(at.to_string(), "partitions misaligned"));
        }
        if partition.start != 0 {
            spans.push((partition.start, partition.start.saturating_add((partition.size - 1).max(0))));
        }
        if partition.label.len() > 36 {
            let message = "partition labels may not exceed 36 characters";
            report.problem(Problem::new(at.key("label").to_string(), message));
        }
        for (field, guid) in [("guid", &partition.guid), ("typeGuid", &partition.type_guid)] {
            if !is_guid(guid) {
                let message = "doesn't match the form \"01234567-89AB-CDEF-EDCB-A98765432101\"";
                report.problem(Problem::new(at.key(field).to_string(), message));
            }
        }
    }
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[1].0 <= pair[0].1) {
        report.problem(Problem::new(at.to_string(), "partitions overlap"));
    }
}

fn array(raid: &Raid, at: &Path<'_>, report: &mut Report) {
    let message = match raid.level.as_str() {
        "linear" | "raid0" | "0" | "stripe" if raid.spares != 0 => {
            "spares unsupported for arrays with a level greater than 0"
        }
        "linear" | "raid0" | "0" | "stripe" | "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6"
        | "6" | "raid10" | "10" => "",
        _ => "unrecognized raid level",
    };
    if !message.is_empty() {
        report.problem(Problem::new(at.key("level").to_string(), message));
    }
    let at = at.key("devices");
    raid.devices.iter().enumerate().for_each(|(index, device)| absolute(device, at.index(index), report));
}

fn filesystem(each: &Filesystem, at: &Path<'_>, report: &mut Report) {
    let Some(mount) = &each.mount else {
        match &each.path {
            Some(path) => absolute(path, at.key("path"), report),
            None => report.problem(Problem::new(at.to_string(), "filesystem is missing mount or path")),
        }
        return;
    };
    if each.path.is_some() {
        report.problem(Problem::new(at.to_string(), "filesystem has both mount and path defined"));
    }
    check_mount(mount, &at.key("mount"), report);
}

fn check_mount(mount: &Mount, at: &Path<'_>, report: &mut Report) {
    if mount.create.is_some() && mount.wipe_filesystem {
        report.problem(Problem::new(at.to_string(), "cannot use both create object and wipeFilesystem field"));
    }
    if mount.create.is_some() && !mount.options.is_empty() {
        report.problem(Problem::new(at.to_string(), "cannot use both create object and mount-level options field"));
    }
    if !matches!(mount.format.as_str(), "ext4" | "btrfs" | "xfs" | "swap" | "vfat") {
        let message = format!("invalid filesystem format {:?}", mount.format);
        report.problem(Problem::new(at.key("format").to_string(), message).allowed("ext4, btrfs, xfs, swap, vfat"));
    }
    absolute(&mount.device, at.key("device"), report);
    label(&mount.format, mount.label.as_deref(), at, report);
}

fn units(config: &Config, report: &mut Report) {
    let at = Path::Root.key("systemd");
    let at = at.key("units");
    for (index, unit) in config.systemd.units.iter().enumerate() {
        let at = at.index(index);
        unit_name(&unit.name, &at, report);
        let found: Option<unit_file::Found> = contents(Some(&unit.contents), &at, report);
        let enabled = unit.enable || unit.enabled == Some(true);
        if enabled && !unit.contents.is_empty() && found.is_some_and(|found| !found.install) {
            let message = format!("unit {:?} is enabled, but has no install section so enable does nothing", unit.name);
            report.warning(Problem::new(at.key("contents").to_string(), message));
        }
        let dropins = at.key("dropins");
        for (index, dropin) in unit.dropins.iter().enumerate() {
            let at = dropins.index(index);
            dropin_name(&dropin.name, &at, report);
            contents(Some(&dropin.contents), &at, report);
        }
    }
}
