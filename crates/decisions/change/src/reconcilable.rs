//! Whether a running node can move from one config to another without being installed anew, and if not, exactly why.
//!
//! All obstacles are told, not only the first. Whether the move is worth its cost is not decided here.

use std::collections::BTreeSet;
use std::fmt;

use api::operator::IrreconcilableValidationOverrides;

use crate::content::{Content, Section};
use crate::diff::{Change, Diff};
use crate::policy::Settings;

/// A file whose presence asks the node to apply everything again; a config that carries it would never settle.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";

/// What the cluster allows beyond the rules.
#[derive(Clone, Debug, Default)]
pub struct Allowances {
    /// First-boot sections that may differ: running nodes keep what they have, new ones get the new layout.
    pub first_boot: BTreeSet<Section>,
}

/// A word in `irreconcilableValidationOverrides` that names no section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("storage[{index}]: {word:?} is not one of Disks, FileSystems, Raid")]
pub struct UnknownSection {
    pub index: usize,
    pub word: String,
}

impl TryFrom<&IrreconcilableValidationOverrides> for Allowances {
    type Error = UnknownSection;

    fn try_from(overrides: &IrreconcilableValidationOverrides) -> Result<Self, UnknownSection> {
        let sections = overrides.storage.iter().enumerate().map(|(index, word)| match word.as_str() {
            "Disks" => Ok(Section::Disks),
            "FileSystems" => Ok(Section::Filesystems),
            "Raid" => Ok(Section::Raid),
            _ => Err(UnknownSection { index, word: word.clone() }),
        });
        Ok(Self { first_boot: sections.collect::<Result<_, _>>()? })
    }
}

/// One reason why a running node cannot make a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Groups,
    /// A user that is not the admin user; its name, then the admin user's.
    OtherUser(String, String),
    /// The admin user would have neither keys nor a password.
    NoCredentials(String),
    /// Fields of the admin user that only its creation can set.
    UserFields(String, Vec<String>),
    FirstBoot(Section),
    HardLink(String),
    Append(String),
    Undecodable(String, String),
    ForceFile,
    Fips,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const USERS: &str = "invalid passwd change(s): ignition passwd user section contains unsupported changes";
        match self {
            Obstacle::Groups => {
                f.write_str("invalid passwd change(s): ignition Passwd Groups section contains changes")
            }
            Obstacle::OtherUser(name, admin) => write!(f, "{USERS}: non-{admin} user {name:?}"),
            Obstacle::NoCredentials(admin) => {
                write!(f, "{USERS}: user must be {admin} and have 1 or more sshKeys")
            }
            Obstacle::UserFields(admin, fields) => write!(
                f,
                "{USERS}: changes of user {admin} beyond its SSH keys and password hash are not reconcilable: {}",
                fields.join(", ")
            ),
            Obstacle::FirstBoot(section) => {
                write!(f, "ignition {section} section contains changes")
            }
            Obstacle::HardLink(path) => {
                write!(f, "ignition links section contains changes: {path} is a hard link")
            }
            Obstacle::Append(path) => write!(f, "ignition file {path} includes append"),
            Obstacle::Undecodable(path, why) => {
                write!(f, "the contents of file {path} cannot be decoded: {why}")
            }
            Obstacle::ForceFile => write!(f, "cannot create {FORCE_FILE} via Ignition"),
            Obstacle::Fips => f.write_str("detected change to FIPS flag; refusing to modify FIPS on a running cluster"),
        }
    }
}

/// A change that cannot be made in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("new machineconfig {new:?} is not reconcilable against {old:?}: {}", list(.obstacles))]
pub struct NotReconcilable {
    pub old: String,
    pub new: String,
    pub obstacles: Vec<Obstacle>,
}

fn list(obstacles: &[Obstacle]) -> String {
    let texts: Vec<_> = obstacles.iter().map(Obstacle::to_string).collect();
    texts.join("; ")
}

/// Refuses a `diff` which a running node cannot make, naming every obstacle.
///
/// # Errors
/// One `NotReconcilable` with all obstacles, between the configs of the two names.
pub fn reconcilable(
    diff: &Diff,
    new: &Content,
    names: (&str, &str),
    settings: &Settings,
    allowances: &Allowances,
) -> Result<(), NotReconcilable> {
    let obstacles = obstacles(diff, new, settings, allowances);
    if obstacles.is_empty() {
        return Ok(());
    }
    Err(NotReconcilable { old: names.0.to_owned(), new: names.1.to_owned(), obstacles })
}

/// Every reason why a running node cannot make `diff`, which leads to `new`.
#[must_use]
pub fn obstacles(diff: &Diff, new: &Content, settings: &Settings, allowances: &Allowances) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if diff.first_boot.contains(&Section::Groups) {
        found.push(Obstacle::Groups);
    }
    users(diff, new, &settings.admin_user, &mut found);
    let refused = diff.first_boot.iter().filter(|section| match section {
        // Told apart above, with the words people know.
        Section::Groups => false,
        // Read by Ignition itself before anything is written: nothing of it is left on a running node.
        Section::Ignition => false,
        section => !allowances.first_boot.contains(section),
    });
    found.extend(refused.copied().map(Obstacle::FirstBoot));
    let links = diff.links.iter();
    let hard = links.filter(|link| link.after.iter().chain(&link.before).any(|link| link.hard));
    found.extend(hard.map(|link| Obstacle::HardLink(link.name.clone())));
    files(diff, new, &mut found);
    if diff.fips.is_some() {
        found.push(Obstacle::Fips);
    }
    found
}

fn users(diff: &Diff, new: &Content, admin: &str, found: &mut Vec<Obstacle>) {
    if diff.users.is_empty() {
        return;
    }
    let others = new.users.keys().filter(|name| *name != admin);
    found.extend(others.map(|name| Obstacle::OtherUser(name.clone(), admin.to_owned())));
    let Some(user) = new.users.get(admin) else { return };
    if user.keys.is_empty() && user.password_hash.as_deref().unwrap_or_default().is_empty() {
        found.push(Obstacle::NoCredentials(admin.to_owned()));
    }
    if !user.other.is_empty() {
        let fields = user.other.keys().cloned().collect();
        found.push(Obstacle::UserFields(admin.to_owned(), fields));
    }
}

fn files(diff: &Diff, new: &Content, found: &mut Vec<Obstacle>) {
    for (path, file) in &new.files {
        if file.appends() {
            found.push(Obstacle::Append(path.clone()));
        }
        if path == FORCE_FILE {
            found.push(Obstacle::ForceFile);
        }
    }
    // Only what has to be written must be readable: a config that already runs is not refused for its past.
    let written = diff.files.iter().filter_map(|Change { name, after, .. }| Some((name, after.as_ref()?)));
    found.extend(written.filter_map(|(path, file)| {
        let error = file.contents.check().err()?;
        Some(Obstacle::Undecodable(path.clone(), error.to_string()))
    }));
}
