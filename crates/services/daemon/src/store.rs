//! What the daemon keeps on the host: the configs it runs and ran, its journal, and the paths of all of these.
//!
//! Everything is mode 0600, because configs carry secrets, and carries a version. The node never needs the API to know what
//! it runs. Paths that administrators know from upstream are the same here.

use std::collections::BTreeMap;

use api::machineconfiguration::MachineConfig;
use change::host::{Attributes, EntryKind, Error as HostError, Files, HostPath};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::Journal;

/// The folder of everything below.
pub const FOLDER: &str = "/etc/machine-config-daemon";
/// The config the node runs, whole.
pub const CURRENT: &str = "/etc/machine-config-daemon/currentconfig";
/// The config it ran before.
pub const PREVIOUS: &str = "/etc/machine-config-daemon/previousconfig";
/// The two sides of an update that is under way.
pub const JOURNAL: &str = "/etc/machine-config-daemon/journal/journal.json";
pub const JOURNAL_FROM: &str = "/etc/machine-config-daemon/journal/from.json";
pub const JOURNAL_TO: &str = "/etc/machine-config-daemon/journal/to.json";
/// The config whose trial was reverted here.
pub const REVERTED: &str = "/etc/machine-config-daemon/reverted.json";
/// First annotations of a new node, from the config server.
pub const NODE_ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";
pub const NODE_ANNOTATIONS_DONE: &str = "/etc/machine-config-daemon/node-annotation.json.bak";
/// A new machine's whole config, from the config server, and its first way into the cluster. Ignition leaves both readable.
pub const SERVED: &str = "/etc/mcs-machine-config-content.json";
pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// A new machine's config without its Ignition part; present until first boot is finished.
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
pub const ENCAPSULATED_DONE: &str = "/etc/ignition-machine-config-encapsulated.json.bak";
/// Asks to apply everything again, whatever is on disk.
pub const FORCE: &str = "/run/machine-config-daemon-force";

const PRIVATE: Attributes = Attributes::root(0o600);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{path} is damaged ({reason}); the copy in the cluster is used instead where there is one")]
    Damaged { path: &'static str, reason: String },
    #[error(
        "{path} was written by a newer machinistd (version {found}, this one knows {known}); install that version to go on"
    )]
    Newer { path: &'static str, found: u32, known: u32 },
}

/// A config that was given back, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Reverted {
    pub version: u32,
    pub config: String,
    pub reason: String,
}

#[derive(Clone, Copy)]
pub struct Store<'a> {
    files: &'a dyn Files,
}

impl<'a> Store<'a> {
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files }
    }

    pub fn current(&self) -> Result<Option<MachineConfig>, Error> {
        self.load(CURRENT)
    }

    pub fn previous(&self) -> Result<Option<MachineConfig>, Error> {
        self.load(PREVIOUS)
    }

    pub fn save_current(&self, config: &MachineConfig) -> Result<(), Error> {
        self.save(CURRENT, config)
    }

    pub fn save_previous(&self, config: &MachineConfig) -> Result<(), Error> {
        self.save(PREVIOUS, config)
    }

    pub fn reverted(&self) -> Result<Option<Reverted>, Error> {
        self.load(REVERTED)
    }

    pub fn save_reverted(&self, reverted: &Reverted) -> Result<(), Error> {
        self.save(REVERTED, reverted)
    }

    pub fn forget_reverted(&self) -> Result<(), Error> {
        self.remove(REVERTED)
    }

    pub fn journal(&self) -> Result<Option<Journal>, Error> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            version: u32,
        }
        // The version is read before the rest, which a newer daemon may have shaped differently.
        match self.load::<Versioned>(JOURNAL)? {
            None => Ok(None),
            Some(head) if head.version > Journal::VERSION => {
                Err(Error::Newer { path: JOURNAL, found: head.version, known: Journal::VERSION })
            }
            Some(_) => self.load(JOURNAL),
        }
    }

    /// Written and made durable: what follows may rely on it.
    pub fn save_journal(&self, journal: &Journal) -> Result<(), Error> {
        self.save(JOURNAL, journal)?;
        Ok(self.files.flush()?)
    }

    pub fn save_sides(&self, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
        self.save(JOURNAL_FROM, from)?;
        self.save(JOURNAL_TO, to)
    }

    pub fn sides(&self) -> Result<Option<(MachineConfig, MachineConfig)>, Error> {
        Ok(self.load(JOURNAL_FROM)?.zip(self.load(JOURNAL_TO)?))
    }

    /// The journal goes first: without it the two sides mean nothing.
    pub fn close_journal(&self) -> Result<(), Error> {
        self.remove(JOURNAL)?;
        self.files.flush()?;
        self.remove(JOURNAL_FROM)?;
        self.remove(JOURNAL_TO)?;
        Ok(self.files.flush()?)
    }

    /// Removes the sides of a journal that is not there.
    pub fn sweep(&self) -> Result<(), Error> {
        self.remove(JOURNAL_FROM)?;
        self.remove(JOURNAL_TO)
    }

    /// What a new machine was told about itself. Until it has joined, no other memory of ours is whole: what first boot left
    /// behind lacks the files that Ignition wrote.
    pub fn birth(&self) -> Result<Option<BTreeMap<String, String>>, Error> {
        self.load(NODE_ANNOTATIONS)
    }

    pub fn is_forced(&self) -> bool {
        self.files.look(&known(FORCE)).is_ok_and(|entry| entry.is_some())
    }

    pub fn clear_force(&self) -> Result<(), Error> {
        self.remove(FORCE)
    }

    pub fn flush(&self) -> Result<(), Error> {
        Ok(self.files.flush()?)
    }

    pub fn load<T: DeserializeOwned>(&self, path: &'static str) -> Result<Option<T>, Error> {
        let Some(bytes) = self.files.read(&known(path))? else { return Ok(None) };
        let damaged = |reason: String| Error::Damaged { path, reason };
        if bytes.is_empty() {
            return Err(damaged("it is empty".into()));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string()))
    }

    pub fn save(&self, path: &'static str, value: &impl Serialize) -> Result<(), Error> {
        let bytes = serde_json::to_vec(value).map_err(|error| Error::Damaged { path, reason: error.to_string() })?;
        Ok(self.files.put(&known(path), &bytes, &PRIVATE)?)
    }

    pub fn remove(&self, path: &'static str) -> Result<(), Error> {
        Ok(self.files.remove(&known(path))?)
    }

    /// Takes a file that carries secrets away from everybody but its owner.
    pub fn close(&self, path: &'static str) -> Result<(), Error> {
        let path = known(path);
        let is_open =
            self.files.look(&path)?.is_some_and(|entry| entry.kind == EntryKind::File && entry.mode & 0o077 != 0);
        match self.files.read(&path)? {
            Some(contents) if is_open => Ok(self.files.put(&path, &contents, &PRIVATE)?),
            _ => Ok(()),
        }
    }

    pub fn rename_done(&self, path: &'static str, done: &'static str) -> Result<(), Error> {
        if self.files.look(&known(path))?.is_some() {
            self.files.copy(&known(path), &known(done))?;
            self.files.remove(&known(path))?;
        }
        Ok(())
    }
}

/// A path from this file.
pub fn known(path: &'static str) -> HostPath {
    HostPath::parse(path).expect("paths in this file are absolute and plain")
}
