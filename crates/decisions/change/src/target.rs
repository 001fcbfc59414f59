//! What a host should look like: the content of a rendered config with everything checked that a host could trip over.
//!
//! `content` is the one reader of configs; this is what it read, made ready to be written. `plan` and the daemon work on this and never on Ignition text, so there is one place where a config can be refused.

mod read;

use std::collections::BTreeMap;

pub use read::Error;

use crate::content::Contents;
use crate::host::HostPath;

/// Where unit files go.
pub const UNIT_FOLDER: &str = "/etc/systemd/system";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The rendered config's name.
    pub name: String,
    pub files: BTreeMap<HostPath, File>,
    pub folders: BTreeMap<HostPath, Folder>,
    pub links: BTreeMap<HostPath, Link>,
    pub units: BTreeMap<String, Unit>,
    pub users: BTreeMap<String, User>,
    pub kernel_arguments: Vec<String>,
    /// `default`, `realtime` or `64k-pages`.
    pub kernel_type: String,
    pub extensions: Vec<String>,
    /// Where the packages of extensions and kernels come from; empty where the host's own repositories have them.
    pub extensions_image: String,
    /// Empty where the config leaves the OS alone.
    pub os_image: String,
    pub fips: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// `None` keeps what the host had, for files that are only appended to.
    pub contents: Option<Contents>,
    pub append: Vec<Contents>,
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub target: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Id(u32),
    Name(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// `None` when the config only enables, masks or extends somebody else's unit.
    pub contents: Option<String>,
    pub enabled: Option<bool>,
    pub mask: bool,
    /// Drop-ins by file name. An empty one means that the file must not be there, or be empty.
    pub dropins: BTreeMap<String, String>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct User {
    pub keys: Vec<String>,
    pub password_hash: Option<String>,
}

impl Default for File {
    fn default() -> Self {
        Self {
            contents: Some(Contents::of(b"")),
            append: Vec::new(),
            mode: 0o644,
            user: Owner::Id(0),
            group: Owner::Id(0),
        }
    }
}

impl File {
    pub fn new(contents: impl AsRef<[u8]>, mode: u32) -> Self {
        Self { contents: Some(Contents::of(contents.as_ref())), mode, ..Self::default() }
    }
}

// Contents may be secret, so debug output tells sizes only.
impl std::fmt::Debug for File {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { contents, append, mode, user, group } = self;
        write!(formatter, "File({contents:?}, +{append:?}, {mode:04o}, {user:?}:{group:?})")
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "User({} keys, password {})", self.keys.len(), self.password_hash.is_some())
    }
}

/// The file of a unit. Unit names were checked when the target was built.
pub fn unit_path(unit: &str) -> Option<HostPath> {
    HostPath::parse(&format!("{UNIT_FOLDER}/{unit}")).ok()
}

pub fn dropin_path(unit: &str, dropin: &str) -> Option<HostPath> {
    HostPath::parse(&format!("{UNIT_FOLDER}/{unit}.d/{dropin}")).ok()
}
