//! The JSON names of all fields of spec 3.5, the spec that all configs are lifted to.

use ignition_config::v3_5::{
    Cex, Clevis, ClevisCustom, Config, Directory, Disk, Dropin, File, Filesystem, Group, HttpHeadersItem, Ignition,
    IgnitionConfig, KernelArguments, Link, Luks, NodeGroup, NodeUser, Partition, Passwd, Proxy, Raid, Resource,
    Security, SecurityTls, Storage, Systemd, Tang, Timeouts, Unit, User, Verification,
};

use crate::node::{Node, Optional, record};

macro_rules! optional_record {
    ($($type:ty),*) => { $(impl Optional for $type { fn is_void(&self) -> bool { self.is_missing() } })* };
}

record!(Config {
    ignition: "ignition",
    kernel_arguments: "kernelArguments",
    passwd: "passwd",
    storage: "storage",
    systemd: "systemd",
});
record!(Ignition { config: "config", proxy: "proxy", security: "security", timeouts: "timeouts", version: "version" });
record!(IgnitionConfig { merge: "merge", replace: "replace" });
record!(Proxy { http_proxy: "httpProxy", https_proxy: "httpsProxy", no_proxy: "noProxy" });
record!(Security { tls: "tls" });
record!(SecurityTls { certificate_authorities: "certificateAuthorities" });
record!(Timeouts { http_response_headers: "httpResponseHeaders", http_total: "httpTotal" });
record!(KernelArguments { should_exist: "shouldExist", should_not_exist: "shouldNotExist" });
record!(Passwd { groups: "groups", users: "users" });
record!(Group {
    gid: "gid",
    name: "name",
    password_hash: "passwordHash",
    should_exist: "shouldExist",
    system: "system",
});
record!(User {
    gecos: "gecos",
    groups: "groups",
    home_dir: "homeDir",
    name: "name",
    no_create_home: "noCreateHome",
    no_log_init: "noLogInit",
    no_user_group: "noUserGroup",
    password_hash: "passwordHash",
    primary_group: "primaryGroup",
    shell: "shell",
    should_exist: "shouldExist",
    ssh_authorized_keys: "sshAuthorizedKeys",
    system: "system",
    uid: "uid",
});
record!(Resource {
    compression: "compression",
    http_headers: "httpHeaders",
    source: "source",
    verification: "verification",
});
record!(Verification { hash: "hash" });
record!(HttpHeadersItem { name: "name", value: "value" });
record!(Storage {
    directories: "directories",
    disks: "disks",
    files: "files",
    filesystems: "filesystems",
    links: "links",
    luks: "luks",
    raid: "raid",
});
record!(Directory { group: "group", mode: "mode", overwrite: "overwrite", path: "path", user: "user" });
record!(File {
    append: "append",
    contents: "contents",
    group: "group",
    mode: "mode",
    overwrite: "overwrite",
    path: "path",
    user: "user",
});
record!(Link { group: "group", hard: "hard", overwrite: "overwrite", path: "path", target: "target", user: "user" });
record!(NodeUser { id: "id", name: "name" });
record!(NodeGroup { id: "id", name: "name" });
record!(Disk { device: "device", partitions: "partitions", wipe_table: "wipeTable" });
record!(Partition {
    guid: "guid",
    label: "label",
    number: "number",
    resize: "resize",
    should_exist: "shouldExist",
    size_mib: "sizeMiB",
    start_mib: "startMiB",
    type_guid: "typeGuid",
    wipe_partition_entry: "wipePartitionEntry",
});
record!(Filesystem {
    device: "device",
    format: "format",
    label: "label",
    mount_options: "mountOptions",
    options: "options",
    path: "path",
    uuid: "uuid",
    wipe_filesystem: "wipeFilesystem",
});
record!(Raid { devices: "devices", level: "level", name: "name", options: "options", spares: "spares" });
record!(Luks {
    cex: "cex",
    clevis: "clevis",
    device: "device",
    discard: "discard",
    key_file: "keyFile",
    label: "label",
    name: "name",
    open_options: "openOptions",
    options: "options",
    uuid: "uuid",
    wipe_volume: "wipeVolume",
});
record!(Cex { enabled: "enabled" });
record!(Clevis { custom: "custom", tang: "tang", threshold: "threshold", tpm2: "tpm2" });
record!(ClevisCustom { config: "config", needs_network: "needsNetwork", pin: "pin" });
record!(Tang { advertisement: "advertisement", thumbprint: "thumbprint", url: "url" });
record!(Systemd { units: "units" });
record!(Unit { contents: "contents", dropins: "dropins", enabled: "enabled", mask: "mask", name: "name" });
record!(Dropin { contents: "contents", name: "name" });

optional_record!(
    IgnitionConfig,
    Proxy,
    Security,
    SecurityTls,
    Timeouts,
    KernelArguments,
    Passwd,
    Resource,
    Verification,
    Storage,
    NodeUser,
    NodeGroup,
    Cex,
    Clevis,
    ClevisCustom,
    Systemd
);
