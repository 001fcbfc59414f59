//! The `Host` port: everything the daemon may do to the machine it runs on.
//!
//! A host is three small parts: [`Files`] beneath a root, [`Services`] of its service manager, and its [`System`]
//! (kernel arguments, OS image, boot id, reboot). This file only says what each promises; `adapters/host` implements them
//! (a real host, a directory, memory), and one conformance suite holds all of them to these words.
//!
//! Nothing here blocks on a network. Calls are plain functions: the daemon runs them on its own thread.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A machine, or something that behaves like one.
pub trait Host: Send + Sync {
    fn files(&self) -> &dyn Files;
    fn services(&self) -> &dyn Services;
    fn system(&self) -> &dyn System;
    /// The images of the container runtime, where something can be asked about them.
    fn images(&self) -> Option<&dyn Images> {
        None
    }
}

/// Files beneath the host's root.
///
/// Links are followed as the host itself would follow them from `/`, so an absolute link stays beneath the root. Links that
/// neither root nor this process's user made, and those of the kernel's process file system, are refused. No call ever
/// touches anything outside the root.
pub trait Files {
    /// What is at `path`, without following a link in the last place. `None` when there is nothing.
    fn look(&self, path: &HostPath) -> Result<Option<Entry>, Error>;

    /// The bytes of a regular file, following links. `None` when there is nothing. Devices, pipes, folders and files over
    /// [`READ_LIMIT`] are refused.
    fn read(&self, path: &HostPath) -> Result<Option<Vec<u8>>, Error>;

    /// [`Files::read`], piece by piece and without a limit.
    fn open(&self, path: &HostPath) -> Result<Option<Box<dyn Read>>, Error>;

    /// Names in a folder, sorted. Empty when there is no such folder.
    fn list(&self, folder: &HostPath) -> Result<Vec<String>, Error>;

    /// Replaces whatever file or link is at `path`, all or nothing: after any crash it holds the old bytes or the new ones.
    /// Missing parents are made. The new name survives a power cut once [`Files::flush`] has returned.
    fn put(&self, path: &HostPath, contents: &[u8], attributes: &Attributes) -> Result<(), Error>;

    /// [`Files::put`], with contents that are read piece by piece while they are written.
    fn put_from(&self, path: &HostPath, contents: &mut dyn Read, attributes: &Attributes) -> Result<(), Error>;

    /// Replaces whatever file or link is at `path` by a symbolic link, all or nothing.
    fn link(&self, path: &HostPath, target: &str) -> Result<(), Error>;

    /// Makes a folder and its parents, or gives an existing one these attributes.
    fn make_folder(&self, path: &HostPath, attributes: &Attributes) -> Result<(), Error>;

    /// Copies a file or link with its mode, owner and extended attributes, all or nothing.
    fn copy(&self, from: &HostPath, to: &HostPath) -> Result<(), Error>;

    /// Removes a file, a link or an empty folder. Nothing there is fine.
    fn remove(&self, path: &HostPath) -> Result<(), Error>;

    /// Everything done so far survives a power cut once this has returned.
    fn flush(&self) -> Result<(), Error>;

    /// Why a file at `path` could not be written here, asked before anything is touched.
    fn refuses(&self, path: &HostPath) -> Option<String>;
}

/// The service manager.
pub trait Services {
    /// What `systemctl is-enabled` would say: `enabled`, `disabled`, `static`, `masked`, `not-found`, …
    fn enablement(&self, unit: &str) -> Result<String, Error>;
    /// What the unit is doing now.
    fn activity(&self, unit: &str) -> Result<Activity, Error>;
    fn enable(&self, units: &[String]) -> Result<(), Error>;
    fn disable(&self, units: &[String]) -> Result<(), Error>;
    /// Enables or disables as the distribution's preset files say.
    fn preset(&self, unit: &str) -> Result<(), Error>;
    /// Reads unit files again.
    fn daemon_reload(&self) -> Result<(), Error>;
    fn start(&self, unit: &str) -> Result<(), Error>;
    /// Stops a unit. A unit that does not exist is stopped.
    fn stop(&self, unit: &str) -> Result<(), Error>;
    fn restart(&self, unit: &str) -> Result<(), Error>;
    fn reload(&self, unit: &str) -> Result<(), Error>;
}

/// The operating system beneath the files.
pub trait System {
    /// What can change the OS image and kernel arguments here, if anything.
    fn backend(&self) -> Option<Backend>;
    /// The kernel arguments of the deployment that will boot next where that can be told, else of the running kernel, as one
    /// line.
    fn kernel_arguments(&self) -> Result<String, Error>;
    /// Stages another set of kernel arguments for the next boot.
    fn change_kernel_arguments(&self, delete: &[String], append: &[String]) -> Result<(), Error>;
    /// The image this host has booted, where it knows.
    fn booted_image(&self) -> Result<Option<String>, Error>;
    /// Stages an image for the next boot.
    fn stage_image(&self, image: &str) -> Result<(), Error>;
    /// Drops what was staged and not booted yet.
    fn drop_staged(&self) -> Result<(), Error>;
    /// Stages packages of the extensions and the kernel type.
    fn change_packages(&self, change: &PackageChange) -> Result<(), Error>;
    /// Different after every boot, equal in between.
    fn boot_id(&self) -> Result<String, Error>;
    /// The machine's running time, by a clock that nobody can set and that stands still while the machine sleeps. Two answers
    /// can be compared only within one boot.
    fn uptime(&self) -> Duration;
    /// Asks for a reboot and returns; the machine goes down soon after.
    fn reboot(&self, reason: &str) -> Result<(), Error>;
    /// Whether the kernel runs in FIPS mode.
    fn fips(&self) -> bool;
    /// Which of these packages are installed. Hosts without a package manager have none.
    fn installed(&self, _packages: &[&str]) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    /// The package that the file at `path` came with. Hosts without a package manager know of none; one that cannot answer
    /// is an error.
    fn package_of(&self, _path: &HostPath) -> Result<Option<String>, Error> {
        Ok(None)
    }
    /// Why the OS that was staged before the last reboot could not be made the one that boots, if it could not.
    fn finalize_failure(&self) -> Option<String> {
        None
    }
    /// How many packages somebody has laid over the OS image by hand, beside those `known`.
    fn foreign_packages(&self, _known: &[&str]) -> usize {
        0
    }
    /// Gives files the SELinux labels that the host's policy has for their paths. Hosts without SELinux have none.
    fn restore_labels(&self, _paths: &[HostPath]) -> Result<(), Error> {
        Ok(())
    }
    /// Files whose SELinux label is not what the host's policy has for their paths, where SELinux is on.
    fn mislabelled(&self, _paths: &[HostPath]) -> Vec<HostPath> {
        Vec::new()
    }
    /// Asks that nobody shuts the machine down until the answer is dropped. Only a wish: without it nothing is lost.
    fn hold_off_shutdown(&self, _why: &str) -> Box<dyn Send> {
        Box::new(())
    }
}

/// The images of the container runtime.
pub trait Images {
    fn runtime(&self) -> Result<RuntimeVersion, Error>;
    /// The images that are there.
    fn list(&self) -> Result<Vec<HostImage>, Error>;
    /// Pulls an image with the credentials and mirrors that pods have. It may take as long as the line is slow.
    fn pull(&self, image: &str) -> Result<(), Error>;
    /// Marks an image as one that is kept, or takes the mark off. Only containerd has such a mark; CRI-O is told by a file.
    fn mark(&self, image: &str, keep: bool) -> Result<(), Error>;
    /// The disk that images are on.
    fn space(&self) -> Result<Space, Error>;
}

/// A container runtime, as `crictl version` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// `cri-o` or `containerd`.
    pub name: String,
    pub version: String,
}

/// An image that is on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostImage {
    /// By tag and by digest.
    pub names: Vec<String>,
    pub size: u64,
    pub pinned: bool,
}

/// A disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub free: u64,
}

/// No managed file comes near this; a log or an image that stands in a managed place is not read into memory.
pub const READ_LIMIT: u64 = 32 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    Bootc,
    RpmOstree,
    /// A host with packages: its kernel arguments can be changed, its OS image cannot.
    BootLoader(BootLoader),
}

/// How kernel arguments reach the boot loader of a host with packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootLoader {
    /// `grubby` edits the boot entries (RHEL, CentOS Stream, Fedora).
    Grubby,
    /// `update-grub` makes GRUB's configuration from `/etc/default/grub.d` (Debian, Ubuntu).
    Grub,
    /// `kernel-install` makes the entries of systemd-boot from `/etc/kernel/cmdline`.
    KernelInstall,
    /// The entries of systemd-boot themselves.
    Entries,
}

impl Backend {
    /// The word for it in logs and annotations: the program that does the work.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Bootc => "bootc",
            Backend::RpmOstree => "rpm-ostree",
            Backend::BootLoader(BootLoader::Grubby) => "grubby",
            Backend::BootLoader(BootLoader::Grub) => "update-grub",
            Backend::BootLoader(BootLoader::KernelInstall) => "kernel-install",
            Backend::BootLoader(BootLoader::Entries) => "loader-entries",
        }
    }
}

/// Extension packages and kernel type, before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageChange {
    pub install: Vec<String>,
    pub uninstall: Vec<String>,
    pub kernel: Option<KernelChange>,
    /// The image that holds the packages; empty where the host's own repositories do.
    pub image: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelChange {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// The lower twelve bits: permissions with setuid, setgid and sticky.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Link(String),
    /// A device, a pipe or a socket.
    Special,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

impl Attributes {
    /// Owned by root.
    pub const fn root(mode: u32) -> Self {
        Self { mode, user: 0, group: 0 }
    }
}

/// What a unit is doing, in the service manager's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// `active`, `inactive`, `failed`, `activating`, …
    pub active: String,
    /// Changes whenever the unit is started anew.
    pub invocation: String,
    /// The unit file on disk is newer than what the manager has read.
    pub needs_reload: bool,
    /// How often the manager has restarted it by itself.
    pub restarts: u32,
}

impl Activity {
    pub fn has_failed(&self) -> bool {
        self.active == "failed"
    }
}

/// An absolute path on the host, in one normal form: no `.`, no `..`, no doubled or closing slash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPath(String);

/// A path that no host can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("path \"{path}\" {problem}")]
pub struct InvalidPath {
    pub path: String,
    pub problem: &'static str,
}

impl HostPath {
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let refuse = |problem| Err(InvalidPath { path: text.chars().take(256).collect(), problem });
        if !text.starts_with('/') {
            return refuse("is not absolute");
        }
        if text.len() > 4095 {
            return refuse("is longer than 4095 bytes");
        }
        if text.contains('\0') {
            return refuse("contains a zero byte");
        }
        let mut clean = String::with_capacity(text.len());
        for part in text.split('/').filter(|part| !part.is_empty()) {
            match part {
                "." | ".." => return refuse("contains \".\" or \"..\""),
                long if long.len() > 255 => return refuse("has a component longer than 255 bytes"),
                part => {
                    clean.push('/');
                    clean.push_str(part);
                }
            }
        }
        if clean.is_empty() {
            return refuse("is the root itself");
        }
        Ok(Self(clean))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without the leading slash, for opening beneath a root.
    pub fn relative(&self) -> &str {
        &self.0[1..]
    }

    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The folder that holds it; `None` for a direct child of the root.
    pub fn parent(&self) -> Option<HostPath> {
        match self.0.rfind('/') {
            Some(0) | None => None,
            Some(at) => Some(Self(self.0[..at].to_owned())),
        }
    }

    /// `name` in this folder. The name may have several components.
    pub fn join(&self, name: &str) -> Result<HostPath, InvalidPath> {
        Self::parse(&format!("{}/{name}", self.0))
    }

    /// Whether it is `folder` or lies beneath it.
    pub fn is_beneath(&self, folder: &str) -> bool {
        self.0.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for HostPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for HostPath {
    type Error = InvalidPath;
    fn try_from(text: String) -> Result<Self, InvalidPath> {
        Self::parse(&text)
    }
}

impl From<HostPath> for String {
    fn from(path: HostPath) -> String {
        path.0
    }
}

/// Why the host did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} {subject}: {detail}")]
pub struct Error {
    pub kind: ErrorKind,
    /// The verb: `write`, `read`, `restart`, …
    pub action: &'static str,
    /// The path, unit or tool.
    pub subject: String,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The path leaves the root, or is not the kind of file this works on.
    Refused,
    ReadOnly,
    NoSpace,
    Denied,
    /// This host has no such thing: no OS backend, no such unit or user.
    Unsupported,
    /// A tool or the service manager said no.
    Failed,
    /// A tool did not end in its time and was stopped.
    TimedOut,
    /// The power went; only the memory host says so.
    PowerCut,
}

impl Error {
    pub fn new(kind: ErrorKind, action: &'static str, subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, action, subject: subject.into(), detail: detail.into() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_in_one_normal_form() {
        assert_eq!(HostPath::parse("//etc///motd/").unwrap().as_str(), "/etc/motd");
        assert_eq!(HostPath::parse("/etc/motd").unwrap().parent().unwrap().as_str(), "/etc");
        assert_eq!(HostPath::parse("/etc").unwrap().parent(), None);
    }

    #[test]
    fn a_path_that_could_leave_the_root_is_refused() {
        for bad in ["etc/motd", "/etc/../shadow", "/./etc", "/", "", "/etc/a\0b"] {
            assert!(HostPath::parse(bad).is_err(), "{bad:?}");
        }
        assert!(HostPath::parse(&format!("/{}", "x".repeat(256))).is_err());
    }

    #[test]
    fn beneath_means_whole_components() {
        let path = HostPath::parse("/etc/foobar/x").unwrap();
        assert!(path.is_beneath("/etc"));
        assert!(!path.is_beneath("/etc/foo"));
        assert!(path.is_beneath("/etc/foobar/x"));
    }
}
