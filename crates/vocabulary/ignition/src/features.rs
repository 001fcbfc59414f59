//! Fields of the newest spec that older 3.x specs do not have.
//!
//! The table is used in both directions. When an older config is read, such fields are dropped, as Ignition ignores
//! unknown keys. When a config is lowered, they are dropped if they have no effect; otherwise `down` refuses them.

use crate::report::{Problem, Report};
use crate::v3_5::{Config, Resource};
use crate::version::Version;

/// Drops the fields that `version` does not have, with a warning for each.
pub(crate) fn drop_newer(config: &mut Config, version: Version, report: &mut Report) {
    let mut dropped = |path: &str| {
        let message = format!("unused key: spec {version} does not know it");
        report.warning(Problem::new(path, message));
    };
    if version < Version::V3_5 {
        for luks in luks(config) {
            take(&mut luks.cex, "storage.luks[].cex", &mut dropped);
        }
    }
    if version < Version::V3_4 {
        for luks in luks(config) {
            take(&mut luks.discard, "storage.luks[].discard", &mut dropped);
            take(&mut luks.open_options, "storage.luks[].openOptions", &mut dropped);
            for tang in luks.clevis.iter_mut().flat_map(|clevis| clevis.tang.iter_mut().flatten()) {
                take(&mut tang.advertisement, "storage.luks[].clevis.tang[].advertisement", &mut dropped);
            }
        }
    }
    if version < Version::V3_3 {
        take(&mut config.kernel_arguments, "kernelArguments", &mut dropped);
    }
    if version < Version::V3_2 {
        drop_newer_than_3_1(config, &mut dropped);
    }
    if version < Version::V3_1 {
        drop_newer_than_3_0(config, &mut dropped);
    }
}

fn drop_newer_than_3_1(config: &mut Config, dropped: &mut dyn FnMut(&str)) {
    if let Some(storage) = &mut config.storage {
        take(&mut storage.luks, "storage.luks", dropped);
        for partition in storage.disks.iter_mut().flatten().flat_map(|disk| disk.partitions.iter_mut().flatten()) {
            take(&mut partition.resize, "storage.disks[].partitions[].resize", dropped);
        }
    }
    if let Some(passwd) = &mut config.passwd {
        for user in passwd.users.iter_mut().flatten() {
            take(&mut user.should_exist, "passwd.users[].shouldExist", dropped);
        }
        for group in passwd.groups.iter_mut().flatten() {
            take(&mut group.should_exist, "passwd.groups[].shouldExist", dropped);
        }
    }
}

fn drop_newer_than_3_0(config: &mut Config, dropped: &mut dyn FnMut(&str)) {
    let ignition = &mut config.ignition;
    take(&mut ignition.proxy, "ignition.proxy", dropped);
    let mut reference = |resource: &mut Resource, path: &str| {
        take(&mut resource.compression, &format!("{path}.compression"), dropped);
        take(&mut resource.http_headers, &format!("{path}.httpHeaders"), dropped);
    };
    if let Some(references) = &mut ignition.config {
        references.merge.iter_mut().flatten().for_each(|each| reference(each, "ignition.config.merge[]"));
        references.replace.iter_mut().for_each(|each| reference(each, "ignition.config.replace"));
    }
    let tls = ignition.security.iter_mut().flat_map(|security| &mut security.tls);
    tls.flat_map(|tls| tls.certificate_authorities.iter_mut().flatten())
        .for_each(|each| reference(each, "ignition.security.tls.certificateAuthorities[]"));
    let Some(storage) = &mut config.storage else {
        return;
    };
    for file in storage.files.iter_mut().flatten() {
        for resource in file.contents.iter_mut().chain(file.append.iter_mut().flatten()) {
            take(&mut resource.http_headers, "storage.files[].contents.httpHeaders", dropped);
        }
    }
    for filesystem in storage.filesystems.iter_mut().flatten() {
        take(&mut filesystem.mount_options, "storage.filesystems[].mountOptions", dropped);
    }
}

fn take<T>(field: &mut Option<T>, path: &str, dropped: &mut dyn FnMut(&str)) {
    if field.take().is_some() {
        dropped(path);
    }
}

fn luks(config: &mut Config) -> impl Iterator<Item = &mut crate::v3_5::Luks> {
    config.storage.iter_mut().flat_map(|storage| storage.luks.iter_mut().flatten())
}
