//! What one rendered config asks of a node, read once: entries by name, defaults filled in, contents decoded on demand.
//!
//! Two entries are equal here when a node could not tell them apart: the same bytes written in another encoding, a
//! mode that is the default anyway, or another order of drop-ins make no difference. Nothing is judged here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::{Arc, OnceLock};

use api::machineconfiguration::MachineConfig;
use ignition::{GzipChecker, Resource, v3_5};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::target::Owner;

/// A rendered config, indexed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    pub files: BTreeMap<String, File>,
    pub directories: BTreeMap<String, Directory>,
    pub links: BTreeMap<String, Link>,
    pub units: BTreeMap<String, Unit>,
    pub users: BTreeMap<String, User>,
    pub kernel_arguments: Vec<String>,
    pub kernel_type: KernelType,
    pub extensions: Vec<String>,
    pub fips: bool,
    /// Empty where the config leaves the OS alone.
    pub os_image: String,
    pub extensions_image: String,
    /// What only a machine's first boot acts on, as JSON without empty parts; absent sections say nothing.
    pub first_boot: BTreeMap<Section, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub contents: Contents,
    /// Permission bits, with the default where the config gives none.
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
    /// What the entry adds to what another writer put there, which a running node refuses.
    pub append: Vec<Contents>,
}

impl File {
    #[must_use]
    pub fn appends(&self) -> bool {
        !self.append.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub target: String,
    pub hard: bool,
    pub user: Owner,
    pub group: Owner,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Empty when the config only enables, masks or extends somebody else's unit.
    pub contents: String,
    pub enabled: Option<bool>,
    pub mask: Option<bool>,
    pub dropins: BTreeMap<String, String>,
}

/// A login. Its secrets stay out of debug output.
#[derive(Clone, Default, PartialEq)]
pub struct User {
    pub keys: Vec<String>,
    pub password_hash: Option<String>,
    /// Every other field the config sets, which only creating the user can honour.
    pub other: BTreeMap<String, Value>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = self.other.keys().collect();
        let password = self.password_hash.is_some();
        write!(f, "User({} keys, password {password}, {fields:?})", self.keys.len())
    }
}

/// The kernel a node boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum KernelType {
    #[default]
    Default,
    Realtime,
    Pages64k,
    /// A name no release of the API knows.
    Unknown(String),
}

impl KernelType {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            KernelType::Default => "default",
            KernelType::Realtime => "realtime",
            KernelType::Pages64k => "64k-pages",
            KernelType::Unknown(name) => name,
        }
    }

    pub(crate) fn read(name: Option<&str>) -> Self {
        match name.unwrap_or_default() {
            "" | "default" => KernelType::Default,
            "realtime" => KernelType::Realtime,
            "64k-pages" => KernelType::Pages64k,
            other => KernelType::Unknown(other.to_owned()),
        }
    }
}

impl From<KernelType> for String {
    fn from(kernel: KernelType) -> Self {
        kernel.as_str().to_owned()
    }
}

/// A part of an Ignition config that only a machine's first boot acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    Groups,
    KernelArguments,
    Disks,
    Filesystems,
    Raid,
    Luks,
    /// Ignition's own settings: proxy, timeouts, certificate authorities, configs to merge.
    Ignition,
}

impl Section {
    pub const ALL: [Section; 7] = [
        Section::Groups,
        Section::KernelArguments,
        Section::Disks,
        Section::Filesystems,
        Section::Raid,
        Section::Luks,
        Section::Ignition,
    ];

    /// The words by which refusals have always named the section.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Section::Groups => "Passwd Groups",
            Section::KernelArguments => "kargs",
            Section::Disks => "disks",
            Section::Filesystems => "filesystems",
            Section::Raid => "raid",
            Section::Luks => "luks",
            Section::Ignition => "ignition",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The contents of a file, decoded only when somebody asks. Equal means equal bytes.
///
/// Plain contents are decoded once and kept. Compressed ones are unpacked anew for whoever reads them and never held whole:
/// a few kilobytes of a config can unpack to more than a small node has.
#[derive(Clone)]
pub struct Contents {
    resource: Arc<Resource>,
    plain: OnceLock<Result<Arc<[u8]>, Undecodable>>,
    length: OnceLock<Result<usize, Undecodable>>,
}

/// Why contents cannot be decoded: they are not inline, badly encoded, or unpack to more than a config may hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Undecodable(Arc<str>);

impl From<ignition::DecodeError> for Undecodable {
    fn from(error: ignition::DecodeError) -> Self {
        Undecodable(error.to_string().into())
    }
}

impl Contents {
    fn new(resource: Resource) -> Self {
        Contents { resource: Arc::new(resource), plain: OnceLock::new(), length: OnceLock::new() }
    }

    /// Contents that are carried plainly.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::new(Resource { source: Some(ignition::data_url::encode(bytes)), ..Resource::default() })
    }

    /// The bytes a node would write, all at once.
    ///
    /// # Errors
    /// When the contents are not inline, are badly encoded, or unpack to more than a config may hold.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, Undecodable> {
        if self.is_compressed() {
            return Ok(Cow::Owned(ignition::decode(&self.resource)?));
        }
        let decode = || Ok(ignition::decode(&self.resource)?.into());
        self.plain.get_or_init(decode).as_deref().map(Cow::Borrowed).map_err(Clone::clone)
    }

    /// The bytes a node would write, piece by piece.
    ///
    /// # Errors
    /// As [`Contents::bytes`].
    pub fn open(&self) -> Result<Box<dyn Read + '_>, Undecodable> {
        if self.is_compressed() {
            self.length()?;
            return Ok(ignition::open(&self.resource)?);
        }
        match self.bytes()? {
            Cow::Borrowed(bytes) => Ok(Box::new(bytes)),
            Cow::Owned(bytes) => Ok(Box::new(Cursor::new(bytes))),
        }
    }

    /// How many bytes [`Contents::bytes`] would give, without holding them.
    ///
    /// # Errors
    /// As [`Contents::bytes`].
    pub fn length(&self) -> Result<usize, Undecodable> {
        let measure = || match self.is_compressed() {
            true => Ok(GzipChecker::default().check(&self.resource, ignition::DECODED_LIMIT)?),
            false => Ok(self.bytes()?.len()),
        };
        self.length.get_or_init(measure).clone()
    }

    /// Whether the contents have the hash that the config gives for them; also where it gives none.
    #[must_use]
    pub fn hash_matches(&self) -> bool {
        let has_hash = self.resource.verification.as_ref().is_some_and(|verification| verification.hash.is_some());
        !has_hash || self.open().is_ok_and(|bytes| ignition::hash_matches(&self.resource, bytes) != Some(false))
    }

    /// Whether reading them means unpacking them.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        let has_source = self.resource.source.as_deref().is_some_and(|source| !source.is_empty());
        has_source && ignition::is_inline(&self.resource) && self.resource.compression.as_deref() == Some("gzip")
    }

    /// What the config says of them: source, compression and hash.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Whether [`Contents::bytes`] would give them, without decoding more than that takes.
    ///
    /// # Errors
    /// As [`Contents::bytes`].
    pub fn check(&self) -> Result<(), Undecodable> {
        match ignition::plain_len(&self.resource) {
            Some(length) if length <= ignition::DECODED_LIMIT => Ok(()),
            _ => self.length().map(|_| ()),
        }
    }

    /// Where the contents come from, as the config writes it.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.resource.source.as_deref()
    }
}

impl PartialEq for Contents {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.resource, &other.resource);
        // Most files are written the same way on both sides: nothing has to be decoded for them.
        if one.source == two.source && one.compression == two.compression {
            return true;
        }
        // And most that changed have another length, which is far quicker to tell than the bytes.
        if let (Some(one), Some(two)) = (ignition::plain_len(one), ignition::plain_len(two))
            && one != two
        {
            return false;
        }
        if !self.is_compressed() && !other.is_compressed() {
            return matches!((self.bytes(), other.bytes()), (Ok(one), Ok(two)) if one == two);
        }
        match (self.open(), other.open()) {
            (Ok(one), Ok(two)) => same(one, two).unwrap_or(false),
            _ => false,
        }
    }
}

impl Eq for Contents {}

// Contents may be secret, so debug output tells their size only.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length() {
            Ok(length) => write!(f, "Contents({length} bytes)"),
            Err(error) => write!(f, "Contents({error})"),
        }
    }
}

/// Whether two readers give the same bytes. Neither is held whole, and reading stops at the first difference.
///
/// # Errors
/// When one of them cannot be read.
pub fn same(one: impl Read, two: impl Read) -> std::io::Result<bool> {
    const WINDOW: usize = 16 << 10;
    let (mut one, mut two) = (BufReader::with_capacity(WINDOW, one), BufReader::with_capacity(WINDOW, two));
    loop {
        let (left, right) = (one.fill_buf()?, two.fill_buf()?);
        let count = left.len().min(right.len());
        if count == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left[..count] != right[..count] {
            return Ok(false);
        }
        one.consume(count);
        two.consume(count);
    }
}

/// Why a config cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("parsing {side} Ignition config from machineconfig {name:?} failed")]
pub struct Error {
    /// `old` or `new` where two are compared.
    pub side: &'static str,
    pub name: String,
    #[source]
    pub source: ignition::Error,
}

impl Content {
    /// Reads a config of any spec version. A config without an Ignition part is one that changes only settings.
    ///
    /// # Errors
    /// When its Ignition part is of an unknown version or not valid.
    pub fn read(config: &MachineConfig) -> Result<Self, ignition::Error> {
        let spec = &config.spec;
        let ignition = match &spec.config {
            Some(value) if value.as_object().is_none_or(|object| !object.is_empty()) => Some(ignition::parse(value)?),
            _ => None,
        };
        let mut content = ignition.map(Content::of_ignition).unwrap_or_default();
        content.kernel_arguments.clone_from(&spec.kernel_arguments);
        content.extensions.clone_from(&spec.extensions);
        content.kernel_type = KernelType::read(spec.kernel_type.as_deref());
        content.fips = spec.fips.unwrap_or_default();
        content.os_image = spec.os_image_url.clone().unwrap_or_default();
        content.extensions_image = spec.base_os_extensions_container_image.clone().unwrap_or_default();
        Ok(content)
    }

    /// Reads the two sides of a change; the error says which of them is wrong.
    ///
    /// # Errors
    /// As [`Content::read`], for the first side that cannot be read.
    pub fn read_both(old: &MachineConfig, new: &MachineConfig) -> Result<(Self, Self), Error> {
        let read = |side, config: &MachineConfig| {
            Content::read(config).map_err(|source| Error {
                side,
                name: config.metadata.name.clone().unwrap_or_default(),
                source,
            })
        };
        Ok((read("old", old)?, read("new", new)?))
    }

    /// The part of a config that Ignition describes.
    #[must_use]
    pub fn of_ignition(config: v3_5::Config) -> Self {
        let mut content = Content::default();
        let mut first_boot = |section: Section, value: Value| {
            let value = without_empty(value);
            if value != Value::Null {
                content.first_boot.insert(section, value);
            }
        };
        let mut ignition = json(&config.ignition);
        if let Value::Object(fields) = &mut ignition {
            fields.remove("version");
        }
        first_boot(Section::Ignition, ignition);
        first_boot(Section::KernelArguments, json(&config.kernel_arguments));
        let passwd = config.passwd.unwrap_or_default();
        first_boot(Section::Groups, json(&passwd.groups));
        let storage = config.storage.unwrap_or_default();
        first_boot(Section::Disks, json(&storage.disks));
        first_boot(Section::Filesystems, json(&storage.filesystems));
        first_boot(Section::Raid, json(&storage.raid));
        first_boot(Section::Luks, json(&storage.luks));

        let users = passwd.users.into_iter().flatten();
        content.users = users.map(|user| (user.name.clone(), read_user(user))).collect();
        let files = storage.files.into_iter().flatten();
        content.files = files.map(read_file).collect();
        let directories = storage.directories.into_iter().flatten();
        content.directories = directories.map(read_directory).collect();
        let links = storage.links.into_iter().flatten();
        content.links = links.map(read_link).collect();
        let units = config.systemd.unwrap_or_default().units.into_iter().flatten();
        content.units = units.map(read_unit).collect();
        content
    }
}

/// What a node gives a file or a folder whose entry names no mode.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

fn read_file(file: v3_5::File) -> (String, File) {
    let entry = File {
        contents: Contents::new(file.contents.unwrap_or_default()),
        mode: mode(file.mode, FILE_MODE),
        user: file.user.map_or(ROOT, |user| owner(user.id, user.name)),
        group: file.group.map_or(ROOT, |group| owner(group.id, group.name)),
        append: file.append.into_iter().flatten().map(Contents::new).collect(),
    };
    (file.path, entry)
}

fn read_directory(directory: v3_5::Directory) -> (String, Directory) {
    let entry = Directory {
        mode: mode(directory.mode, FOLDER_MODE),
        user: directory.user.map_or(ROOT, |user| owner(user.id, user.name)),
        group: directory.group.map_or(ROOT, |group| owner(group.id, group.name)),
    };
    (directory.path, entry)
}

fn read_link(link: v3_5::Link) -> (String, Link) {
    let entry = Link {
        target: link.target.unwrap_or_default(),
        hard: link.hard.unwrap_or_default(),
        user: link.user.map_or(ROOT, |user| owner(user.id, user.name)),
        group: link.group.map_or(ROOT, |group| owner(group.id, group.name)),
    };
    (link.path, entry)
}

fn read_unit(unit: v3_5::Unit) -> (String, Unit) {
    let dropins = unit.dropins.into_iter().flatten();
    let entry = Unit {
        contents: unit.contents.unwrap_or_default(),
        enabled: unit.enabled,
        mask: unit.mask,
        dropins: dropins.map(|dropin| (dropin.name, dropin.contents.unwrap_or_default())).collect(),
    };
    (unit.name, entry)
}

fn read_user(mut user: v3_5::User) -> User {
    let keys = user.ssh_authorized_keys.take().unwrap_or_default();
    let password_hash = user.password_hash.take();
    let other = match without_empty(json(&user)) {
        Value::Object(fields) => fields.into_iter().filter(|(field, _)| field != "name").collect(),
        _ => BTreeMap::new(),
    };
    User { keys, password_hash, other }
}

const ROOT: Owner = Owner::Id(0);

fn owner(id: Option<i64>, name: Option<String>) -> Owner {
    match (id.map(u32::try_from), name) {
        (Some(Ok(id)), _) => Owner::Id(id),
        (_, Some(name)) if name != "root" && !name.is_empty() => Owner::Name(name),
        _ => ROOT,
    }
}

fn mode(mode: Option<i64>, default: u32) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default)
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Drops nulls and empty lists and objects at any depth: Ignition reads them as if they were not there.
fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) if !items.is_empty() => Value::Array(items.into_iter().map(without_empty).collect()),
        Value::Object(fields) => {
            let kept: Map<_, _> = fields
                .into_iter()
                .map(|(name, value)| (name, without_empty(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        value if is_empty(&value) => Value::Null,
        value => value,
    }
}
