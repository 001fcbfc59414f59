//! Finds the objects that a change concerns without looking at all of them.
//!
//! The index holds keys only; objects are always taken from the stores. It is brought up to date before the work that a
//! change causes is queued.

use std::collections::{BTreeSet, HashMap};

use api::labels;
use api::machine::Machine;
use cluster::watch::Key;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use machine::link::{self, Identity, Match};
use machine::set::name_prefix;

#[derive(Default)]
pub(crate) struct Index {
    /// What each Machine was filed under, to take it out again.
    filed: HashMap<Key, Filed>,
    /// All Machines in order, to find names by their beginning.
    names: BTreeSet<Key>,
    by_owner: HashMap<String, BTreeSet<Key>>,
    /// Machines without a controller, by namespace.
    unowned: HashMap<String, BTreeSet<Key>>,
    /// Machines by the node that their status names.
    by_node: HashMap<String, BTreeSet<Key>>,
    machines: link::Index,
    nodes: link::Index,
    /// All nodes in order, to find names by their beginning.
    node_names: BTreeSet<String>,
    control_plane: BTreeSet<String>,
}

#[derive(PartialEq)]
struct Filed {
    owner: Option<String>,
    node: Option<String>,
}

impl Index {
    /// Takes in a Machine as it is now, or that it is gone.
    pub(crate) fn put_machine(&mut self, key: &Key, machine: Option<&Machine>) {
        let filed = machine.map(|machine| Filed {
            owner: controller(machine).map(|owner| owner.uid.clone()),
            node: node_name(machine).map(str::to_owned),
        });
        match machine {
            Some(machine) => self.machines.put(link_key(key), Identity::of(machine)),
            None => self.machines.remove(&link_key(key)),
        }
        if self.filed.get(key) == filed.as_ref() {
            return;
        }
        if let Some(Filed { owner, node }) = self.filed.remove(key) {
            match owner {
                Some(owner) => take(&mut self.by_owner, &owner, key),
                None => take(&mut self.unowned, &key.namespace, key),
            }
            node.iter().for_each(|node| take(&mut self.by_node, node, key));
            self.names.remove(key);
        }
        let Some(filed) = filed else { return };
        match &filed.owner {
            Some(owner) => self.by_owner.entry(owner.clone()).or_default().insert(key.clone()),
            None => self.unowned.entry(key.namespace.clone()).or_default().insert(key.clone()),
        };
        if let Some(node) = &filed.node {
            self.by_node.entry(node.clone()).or_default().insert(key.clone());
        }
        self.names.insert(key.clone());
        self.filed.insert(key.clone(), filed);
    }

    /// Takes in a node as it is now, or that it is gone.
    pub(crate) fn put_node(&mut self, key: &Key, node: Option<&Node>) {
        match node {
            Some(node) => {
                self.nodes.put(link_key(key), Identity::of_node(node));
                self.node_names.insert(key.name.clone());
            }
            None => {
                self.nodes.remove(&link_key(key));
                self.node_names.remove(&key.name);
            }
        }
        if node.is_some_and(is_control_plane) {
            self.control_plane.insert(key.name.clone());
        } else {
            self.control_plane.remove(&key.name);
        }
    }

    /// The Machines that a set owns or could adopt, and those that could be in the way of its names.
    pub(crate) fn members(&self, set: &Key, uid: &str) -> BTreeSet<Key> {
        let prefix = name_prefix(&set.name);
        let from = Key::in_namespace(&set.namespace, &prefix);
        let alike = self.names.range(from..);
        let alike = alike.take_while(|key| key.namespace == set.namespace && key.name.starts_with(&prefix));
        let owned = self.by_owner.get(uid).into_iter().flatten();
        let unowned = self.unowned.get(&set.namespace).into_iter().flatten();
        owned.chain(unowned).chain(alike).cloned().collect()
    }

    /// Nodes whose names a new Machine of the set must not get: they have no Machine of that name, and where hosts are called
    /// as their Machines are, its kubelet would find them.
    pub(crate) fn nodes_in_the_way(&self, set: &Key) -> Vec<String> {
        let prefix = name_prefix(&set.name);
        let alike = self.node_names.range(prefix.clone()..).take_while(|name| name.starts_with(&prefix));
        alike.filter(|name| !self.names.contains(&Key::in_namespace(&set.namespace, name))).cloned().collect()
    }

    pub(crate) fn is_control_plane(&self, node: &str) -> bool {
        self.control_plane.contains(node)
    }

    /// The Machines with this provider ID.
    pub(crate) fn with_provider_id(&self, id: &str) -> Vec<Key> {
        self.machines.with_provider_id(id).map(store_key).collect()
    }

    /// The Machines whose status names this node.
    pub(crate) fn of_node(&self, node: &str) -> Vec<Key> {
        self.by_node.get(node).into_iter().flatten().cloned().collect()
    }

    /// The Machine that a node belongs to.
    pub(crate) fn machine_of(&self, node: &Node) -> Match<Key> {
        match self.machines.machine_of(&Identity::of_node(node)) {
            Match::None => Match::None,
            Match::One(key) => Match::One(store_key(&key)),
            Match::Several { by, keys } => Match::Several { by, keys },
        }
    }

    /// The Machines that have the address of one node, if they are several.
    pub(crate) fn contenders(&self, node: &Node) -> Vec<Key> {
        self.machines.machine_of(&Identity::of_node(node)).with_one_address().iter().map(store_key).collect()
    }

    /// The nodes that have to be looked at when this Machine changes.
    pub(crate) fn nodes_of(&self, machine: &Machine) -> Vec<String> {
        match link::node_of(&Identity::of(machine), &self.nodes) {
            Match::None => Vec::new(),
            Match::One(key) => vec![key.name],
            Match::Several { by: _, keys } => keys.into_iter().map(|key| key.name).collect(),
        }
    }

    pub(crate) fn control_plane(&self) -> Vec<String> {
        self.control_plane.iter().cloned().collect()
    }
}

fn take(map: &mut HashMap<String, BTreeSet<Key>>, entry: &str, key: &Key) {
    if let Some(keys) = map.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(entry);
        }
    }
}

fn link_key(key: &Key) -> link::Key {
    link::Key { namespace: key.namespace.clone(), name: key.name.clone() }
}

pub(crate) fn store_key(key: &link::Key) -> Key {
    Key::in_namespace(&key.namespace, &key.name)
}

/// Who makes another Machine when this one goes.
pub(crate) fn controller(machine: &Machine) -> Option<&OwnerReference> {
    machine.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The name in a Machine's nodeRef.
pub(crate) fn node_name(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref()?.name.as_deref()
}

fn is_control_plane(node: &Node) -> bool {
    let roles = [labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_MASTER];
    node.metadata.labels.as_ref().is_some_and(|all| roles.iter().any(|role| all.contains_key(*role)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn machine(name: &str, owner: Option<&str>) -> Machine {
        let owners: Vec<_> = owner
            .map(|uid| json!({"apiVersion": "v1", "kind": "MachineSet", "name": "s", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let metadata = json!({"name": name, "namespace": "ns", "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
    }

    #[test]
    fn a_set_sees_its_own_machines_those_it_could_adopt_and_those_in_the_way_of_its_names() {
        let mut index = Index::default();
        for (name, owner) in [("old", Some("u")), ("free", None), ("s-abcde", Some("v")), ("other", Some("v"))] {
            index.put_machine(&Key::in_namespace("ns", name), Some(&machine(name, owner)));
        }
        let names = |index: &Index| {
            let members = index.members(&Key::in_namespace("ns", "s"), "u");
            members.into_iter().map(|key| key.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&index), ["free", "old", "s-abcde"]);
        index.put_machine(&Key::in_namespace("ns", "free"), Some(&machine("free", Some("v"))));
        index.put_machine(&Key::in_namespace("ns", "s-abcde"), None);
        assert_eq!(names(&index), ["old"]);
    }
}
