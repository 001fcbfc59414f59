//! Lifts spec 2.2 to spec 3, by the rules that upstream applies to MachineConfigs.
//!
//! Within one config the last entry for a path or name wins, and lists come out newest first: spec 2 allowed duplicate
//! entries, spec 3 does not. Only the user `core` and the root filesystem are supported.

use std::collections::{HashMap, HashSet};

use super::types::{Config, Dropin, File, Owner, Reference, Storage, Unit, User};
use crate::path::{Path, clean};
use crate::report::{Error, Problem, Report};
use crate::v3_5;
use crate::validate;
use crate::version::Version;

pub(super) fn lift(config: Config, report: &mut Report) -> Result<v3_5::Config, Error> {
    let users = core_user(config.passwd.users, report);
    refuse(&config.networkd.units, &config.storage, report);
    report.stop_on_problems()?;

    let config = v3_5::Config {
        ignition: v3_5::Ignition {
            config: Some(v3_5::IgnitionConfig {
                merge: list(config.ignition.config.append, reference),
                replace: config.ignition.config.replace.map(reference),
            }),
            proxy: None,
            security: Some(v3_5::Security {
                tls: Some(v3_5::SecurityTls {
                    certificate_authorities: list(config.ignition.security.tls.certificate_authorities, reference),
                }),
            }),
            timeouts: config.ignition.timeouts,
            version: Version::NEWEST.as_str().to_owned(),
        },
        kernel_arguments: None,
        passwd: Some(v3_5::Passwd {
            groups: list(config.passwd.groups, |group| v3_5::Group {
                gid: group.gid,
                name: group.name,
                password_hash: filled(group.password_hash),
                should_exist: None,
                system: truth(group.system),
            }),
            users: list(users, user),
        }),
        systemd: Some(v3_5::Systemd { units: list(newest_units(config.systemd.units), unit) }),
        storage: Some(storage(config.storage)),
    };
    validate::check(&config, Version::V3_0, report);
    Ok(config)
}

/// Merges the entries of user `core` into one with all keys, newest first; any other user is refused.
fn core_user(users: Vec<User>, report: &mut Report) -> Vec<User> {
    let at = Path::Root.key("passwd");
    let at = at.key("users");
    for (index, user) in users.iter().enumerate().rev().filter(|(_, user)| user.name != "core") {
        let message = format!("unexpected user with name: {}. Only core user is supported", user.name);
        let at = at.index(index);
        report.problem(Problem::new(at.key("name").to_string(), message).allowed("core"));
    }
    let mut newest_first = users.into_iter().rev();
    let Some(mut core) = newest_first.next() else {
        return Vec::new();
    };
    newest_first.for_each(|older| core.ssh_authorized_keys.extend(older.ssh_authorized_keys));
    let mut seen = HashSet::new();
    core.ssh_authorized_keys.retain(|key| seen.insert(key.clone()));
    vec![core]
}

/// Refuses everything that spec 3 or a cluster does not support.
fn refuse(networkd: &[super::types::NetworkdUnit], storage: &Storage, report: &mut Report) {
    if !networkd.is_empty() {
        let message = "config includes deprecated networkd section - use Files instead";
        report.problem(Problem::new("networkd.units", message));
    }
    let at = Path::Root.key("storage");
    let (disks, filesystems) = (at.key("disks"), at.key("filesystems"));
    for (index, _) in storage.disks.iter().enumerate().filter(|(_, disk)| !disk.partitions.is_empty()) {
        let at = disks.index(index);
        let message = "size is deprecated; use sizeMB instead: spec 2 partitions count in sectors, spec 3 in MiB";
        report.problem(Problem::new(at.key("partitions").to_string(), message).allowed("partitions in spec 3"));
    }
    for (index, filesystem) in storage.filesystems.iter().enumerate().filter(|(_, each)| each.name != "root") {
        let at = filesystems.index(index);
        let message = format!("Config defined filesystem {:?} but no mapping was defined", filesystem.name);
        report.problem(Problem::new(at.key("name").to_string(), message).allowed("root"));
    }
    let nodes = (storage.files.iter().map(|file| (&file.filesystem, &file.path)).enumerate())
        .map(|node| ("files", node))
        .chain(
            storage
                .directories
                .iter()
                .map(|each| (&each.filesystem, &each.path))
                .enumerate()
                .map(|node| ("directories", node)),
        )
        .chain(storage.links.iter().map(|link| (&link.filesystem, &link.path)).enumerate().map(|node| ("links", node)));
    for (list, (index, (filesystem, path))) in nodes {
        let list = at.key(list);
        let at = list.index(index);
        if filesystem != "root" {
            let message = format!("filesystem {filesystem:?} of {path:?} is not root: its mount point is unknown");
            report.problem(Problem::new(at.key("filesystem").to_string(), message).allowed("root"));
        }
        if path.split('/').any(|part| part == "..") {
            let problem = Problem::new(at.key("path").to_string(), format!("path is not fully simplified: {path:?}"));
            report.problem(problem.allowed("an absolute path without .."));
        }
    }
}

fn newest_files(files: Vec<File>) -> Vec<File> {
    let mut seen = HashSet::new();
    files.into_iter().rev().filter(|file| seen.insert(file.path.clone())).collect()
}

/// The last entry with a name wins; drop-ins that only earlier entries have are added to it.
fn newest_units(units: Vec<Unit>) -> Vec<Unit> {
    let mut newest: Vec<Unit> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for unit in units.into_iter().rev() {
        match places.get(&unit.name) {
            None => {
                places.insert(unit.name.clone(), newest.len());
                newest.push(unit);
            }
            Some(place) => {
                let known: HashSet<String> = newest[*place].dropins.iter().map(|dropin| dropin.name.clone()).collect();
                let mut seen = known;
                newest[*place]
                    .dropins
                    .extend(unit.dropins.into_iter().filter(|dropin| seen.insert(dropin.name.clone())));
            }
        }
    }
    newest
}

fn storage(storage: Storage) -> v3_5::Storage {
    v3_5::Storage {
        directories: list(storage.directories, |directory| v3_5::Directory {
            group: directory.group.and_then(group),
            mode: directory.mode,
            overwrite: directory.overwrite,
            path: clean(&directory.path),
            user: directory.user.and_then(owner),
        }),
        disks: list(storage.disks, |disk| v3_5::Disk {
            device: disk.device,
            partitions: None,
            wipe_table: truth(disk.wipe_table),
        }),
        files: list(newest_files(storage.files), file),
        filesystems: None,
        links: list(storage.links, |link| v3_5::Link {
            group: link.group.and_then(group),
            hard: truth(link.hard),
            overwrite: link.overwrite,
            path: clean(&link.path),
            target: Some(link.target),
            user: link.user.and_then(owner),
        }),
        luks: None,
        raid: list(storage.raid, |raid| v3_5::Raid {
            devices: Some(raid.devices),
            level: Some(raid.level),
            name: raid.name,
            options: Some(raid.options),
            spares: Some(raid.spares).filter(|spares| *spares != 0),
        }),
    }
}

/// Spec 2 overwrites by default; a file with appended parts must not.
fn file(file: File) -> v3_5::File {
    let contents = v3_5::Resource {
        compression: filled(file.contents.compression),
        http_headers: None,
        source: Some(file.contents.source),
        verification: file.contents.verification,
    };
    let (append, contents) = if file.append { (Some(vec![contents]), None) } else { (None, Some(contents)) };
    v3_5::File {
        overwrite: Some(append.is_none() && file.overwrite.unwrap_or(true)),
        append,
        contents,
        group: file.group.and_then(group),
        mode: file.mode,
        path: clean(&file.path),
        user: file.user.and_then(owner),
    }
}

fn unit(unit: Unit) -> v3_5::Unit {
    let enabled = match unit.enabled {
        Some(false) => Some(false),
        Some(true) => Some(true),
        None => truth(unit.enable),
    };
    v3_5::Unit {
        contents: filled(unit.contents),
        dropins: list(unit.dropins, |dropin: Dropin| v3_5::Dropin {
            contents: filled(dropin.contents),
            name: dropin.name,
        }),
        enabled,
        mask: truth(unit.mask),
        name: unit.name,
    }
}

fn user(user: User) -> v3_5::User {
    v3_5::User {
        gecos: filled(user.gecos),
        groups: list(user.groups, std::convert::identity),
        home_dir: filled(user.home_dir),
        name: user.name,
        no_create_home: truth(user.no_create_home),
        no_log_init: truth(user.no_log_init),
        no_user_group: truth(user.no_user_group),
        password_hash: user.password_hash,
        primary_group: filled(user.primary_group),
        shell: filled(user.shell),
        should_exist: None,
        ssh_authorized_keys: list(user.ssh_authorized_keys, std::convert::identity),
        system: truth(user.system),
        uid: user.uid,
    }
}

fn reference(reference: Reference) -> v3_5::Resource {
    v3_5::Resource {
        compression: None,
        http_headers: None,
        source: Some(reference.source),
        verification: reference.verification,
    }
}

fn owner(owner: Owner) -> Option<v3_5::NodeUser> {
    Some(v3_5::NodeUser { id: owner.id, name: filled(owner.name) })
}

fn group(owner: Owner) -> Option<v3_5::NodeGroup> {
    Some(v3_5::NodeGroup { id: owner.id, name: filled(owner.name) })
}

fn list<T, U>(items: Vec<T>, each: impl FnMut(T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.into_iter().map(each).collect())
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn truth(value: bool) -> Option<bool> {
    value.then_some(true)
}
