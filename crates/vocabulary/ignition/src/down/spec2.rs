//! The last conversion step: spec 3 to spec 2.2.

use serde_json::Value;

use crate::node::Node as _;
use crate::report::{Error, Problem, Report};
use crate::spec2::check;
use crate::spec2::types::{
    Config, Contents, Directory, Disk, Dropin, File, Filesystem, Group, Ignition, Link, Mount, Networkd, Owner,
    Partition, Passwd, Raid, Reference, References, Security, Storage, Systemd, Tls, Unit, User,
};
use crate::v3_5;

pub(super) fn lower(config: v3_5::Config) -> Result<Value, Error> {
    let mut report = Report::default();
    let lowered = convert(config);
    check(&lowered, &mut report);
    report.into_result()?;
    Ok(lowered.write())
}

/// Reports everything that spec 3.2 can express and spec 2.2 cannot.
pub(super) fn refuse(config: &v3_5::Config, report: &mut Report) {
    let mut no =
        |path: String, message: &str| report.problem(Problem::new(path, format!("{message} not supported on 2.2")));
    let ignition = &config.ignition;
    let mut reference = |resource: &v3_5::Resource, path: String, name: &str| {
        if resource.compression.is_some() {
            no(format!("{path}.compression"), &format!("Compression in Ignition.{name} is"));
        }
        if resource.http_headers.is_some() {
            no(format!("{path}.httpHeaders"), &format!("HTTPHeaders in Ignition.{name} are"));
        }
    };
    if let Some(references) = &ignition.config {
        for (index, each) in references.merge.iter().flatten().enumerate() {
            reference(each, format!("ignition.config.merge[{index}]"), "Config.Merge");
        }
        references.replace.iter().for_each(|each| reference(each, "ignition.config.replace".into(), "Config.Replace"));
    }
    let tls = ignition.security.iter().flat_map(|security| &security.tls);
    for (index, each) in tls.flat_map(|tls| tls.certificate_authorities.iter().flatten()).enumerate() {
        let path = format!("ignition.security.tls.certificateAuthorities[{index}]");
        reference(each, path, "Security.TLS.CertificateAuthorities");
    }
    if ignition.proxy.as_ref().is_some_and(|proxy| !proxy.is_missing()) {
        no("ignition.proxy".into(), "HTTP proxies in Ignition.Proxy are");
    }
    let Some(storage) = &config.storage else {
        return;
    };
    for (disk, each) in storage.disks.iter().flatten().enumerate() {
        for (index, partition) in each.partitions.iter().flatten().enumerate() {
            let path = |field: &str| format!("storage.disks[{disk}].partitions[{index}].{field}");
            if partition.size_mib.is_some() || partition.start_mib.is_some() {
                no(path("sizeMiB"), "SizeMiB and StartMiB in Storage.Disks.Partitions is");
            }
            if partition.should_exist == Some(false) {
                no(path("shouldExist"), "ShouldExist in Storage.Disks.Partitions is");
            }
            if partition.wipe_partition_entry == Some(true) {
                no(path("wipePartitionEntry"), "WipePartitionEntry in Storage.Disks.Partitions is");
            }
        }
    }
    for (index, _) in storage.filesystems.iter().flatten().enumerate().filter(|(_, each)| each.mount_options.is_some())
    {
        no(format!("storage.filesystems[{index}].mountOptions"), "MountOptions in Storage.Filesystems is");
    }
    for (index, file) in storage.files.iter().flatten().enumerate() {
        refuse_file(file, index, &mut no);
    }
}

fn refuse_file(file: &v3_5::File, index: usize, no: &mut dyn FnMut(String, &str)) {
    let headers = |resource: &v3_5::Resource| resource.http_headers.is_some();
    if file.contents.as_ref().is_some_and(headers) {
        no(format!("storage.files[{index}].contents.httpHeaders"), "HTTPHeaders in Storage.Files.Contents are");
    }
    if file.append.iter().flatten().any(headers) {
        no(format!("storage.files[{index}].append.httpHeaders"), "HTTPHeaders in Storage.Files.Append.* are");
    }
    let has_source = file.contents.as_ref().is_some_and(|contents| contents.source.is_some());
    if !has_source && file.append.as_ref().is_none_or(Vec::is_empty) {
        no(format!("storage.files[{index}]"), &format!("the file {:?} without contents is", file.path));
    }
}

fn convert(config: v3_5::Config) -> Config {
    let references = config.ignition.config.unwrap_or_default();
    let authorities =
        config.ignition.security.and_then(|security| security.tls).and_then(|tls| tls.certificate_authorities);
    let passwd = config.passwd.unwrap_or_default();
    Config {
        ignition: Ignition {
            config: References {
                append: list(references.merge, reference),
                replace: references.replace.filter(|replace| replace.source.is_some()).map(reference),
            },
            security: Security { tls: Tls { certificate_authorities: list(authorities, reference) } },
            timeouts: config.ignition.timeouts,
            version: config.ignition.version,
        },
        networkd: Networkd { units: Vec::new() },
        passwd: Passwd { groups: list(passwd.groups, group), users: list(passwd.users, user) },
        storage: storage(config.storage.unwrap_or_default()),
        systemd: Systemd { units: list(config.systemd.and_then(|systemd| systemd.units), unit) },
    }
}

fn storage(storage: v3_5::Storage) -> Storage {
    let mounts: Vec<String> =
        storage.filesystems.iter().flatten().filter_map(|filesystem| filesystem.path.clone()).collect();
    Storage {
        directories: list(storage.directories, |directory| {
            let (filesystem, path) = place(&mounts, directory.path);
            Directory {
                filesystem,
                group: directory.group.and_then(|group| owner(group.id, group.name)),
                mode: directory.mode,
                overwrite: directory.overwrite,
                path,
                user: directory.user.and_then(|user| owner(user.id, user.name)),
            }
        }),
        disks: list(storage.disks, disk),
        files: storage.files.into_iter().flatten().flat_map(|file| files(&mounts, file)).collect(),
        filesystems: filesystems(storage.filesystems.unwrap_or_default()),
        links: list(storage.links, |link| {
            let (filesystem, path) = place(&mounts, link.path);
            Link {
                filesystem,
                group: link.group.and_then(|group| owner(group.id, group.name)),
                hard: link.hard.unwrap_or_default(),
                overwrite: link.overwrite,
                path,
                target: link.target.unwrap_or_default(),
                user: link.user.and_then(|user| owner(user.id, user.name)),
            }
        }),
        raid: list(storage.raid, |raid| Raid {
            devices: raid.devices.unwrap_or_default(),
            level: raid.level.unwrap_or_default(),
            name: raid.name,
            options: raid.options.unwrap_or_default(),
            spares: raid.spares.unwrap_or_default(),
        }),
    }
}

/// Returns the filesystem that contains a path (named by its mount point) and the path inside it.
fn place(mounts: &[String], path: String) -> (String, String) {
    let inside = |mount: &&String| match path.strip_prefix(mount.as_str()) {
        Some(rest) => mount.as_str() == "/" || rest.is_empty() || rest.starts_with('/'),
        None => false,
    };
    match mounts.iter().filter(inside).max_by_key(|mount| mount.len()) {
        Some(mount) if mount == "/" => (mount.clone(), path),
        Some(mount) => {
            let rest = &path[mount.len()..];
            (mount.clone(), if rest.is_empty() { "/".to_owned() } else { rest.to_owned() })
        }
        None => ("root".to_owned(), path),
    }
}

/// A file becomes one entry for its contents and one for each appended part.
fn files(mounts: &[String], file: v3_5::File) -> Vec<File> {
    let (filesystem, path) = place(mounts, file.path);
    let entry = File {
        append: false,
        contents: Contents { compression: String::new(), source: String::new(), verification: None },
        filesystem,
        group: file.group.and_then(|group| owner(group.id, group.name)),
        mode: file.mode,
        overwrite: Some(file.overwrite.unwrap_or_default()),
        path,
        user: file.user.and_then(|user| owner(user.id, user.name)),
    };
    let contents = file.contents.filter(|contents| contents.source.is_some());
    let whole = contents.map(|resource| File { contents: inline(resource), ..entry.clone() });
    let parts = file.append.into_iter().flatten().map(|resource| File {
        append: true,
        overwrite: Some(false),
        contents: inline(resource),
        ..entry.clone()
    });
    whole.into_iter().chain(parts).collect()
}

fn inline(resource: v3_5::Resource) -> Contents {
    Contents {
        compression: resource.compression.unwrap_or_default(),
        source: resource.source.unwrap_or_default(),
        verification: resource.verification,
    }
}

/// Spec 2 names filesystems: by mount point, or by a number if they have none.
fn filesystems(filesystems: Vec<v3_5::Filesystem>) -> Vec<Filesystem> {
    let mut unnamed = 0;
    let mut name = |path: Option<String>| {
        path.unwrap_or_else(|| {
            unnamed += 1;
            unnamed.to_string()
        })
    };
    let convert = |filesystem: v3_5::Filesystem| Filesystem {
        name: name(filesystem.path),
        path: None,
        mount: Some(Mount {
            create: None,
            device: filesystem.device,
            format: filesystem.format.unwrap_or_default(),
            label: filesystem.label,
            options: filesystem.options.unwrap_or_default(),
            uuid: filesystem.uuid,
            wipe_filesystem: filesystem.wipe_filesystem.unwrap_or_default(),
        }),
    };
    filesystems.into_iter().map(convert).collect()
}

fn disk(disk: v3_5::Disk) -> Disk {
    Disk {
        device: disk.device,
        wipe_table: disk.wipe_table.unwrap_or_default(),
        partitions: list(disk.partitions, |partition| Partition {
            guid: partition.guid.unwrap_or_default(),
            label: partition.label.unwrap_or_default(),
            number: partition.number.unwrap_or_default(),
            size: 0,
            start: 0,
            type_guid: partition.type_guid.unwrap_or_default(),
        }),
    }
}

fn unit(unit: v3_5::Unit) -> Unit {
    Unit {
        contents: unit.contents.unwrap_or_default(),
        dropins: list(unit.dropins, |dropin| Dropin {
            contents: dropin.contents.unwrap_or_default(),
            name: dropin.name,
        }),
        enable: false,
        enabled: unit.enabled,
        mask: unit.mask.unwrap_or_default(),
        name: unit.name,
    }
}

fn user(user: v3_5::User) -> User {
    User {
        create: None,
        gecos: user.gecos.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        home_dir: user.home_dir.unwrap_or_default(),
        name: user.name,
        no_create_home: user.no_create_home.unwrap_or_default(),
        no_log_init: user.no_log_init.unwrap_or_default(),
        no_user_group: user.no_user_group.unwrap_or_default(),
        password_hash: user.password_hash,
        primary_group: user.primary_group.unwrap_or_default(),
        ssh_authorized_keys: user.ssh_authorized_keys.unwrap_or_default(),
        shell: user.shell.unwrap_or_default(),
        system: user.system.unwrap_or_default(),
        uid: user.uid,
    }
}

fn group(group: v3_5::Group) -> Group {
    Group {
        gid: group.gid,
        name: group.name,
        password_hash: group.password_hash.unwrap_or_default(),
        system: group.system.unwrap_or_default(),
    }
}

fn reference(resource: v3_5::Resource) -> Reference {
    Reference { source: resource.source.unwrap_or_default(), verification: resource.verification }
}

fn owner(id: Option<i64>, name: Option<String>) -> Option<Owner> {
    (id.is_some() || name.is_some()).then(|| Owner { id, name: name.unwrap_or_default() })
}

fn list<T, U>(items: Option<Vec<T>>, each: impl FnMut(T) -> U) -> Vec<U> {
    items.into_iter().flatten().map(each).collect()
}
