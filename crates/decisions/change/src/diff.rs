//! The difference between two rendered configs, as a node would notice it.
//!
//! Entries are compared by what they do (decoded bytes, mode, owner, state of a unit), never by how they are written
//! or in which order they stand. Nothing here judges the difference: see `reconcilable` and `disruption`.

use std::collections::BTreeMap;

use crate::content::{Content, Directory, File, KernelType, Link, Section, Unit, User};

/// Everything that differs between two configs. Lists are sorted by name; what is equal is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    pub files: Vec<Change<File>>,
    pub directories: Vec<Change<Directory>>,
    pub links: Vec<Change<Link>>,
    /// A change inside a unit's drop-ins is a change of the unit.
    pub units: Vec<Change<Unit>>,
    pub users: Vec<Change<User>>,
    pub kernel_arguments: Option<Changed<Vec<String>>>,
    pub kernel_type: Option<Changed<KernelType>>,
    pub extensions: Option<Changed<Vec<String>>>,
    pub fips: Option<Changed<bool>>,
    pub os_image: Option<Changed<String>>,
    pub extensions_image: Option<Changed<String>>,
    /// Sections of the Ignition config which only a machine's first boot acts on.
    pub first_boot: Vec<Section>,
}

/// One named entry that came, went or differs; at least one of the two sides is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Change<T> {
    pub name: String,
    pub before: Option<T>,
    pub after: Option<T>,
}

/// How an entry differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Added,
    Removed,
    Updated,
}

impl<T> Change<T> {
    #[must_use]
    pub fn kind(&self) -> Kind {
        match (&self.before, &self.after) {
            (None, _) => Kind::Added,
            (Some(_), None) => Kind::Removed,
            (Some(_), Some(_)) => Kind::Updated,
        }
    }
}

/// A setting that has another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed<T> {
    pub before: T,
    pub after: T,
}

impl Diff {
    /// What differs between two configs.
    #[must_use]
    pub fn between(old: &Content, new: &Content) -> Self {
        Diff {
            files: entries(&old.files, &new.files),
            directories: entries(&old.directories, &new.directories),
            links: entries(&old.links, &new.links),
            units: entries(&old.units, &new.units),
            users: entries(&old.users, &new.users),
            kernel_arguments: setting(&old.kernel_arguments, &new.kernel_arguments),
            kernel_type: setting(&old.kernel_type, &new.kernel_type),
            extensions: setting(&old.extensions, &new.extensions),
            fips: setting(&old.fips, &new.fips),
            os_image: setting(&old.os_image, &new.os_image),
            extensions_image: setting(&old.extensions_image, &new.extensions_image),
            first_boot: Section::ALL
                .into_iter()
                .filter(|section| old.first_boot.get(section) != new.first_boot.get(section))
                .collect(),
        }
    }

    /// Whether the two configs ask the same of every node, running or new.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Diff::default()
    }
}

fn setting<T: PartialEq + Clone>(before: &T, after: &T) -> Option<Changed<T>> {
    (before != after).then(|| Changed { before: before.clone(), after: after.clone() })
}

fn entries<T: PartialEq + Clone>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>) -> Vec<Change<T>> {
    let change = |name: &String, before: Option<&T>, after: Option<&T>| Change {
        name: name.clone(),
        before: before.cloned(),
        after: after.cloned(),
    };
    let gone = before.iter().filter(|(name, _)| !after.contains_key(*name));
    let mut changes: Vec<_> = gone.map(|(name, entry)| change(name, Some(entry), None)).collect();
    for (name, entry) in after {
        let known = before.get(name);
        if known != Some(entry) {
            changes.push(change(name, known, Some(entry)));
        }
    }
    changes.sort_by(|a, b| a.name.cmp(&b.name));
    changes
}
