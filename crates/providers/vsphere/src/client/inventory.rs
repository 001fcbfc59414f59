//! Where things are in a datacenter: folders, clusters, pools, datastores and networks by name or by path.

use std::collections::HashMap;

use machine::provider::{Error, ErrorKind};

use super::{Client, Fault, Reference};

/// Kinds that are looked for or lie on the way.
const WANTED: &[(&str, &[&str])] = &[
    ("Folder", &["name", "parent"]),
    ("ComputeResource", &["name", "parent"]),
    ("ResourcePool", &["name", "parent"]),
    ("Datastore", &["name", "parent"]),
    ("Network", &["name", "parent"]),
    ("StoragePod", &["name", "parent"]),
];

/// What a field of the spec may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    Folder,
    ResourcePool,
    Datastore,
    Network,
}

impl Sought {
    fn includes(self, kind: &str) -> bool {
        match self {
            Self::Folder => kind == "Folder",
            Self::ResourcePool => matches!(kind, "ResourcePool" | "VirtualApp"),
            Self::Datastore => kind == "Datastore",
            Self::Network => matches!(kind, "Network" | "DistributedVirtualPortgroup" | "OpaqueNetwork"),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::ResourcePool => "resource pool",
            Self::Datastore => "datastore",
            Self::Network => "network",
        }
    }
}

/// The skeleton of a datacenter.
pub(crate) struct Inventory {
    places: HashMap<Reference, Place>,
}

struct Place {
    name: String,
    path: String,
}

impl Inventory {
    pub(crate) async fn load(client: &Client, datacenter: &Datacenter) -> Result<Self, Fault> {
        let found = client.below(&datacenter.reference, WANTED).await?;
        let nodes = found.iter().map(|object| {
            let name = object.text("name").unwrap_or_default();
            (object.reference.clone(), (name, object.reference("parent")))
        });
        Ok(Self::new(datacenter, nodes.collect()))
    }

    fn new(datacenter: &Datacenter, nodes: HashMap<Reference, (&str, Option<Reference>)>) -> Self {
        let path = |reference: &Reference| {
            let (mut names, mut at) = (Vec::new(), Some(reference.clone()));
            // A chain that is longer than there are objects is a circle.
            for _ in 0..=nodes.len() {
                let Some((name, parent)) = at.as_ref().and_then(|at| nodes.get(at)) else { break };
                names.push(*name);
                at.clone_from(parent);
            }
            names.reverse();
            format!("{}/{}", datacenter.path, names.join("/"))
        };
        let places = nodes.iter().map(|(reference, (name, _))| {
            (reference.clone(), Place { name: unescaped(name), path: unescaped(&path(reference)) })
        });
        Self { places: places.collect() }
    }

    /// All that a field may mean: by its whole path, by the end of one, or by a name.
    pub(crate) fn all(&self, sought: Sought, text: &str) -> Vec<Reference> {
        let text = unescaped(text.trim_end_matches('/'));
        let is_meant = |place: &Place| {
            if text.starts_with('/') {
                place.path == text
            } else if text.contains('/') {
                place.path.ends_with(&format!("/{text}"))
            } else {
                place.name == text
            }
        };
        let found = self.places.iter().filter(|(reference, place)| sought.includes(&reference.kind) && is_meant(place));
        let mut found: Vec<Reference> = found.map(|(reference, _)| reference.clone()).collect();
        found.sort();
        found
    }

    /// The one thing that a field means.
    pub(crate) fn one(&self, sought: Sought, field: &str, text: &str) -> Result<Reference, Error> {
        let mut found = self.all(sought, text);
        match found.len() {
            0 => Err(missing(sought, field, text)),
            1 => Ok(found.remove(0)),
            _ => Err(self.ambiguous(sought, field, text, &found)),
        }
    }

    /// The same where the field may be left out: then there must be only one to choose.
    pub(crate) fn one_or_only(&self, sought: Sought, field: &str, text: &str) -> Result<Reference, Error> {
        if !text.is_empty() {
            return self.one(sought, field, text);
        }
        let all: Vec<Reference> = self.places.keys().filter(|it| sought.includes(&it.kind)).cloned().collect();
        // The pools of a cluster lie in one that vCenter made, which is meant.
        let all: Vec<Reference> = match sought {
            Sought::ResourcePool => all.into_iter().filter(|it| self.path(it).ends_with("/Resources")).collect(),
            _ => all,
        };
        match all.as_slice() {
            [] => Err(missing(sought, field, "any")),
            [only] => Ok(only.clone()),
            _ => Err(self.ambiguous(sought, field, "", &all)),
        }
    }

    pub(crate) fn path(&self, reference: &Reference) -> &str {
        self.places.get(reference).map(|place| place.path.as_str()).unwrap_or_default()
    }

    pub(crate) fn name(&self, reference: &Reference) -> &str {
        self.places.get(reference).map(|place| place.name.as_str()).unwrap_or_default()
    }

    pub(crate) fn ambiguous(&self, sought: Sought, field: &str, text: &str, found: &[Reference]) -> Error {
        let mut paths: Vec<&str> = found.iter().map(|it| self.path(it)).collect();
        paths.sort_unstable();
        let word = sought.word();
        let list = paths.join(", ");
        let message = format!("{field}: {text:?} may be any of several {word}s; write the path of one of them: {list}");
        Error::new(ErrorKind::InvalidSpec, message)
    }
}

pub(crate) fn missing(sought: Sought, field: &str, text: &str) -> Error {
    let message = format!("{field}: there is no {} {text:?}, or the credentials do not show it", sought.word());
    Error::new(ErrorKind::NotFound, message)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datacenter {
    pub(crate) reference: Reference,
    pub(crate) path: String,
    pub(crate) vm_folder: Reference,
}

impl Client {
    /// The datacenter of a name or path, or the only one if nothing is named.
    pub(crate) async fn datacenter(&self, name: &str) -> Result<Datacenter, Error> {
        let cannot = |fault: Fault| fault.error("cannot list datacenters");
        let root = self.own("rootFolder").await.map_err(cannot)?;
        let wanted: &[(&str, &[&str])] =
            &[("Datacenter", &["name", "parent", "vmFolder"]), ("Folder", &["name", "parent"])];
        let found = self.below(&root, wanted).await.map_err(cannot)?;
        let nodes: HashMap<_, _> = found.iter().map(|it| (it.reference.clone(), it)).collect();
        let path = |reference: &Reference| {
            let (mut path, mut at) = (String::new(), Some(reference.clone()));
            for _ in 0..=nodes.len() {
                let Some(object) = at.as_ref().and_then(|at| nodes.get(at)) else { break };
                path = format!("/{}{path}", unescaped(object.text("name").unwrap_or_default()));
                at = object.reference("parent");
            }
            path
        };
        let all = found.iter().filter(|it| it.reference.kind == "Datacenter").filter_map(|object| {
            let vm_folder = object.reference("vmFolder")?;
            Some(Datacenter { reference: object.reference.clone(), path: path(&object.reference), vm_folder })
        });
        let wanted = name.trim_matches('/');
        let is_meant = |datacenter: &Datacenter| wanted.is_empty() || datacenter.path.ends_with(&format!("/{wanted}"));
        let mut meant: Vec<Datacenter> = all.filter(is_meant).collect();
        match meant.len() {
            1 => Ok(meant.remove(0)),
            0 => {
                let message = format!(
                    "providerSpec.workspace.datacenter: there is no datacenter {name:?}, or the credentials do not show it"
                );
                Err(Error::new(ErrorKind::NotFound, message))
            }
            _ => {
                let mut paths: Vec<&str> = meant.iter().map(|it| it.path.as_str()).collect();
                paths.sort_unstable();
                let message = format!(
                    "providerSpec.workspace.datacenter: {name:?} may be any of several; write one of {}",
                    paths.join(", ")
                );
                Err(Error::new(ErrorKind::InvalidSpec, message))
            }
        }
    }
}

/// vCenter writes the characters that its paths are made of as `%2f`, `%5c` and `%25`.
fn unescaped(name: &str) -> String {
    name.replace("%2f", "\u{2215}")
        .replace("%2F", "\u{2215}")
        .replace("%5c", "\\")
        .replace("%5C", "\\")
        .replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let reference = Reference::new;
        let datacenter = Datacenter {
            reference: reference("Datacenter", "dc"),
            path: "/DC0".to_owned(),
            vm_folder: reference("Folder", "vm"),
        };
        let node = |kind: &str, id: &str, name, parent: (&str, &str)| {
            (reference(kind, id), (name, Some(reference(parent.0, parent.1))))
        };
        let nodes = [
            node("Folder", "vm", "vm", ("Datacenter", "dc")),
            node("Folder", "f1", "machines", ("Folder", "vm")),
            node("Folder", "f2", "machines", ("Folder", "f1")),
            node("Folder", "h", "host", ("Datacenter", "dc")),
            node("ClusterComputeResource", "c", "C0", ("Folder", "h")),
            node("ResourcePool", "r", "Resources", ("ClusterComputeResource", "c")),
            node("ResourcePool", "p", "a%2fb", ("ResourcePool", "r")),
        ];
        Inventory::new(&datacenter, nodes.into_iter().collect())
    }

    #[test]
    fn things_are_found_by_path_by_the_end_of_one_and_by_name() {
        let inventory = inventory();
        let one = |sought, text| inventory.one(sought, "field", text).map(|it| it.value).map_err(|it| it.kind);
        assert_eq!(one(Sought::Folder, "/DC0/vm/machines"), Ok("f1".to_owned()));
        assert_eq!(one(Sought::Folder, "machines/machines"), Ok("f2".to_owned()));
        assert_eq!(one(Sought::Folder, "machines"), Err(ErrorKind::InvalidSpec));
        assert_eq!(one(Sought::Folder, "/DC0/vm/none"), Err(ErrorKind::NotFound));
        assert_eq!(one(Sought::ResourcePool, "/DC0/host/C0/Resources/a%2Fb"), Ok("p".to_owned()));
        assert_eq!(one(Sought::ResourcePool, "C0"), Err(ErrorKind::NotFound), "a cluster is no pool");
        let only = inventory.one_or_only(Sought::ResourcePool, "field", "");
        assert_eq!(only.map(|it| it.value), Ok("r".to_owned()));
    }
}
