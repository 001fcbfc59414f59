//! Merges configs by the parent and child rules of spec 3, for any number of children at linear cost.
//!
//! A child's value wins if it is set. Entries of keyed lists (files by path, units by name, …) are merged at the
//! parent's position, and new ones follow; a link at the path of a parent's file replaces it. Options and appended
//! parts are concatenated. One rule is ours: the contents of a file are merged as a unit. A child with a new source
//! brings its own compression, hash and headers, so that no hash outlives the contents it belongs to, and a child
//! without a source leaves the parent's contents unchanged.

use std::collections::{HashMap, HashSet};

use crate::v3_5::{
    Cex, Clevis, ClevisCustom, Config, Directory, Disk, Dropin, File, Filesystem, Group, HttpHeadersItem, Ignition,
    IgnitionConfig, KernelArguments, Link, Luks, NodeGroup, NodeUser, Partition, Passwd, Proxy, Raid, Resource,
    Security, SecurityTls, Storage, Systemd, Tang, Timeouts, Unit, User,
};

/// Merges two configs. For more than two, [`Merger`] keeps its index between them.
pub fn merge(parent: Config, child: Config) -> Config {
    let mut merger = Merger::new(parent);
    merger.add(child);
    merger.finish()
}

/// A config that children are merged into. Every child must be a valid config by itself.
#[derive(Debug)]
pub struct Merger {
    rest: Config,
    nodes: Nodes,
    units: Keyed<Unit>,
    users: Keyed<User>,
    groups: Keyed<Group>,
    /// SSH keys that each user already has: many fragments may each add one.
    keys: HashMap<String, HashSet<String>>,
}

impl Merger {
    pub fn new(parent: Config) -> Self {
        let mut merger = Self {
            rest: Config::default(),
            nodes: Nodes::default(),
            units: Keyed::default(),
            users: Keyed::default(),
            groups: Keyed::default(),
            keys: HashMap::new(),
        };
        merger.add(parent);
        merger
    }

    pub fn add(&mut self, mut child: Config) {
        if let Some(storage) = &mut child.storage {
            self.nodes.add(storage);
        }
        self.units.add(child.systemd.take().and_then(|systemd| systemd.units), |unit| &unit.name, unit);
        if let Some(mut passwd) = child.passwd.take() {
            for user in passwd.users.iter_mut().flatten() {
                let known = self.keys.entry(user.name.clone()).or_default();
                user.ssh_authorized_keys.iter_mut().for_each(|keys| keys.retain(|key| known.insert(key.clone())));
            }
            self.users.add(passwd.users, |user| &user.name, user);
            self.groups.add(passwd.groups, |group| &group.name, group);
        }
        ignition(&mut self.rest.ignition, child.ignition);
        join(&mut self.rest.kernel_arguments, child.kernel_arguments, kernel_arguments);
        join(&mut self.rest.storage, child.storage, storage);
    }

    pub fn finish(self) -> Config {
        let mut config = self.rest;
        let storage = config.storage.get_or_insert_default();
        (storage.files, storage.directories, storage.links) = self.nodes.finish();
        config.systemd = Some(Systemd { units: self.units.finish() });
        config.passwd = Some(Passwd { users: self.users.finish(), groups: self.groups.finish() });
        config
    }
}

/// A list of keyed entries, with an index from key to position.
#[derive(Debug)]
struct Keyed<T> {
    items: Vec<Option<T>>,
    places: HashMap<String, usize>,
}

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), places: HashMap::new() }
    }
}

impl<T> Keyed<T> {
    fn add(&mut self, items: Option<Vec<T>>, key: impl Fn(&T) -> &String, merge: impl Fn(&mut T, T)) {
        for item in items.into_iter().flatten() {
            self.put(item, &key, &merge);
        }
    }

    fn put(&mut self, item: T, key: impl Fn(&T) -> &String, merge: impl Fn(&mut T, T)) {
        match self.places.get(key(&item)).and_then(|place| self.items[*place].as_mut()) {
            Some(present) => merge(present, item),
            None => {
                self.places.insert(key(&item).clone(), self.items.len());
                self.items.push(Some(item));
            }
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(place) = self.places.remove(key) {
            self.items[place] = None;
        }
    }

    fn finish(self) -> Option<Vec<T>> {
        let items: Vec<T> = self.items.into_iter().flatten().collect();
        (!items.is_empty()).then_some(items)
    }
}

/// Files, directories and links share one namespace of paths: the newest entry at a path replaces the others.
#[derive(Debug, Default)]
struct Nodes {
    files: Keyed<File>,
    directories: Keyed<Directory>,
    links: Keyed<Link>,
}

type Finished = (Option<Vec<File>>, Option<Vec<Directory>>, Option<Vec<Link>>);

impl Nodes {
    fn add(&mut self, storage: &mut Storage) {
        for directory in storage.directories.take().into_iter().flatten() {
            self.files.remove(&directory.path);
            self.links.remove(&directory.path);
            self.directories.put(directory, |directory| &directory.path, merge_directory);
        }
        for file in storage.files.take().into_iter().flatten() {
            self.directories.remove(&file.path);
            self.links.remove(&file.path);
            self.files.put(file, |file| &file.path, merge_file);
        }
        for link in storage.links.take().into_iter().flatten() {
            self.directories.remove(&link.path);
            self.files.remove(&link.path);
            self.links.put(link, |link| &link.path, merge_link);
        }
    }

    fn finish(self) -> Finished {
        (self.files.finish(), self.directories.finish(), self.links.finish())
    }
}

fn ignition(parent: &mut Ignition, child: Ignition) {
    let Ignition { config, proxy, security, timeouts, version } = child;
    parent.version = version;
    join(&mut parent.config, config, |parent: &mut IgnitionConfig, child| {
        join(&mut parent.merge, child.merge, |parent, child| keyed(parent, child, source, resource));
        join(&mut parent.replace, child.replace, resource);
    });
    join(&mut parent.proxy, proxy, |parent: &mut Proxy, child| {
        set(&mut parent.http_proxy, child.http_proxy);
        set(&mut parent.https_proxy, child.https_proxy);
        join(&mut parent.no_proxy, child.no_proxy, union);
    });
    join(&mut parent.security, security, |parent: &mut Security, child| {
        join(&mut parent.tls, child.tls, |parent: &mut SecurityTls, child| {
            join(&mut parent.certificate_authorities, child.certificate_authorities, |parent, child| {
                keyed(parent, child, source, resource);
            });
        });
    });
    join(&mut parent.timeouts, timeouts, |parent: &mut Timeouts, child| {
        set(&mut parent.http_response_headers, child.http_response_headers);
        set(&mut parent.http_total, child.http_total);
    });
}

/// The two lists share their keys: an argument that must exist cannot also be one that must not.
fn kernel_arguments(parent: &mut KernelArguments, child: KernelArguments) {
    let (wanted, unwanted) = (child.should_exist.unwrap_or_default(), child.should_not_exist.unwrap_or_default());
    let exist = parent.should_exist.get_or_insert_default();
    exist.retain(|argument| !unwanted.contains(argument));
    union(exist, wanted.clone());
    let not_exist = parent.should_not_exist.get_or_insert_default();
    not_exist.retain(|argument| !wanted.contains(argument));
    union(not_exist, unwanted);
}

fn user(parent: &mut User, child: User) {
    set(&mut parent.gecos, child.gecos);
    join(&mut parent.groups, child.groups, union);
    set(&mut parent.home_dir, child.home_dir);
    set(&mut parent.no_create_home, child.no_create_home);
    set(&mut parent.no_log_init, child.no_log_init);
    set(&mut parent.no_user_group, child.no_user_group);
    set(&mut parent.password_hash, child.password_hash);
    set(&mut parent.primary_group, child.primary_group);
    set(&mut parent.shell, child.shell);
    set(&mut parent.should_exist, child.should_exist);
    // Only keys that the user does not have yet are left here.
    join(&mut parent.ssh_authorized_keys, child.ssh_authorized_keys, append);
    set(&mut parent.system, child.system);
    set(&mut parent.uid, child.uid);
}

fn group(parent: &mut Group, child: Group) {
    set(&mut parent.gid, child.gid);
    set(&mut parent.password_hash, child.password_hash);
    set(&mut parent.should_exist, child.should_exist);
    set(&mut parent.system, child.system);
}

fn unit(parent: &mut Unit, child: Unit) {
    set(&mut parent.contents, child.contents);
    set(&mut parent.enabled, child.enabled);
    set(&mut parent.mask, child.mask);
    join(&mut parent.dropins, child.dropins, |parent, child| {
        keyed(
            parent,
            child,
            |dropin: &Dropin| dropin.name.clone(),
            |parent, child| set(&mut parent.contents, child.contents),
        );
    });
}

fn storage(parent: &mut Storage, child: Storage) {
    join(&mut parent.disks, child.disks, |parent, child| {
        keyed(parent, child, |disk: &Disk| disk.device.clone(), merge_disk);
    });
    join(&mut parent.filesystems, child.filesystems, |parent, child| {
        keyed(parent, child, |filesystem: &Filesystem| filesystem.device.clone(), merge_filesystem);
    });
    join(&mut parent.luks, child.luks, |parent, child| {
        keyed(parent, child, |luks: &Luks| luks.name.clone(), merge_luks)
    });
    join(&mut parent.raid, child.raid, |parent, child| {
        keyed(parent, child, |raid: &Raid| raid.name.clone(), merge_raid)
    });
}

fn merge_directory(parent: &mut Directory, child: Directory) {
    join(&mut parent.user, child.user, node_user);
    join(&mut parent.group, child.group, node_group);
    set(&mut parent.mode, child.mode);
    set(&mut parent.overwrite, child.overwrite);
}

fn merge_file(parent: &mut File, child: File) {
    join(&mut parent.user, child.user, node_user);
    join(&mut parent.group, child.group, node_group);
    set(&mut parent.mode, child.mode);
    set(&mut parent.overwrite, child.overwrite);
    join(&mut parent.append, child.append, append);
    match child.contents {
        Some(contents) if contents.source.is_some() => parent.contents = Some(contents),
        contents if parent.contents.is_none() => parent.contents = contents,
        _ => {}
    }
}

fn merge_link(parent: &mut Link, child: Link) {
    join(&mut parent.user, child.user, node_user);
    join(&mut parent.group, child.group, node_group);
    set(&mut parent.hard, child.hard);
    set(&mut parent.overwrite, child.overwrite);
    set(&mut parent.target, child.target);
}

/// An owner is given by id or by name, never both: the child's form replaces the parent's.
fn node_user(parent: &mut NodeUser, child: NodeUser) {
    if child.id.is_some() || child.name.is_some() {
        *parent = child;
    }
}

fn node_group(parent: &mut NodeGroup, child: NodeGroup) {
    if child.id.is_some() || child.name.is_some() {
        *parent = child;
    }
}

fn merge_disk(parent: &mut Disk, child: Disk) {
    set(&mut parent.wipe_table, child.wipe_table);
    join(&mut parent.partitions, child.partitions, |parent, child| {
        keyed(parent, child, partition_key, merge_partition)
    });
}

fn partition_key(partition: &Partition) -> String {
    match (partition.number.unwrap_or_default(), &partition.label) {
        (0, Some(label)) => format!("label:{label}"),
        (0, None) => String::new(),
        (number, _) => format!("number:{number}"),
    }
}

fn merge_partition(parent: &mut Partition, child: Partition) {
    parent.number = child.number;
    set(&mut parent.guid, child.guid);
    set(&mut parent.label, child.label);
    set(&mut parent.resize, child.resize);
    set(&mut parent.should_exist, child.should_exist);
    set(&mut parent.size_mib, child.size_mib);
    set(&mut parent.start_mib, child.start_mib);
    set(&mut parent.type_guid, child.type_guid);
    set(&mut parent.wipe_partition_entry, child.wipe_partition_entry);
}

fn merge_filesystem(parent: &mut Filesystem, child: Filesystem) {
    set(&mut parent.format, child.format);
    set(&mut parent.label, child.label);
    join(&mut parent.mount_options, child.mount_options, append);
    join(&mut parent.options, child.options, append);
    set(&mut parent.path, child.path);
    set(&mut parent.uuid, child.uuid);
    set(&mut parent.wipe_filesystem, child.wipe_filesystem);
}

fn merge_raid(parent: &mut Raid, child: Raid) {
    join(&mut parent.devices, child.devices, union);
    set(&mut parent.level, child.level);
    join(&mut parent.options, child.options, append);
    set(&mut parent.spares, child.spares);
}

fn merge_luks(parent: &mut Luks, child: Luks) {
    join(&mut parent.cex, child.cex, |parent: &mut Cex, child| set(&mut parent.enabled, child.enabled));
    join(&mut parent.clevis, child.clevis, merge_clevis);
    set(&mut parent.device, child.device);
    set(&mut parent.discard, child.discard);
    join(&mut parent.key_file, child.key_file, resource);
    set(&mut parent.label, child.label);
    join(&mut parent.open_options, child.open_options, union);
    join(&mut parent.options, child.options, append);
    set(&mut parent.uuid, child.uuid);
    set(&mut parent.wipe_volume, child.wipe_volume);
}

fn merge_clevis(parent: &mut Clevis, child: Clevis) {
    join(&mut parent.custom, child.custom, |parent: &mut ClevisCustom, child| {
        set(&mut parent.config, child.config);
        set(&mut parent.needs_network, child.needs_network);
        set(&mut parent.pin, child.pin);
    });
    join(&mut parent.tang, child.tang, |parent, child| {
        keyed(
            parent,
            child,
            |tang: &Tang| tang.url.clone().unwrap_or_default(),
            |parent, child| {
                set(&mut parent.advertisement, child.advertisement);
                set(&mut parent.thumbprint, child.thumbprint);
            },
        );
    });
    set(&mut parent.threshold, child.threshold);
    set(&mut parent.tpm2, child.tpm2);
}

fn source(resource: &Resource) -> String {
    resource.source.clone().unwrap_or_default()
}

fn resource(parent: &mut Resource, child: Resource) {
    set(&mut parent.compression, child.compression);
    set(&mut parent.source, child.source);
    join(&mut parent.verification, child.verification, |parent, child| set(&mut parent.hash, child.hash));
    // A header without a value removes the parent's header.
    join(&mut parent.http_headers, child.http_headers, |parent: &mut Vec<HttpHeadersItem>, mut child| {
        child.retain(|new| {
            let before = parent.len();
            parent.retain(|header| new.value.is_some() || header.name != new.name);
            parent.len() == before
        });
        keyed(
            parent,
            child,
            |header: &HttpHeadersItem| header.name.clone(),
            |parent, child| set(&mut parent.value, child.value),
        );
    });
}

fn set<T>(parent: &mut Option<T>, child: Option<T>) {
    if child.is_some() {
        *parent = child;
    }
}

fn join<T>(parent: &mut Option<T>, child: Option<T>, merge: impl FnOnce(&mut T, T)) {
    match (parent, child) {
        (_, None) => {}
        (Some(parent), Some(child)) => merge(parent, child),
        (parent, child) => *parent = child,
    }
}

fn append<T>(parent: &mut Vec<T>, child: Vec<T>) {
    parent.extend(child);
}

fn union(parent: &mut Vec<String>, child: Vec<String>) {
    if child.len() < 8 && parent.len() < 64 {
        for item in child {
            if !parent.contains(&item) {
                parent.push(item);
            }
        }
        return;
    }
    keyed(parent, child, String::clone, |parent, child| *parent = child);
}

/// Merges two lists by key: common entries at the parent's position, new ones at the end.
fn keyed<T>(parent: &mut Vec<T>, child: Vec<T>, key: impl Fn(&T) -> String, merge: impl Fn(&mut T, T)) {
    let places: HashMap<String, usize> = parent.iter().enumerate().map(|(place, item)| (key(item), place)).collect();
    for item in child {
        match places.get(&key(&item)) {
            Some(place) => merge(&mut parent[*place], item),
            None => parent.push(item),
        }
    }
}
