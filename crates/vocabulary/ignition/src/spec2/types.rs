//! The types of spec 2.2. Unlike spec 3, most fields cannot distinguish "not set" from `false`, `0` or `""`.

use crate::node::{Node, Optional, record};
pub(crate) use crate::v3_5::{Timeouts, Verification};

macro_rules! spec2 {
    ($($name:ident { $($field:ident: $json:literal: $type:ty),* $(,)? })*) => {
        $(
            #[derive(Debug, Clone, PartialEq)]
            pub(crate) struct $name { $(pub(crate) $field: $type),* }
            record!($name { $($field: $json),* });
            impl Optional for $name { fn is_void(&self) -> bool { self.is_missing() } }
        )*
    };
}

spec2! {
    Config {
        ignition: "ignition": Ignition,
        networkd: "networkd": Networkd,
        passwd: "passwd": Passwd,
        storage: "storage": Storage,
        systemd: "systemd": Systemd,
    }
    Ignition {
        config: "config": References,
        security: "security": Security,
        timeouts: "timeouts": Option<Timeouts>,
        version: "version": String,
    }
    References { append: "append": Vec<Reference>, replace: "replace": Option<Reference> }
    Reference { source: "source": String, verification: "verification": Option<Verification> }
    Security { tls: "tls": Tls }
    Tls { certificate_authorities: "certificateAuthorities": Vec<Reference> }
    Networkd { units: "units": Vec<NetworkdUnit> }
    NetworkdUnit { contents: "contents": String, dropins: "dropins": Vec<Dropin>, name: "name": String }
    Passwd { groups: "groups": Vec<Group>, users: "users": Vec<User> }
    Group {
        gid: "gid": Option<i64>,
        name: "name": String,
        password_hash: "passwordHash": String,
        system: "system": bool,
    }
    User {
        create: "create": Option<UserCreate>,
        gecos: "gecos": String,
        groups: "groups": Vec<String>,
        home_dir: "homeDir": String,
        name: "name": String,
        no_create_home: "noCreateHome": bool,
        no_log_init: "noLogInit": bool,
        no_user_group: "noUserGroup": bool,
        password_hash: "passwordHash": Option<String>,
        primary_group: "primaryGroup": String,
        ssh_authorized_keys: "sshAuthorizedKeys": Vec<String>,
        shell: "shell": String,
        system: "system": bool,
        uid: "uid": Option<i64>,
    }
    UserCreate {
        gecos: "gecos": String,
        groups: "groups": Vec<String>,
        home_dir: "homeDir": String,
        no_create_home: "noCreateHome": bool,
        no_log_init: "noLogInit": bool,
        no_user_group: "noUserGroup": bool,
        primary_group: "primaryGroup": String,
        shell: "shell": String,
        system: "system": bool,
        uid: "uid": Option<i64>,
    }
    Storage {
        directories: "directories": Vec<Directory>,
        disks: "disks": Vec<Disk>,
        files: "files": Vec<File>,
        filesystems: "filesystems": Vec<Filesystem>,
        links: "links": Vec<Link>,
        raid: "raid": Vec<Raid>,
    }
    Owner { id: "id": Option<i64>, name: "name": String }
    Directory {
        filesystem: "filesystem": String,
        group: "group": Option<Owner>,
        mode: "mode": Option<i64>,
        overwrite: "overwrite": Option<bool>,
        path: "path": String,
        user: "user": Option<Owner>,
    }
    File {
        append: "append": bool,
        contents: "contents": Contents,
        filesystem: "filesystem": String,
        group: "group": Option<Owner>,
        mode: "mode": Option<i64>,
        overwrite: "overwrite": Option<bool>,
        path: "path": String,
        user: "user": Option<Owner>,
    }
    Contents {
        compression: "compression": String,
        source: "source": String,
        verification: "verification": Option<Verification>,
    }
    Link {
        filesystem: "filesystem": String,
        group: "group": Option<Owner>,
        hard: "hard": bool,
        overwrite: "overwrite": Option<bool>,
        path: "path": String,
        target: "target": String,
        user: "user": Option<Owner>,
    }
    Disk { device: "device": String, partitions: "partitions": Vec<Partition>, wipe_table: "wipeTable": bool }
    Partition {
        guid: "guid": String,
        label: "label": String,
        number: "number": i64,
        size: "size": i64,
        start: "start": i64,
        type_guid: "typeGuid": String,
    }
    Filesystem { mount: "mount": Option<Mount>, name: "name": String, path: "path": Option<String> }
    Mount {
        create: "create": Option<MountCreate>,
        device: "device": String,
        format: "format": String,
        label: "label": Option<String>,
        options: "options": Vec<String>,
        uuid: "uuid": Option<String>,
        wipe_filesystem: "wipeFilesystem": bool,
    }
    MountCreate { force: "force": bool, options: "options": Vec<String> }
    Raid {
        devices: "devices": Vec<String>,
        level: "level": String,
        name: "name": String,
        options: "options": Vec<String>,
        spares: "spares": i64,
    }
    Systemd { units: "units": Vec<Unit> }
    Unit {
        contents: "contents": String,
        dropins: "dropins": Vec<Dropin>,
        enable: "enable": bool,
        enabled: "enabled": Option<bool>,
        mask: "mask": bool,
        name: "name": String,
    }
    Dropin { contents: "contents": String, name: "name": String }
}
