//! Finds Machines and nodes by provider ID and address, without looking at all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use api::machine::{Machine, MachineStatus, condition as types, phase};
use api::names::status::FALSE;
use k8s_openapi::api::core::v1::{Node, NodeAddress};

use crate::condition;

/// What identifies a Machine or a node. Nodes have no namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// How several objects were found, in words that people search for.
const BY_PROVIDER_ID: &str = "ProviderID";
const BY_ADDRESS: &str = "internal IP";

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match<T> {
    None,
    One(T),
    Several { by: &'static str, keys: Vec<Key> },
}

/// What a Machine or a node is recognised by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub provider_id: Option<String>,
    /// Internal addresses in their order.
    pub addresses: Vec<String>,
}

/// Machines, or nodes, by what they are recognised by. Kept up to date with [`Index::put`] and [`Index::remove`].
#[derive(Clone, Debug, Default)]
pub struct Index {
    known: BTreeMap<Key, Identity>,
    by_provider_id: HashMap<String, BTreeSet<Key>>,
    by_address: HashMap<String, BTreeSet<Key>>,
}

impl Index {
    /// Adds an object, or replaces what was known of it.
    pub fn put(&mut self, key: Key, identity: Identity) {
        if self.known.get(&key) == Some(&identity) {
            return;
        }
        self.remove(&key);
        if let Some(id) = &identity.provider_id {
            self.by_provider_id.entry(id.clone()).or_default().insert(key.clone());
        }
        for address in &identity.addresses {
            self.by_address.entry(address.clone()).or_default().insert(key.clone());
        }
        self.known.insert(key, identity);
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(Identity { provider_id, addresses }) = self.known.remove(key) else { return };
        let forget = |map: &mut HashMap<String, BTreeSet<Key>>, entry: &str| {
            if let Some(keys) = map.get_mut(entry) {
                keys.remove(key);
                if keys.is_empty() {
                    map.remove(entry);
                }
            }
        };
        provider_id.iter().for_each(|id| forget(&mut self.by_provider_id, id));
        addresses.iter().for_each(|address| forget(&mut self.by_address, address));
    }

    /// Everything with this provider ID.
    pub fn with_provider_id(&self, id: &str) -> impl Iterator<Item = &Key> {
        self.by_provider_id.get(id).into_iter().flatten()
    }

    /// The Machine of a node: by provider ID, else by the first of the node's internal addresses that any Machine has.
    pub fn machine_of(&self, node: &Identity) -> Match<Key> {
        self.find(node.provider_id.as_deref(), node.addresses.iter().map(String::as_str))
    }

    fn find<'a>(&self, id: Option<&str>, addresses: impl Iterator<Item = &'a str>) -> Match<Key> {
        let by_id = id.and_then(|id| self.by_provider_id.get(id));
        if let Some(keys) = by_id {
            return matched(BY_PROVIDER_ID, keys);
        }
        let mut by_address = addresses.filter_map(|address| self.by_address.get(address));
        by_address.next().map_or(Match::None, |keys| matched(BY_ADDRESS, keys))
    }
}

fn matched(by: &'static str, keys: &BTreeSet<Key>) -> Match<Key> {
    match keys.iter().collect::<Vec<_>>().as_slice() {
        [] => Match::None,
        [only] => Match::One((*only).clone()),
        several => Match::Several { by, keys: several.iter().map(|key| (*key).clone()).collect() },
    }
}

impl Match<Key> {
    /// All that were found, if they are several with one address.
    pub fn with_one_address(self) -> Vec<Key> {
        match self {
            Self::Several { by: BY_ADDRESS, keys } => keys,
            Self::None | Self::One(_) | Self::Several { .. } => Vec::new(),
        }
    }
}

/// The node of a Machine, in an index of nodes: what has to be looked at again when the Machine changes.
pub fn node_of(machine: &Identity, nodes: &Index) -> Match<Key> {
    nodes.find(machine.provider_id.as_deref(), machine.addresses.iter().map(String::as_str))
}

impl Key {
    pub fn of(machine: &Machine) -> Self {
        let metadata = &machine.metadata;
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    pub fn of_node(node: &Node) -> Self {
        Self { namespace: String::new(), name: node.metadata.name.clone().unwrap_or_default() }
    }
}

impl Identity {
    /// A Machine without an instance keeps the addresses that it had, for people to read. The cloud may have given them to
    /// another instance, so they identify nobody.
    pub fn of(machine: &Machine) -> Self {
        let addresses = machine.status.as_ref().filter(|status| !has_lost_its_instance(status));
        let addresses = addresses.map(|status| status.addresses.as_slice()).unwrap_or_default();
        Self::new(machine.spec.provider_id.as_ref(), addresses)
    }

    pub fn of_node(node: &Node) -> Self {
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
        Self::new(node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()), addresses)
    }

    fn new(provider_id: Option<&String>, addresses: &[NodeAddress]) -> Self {
        let internal = addresses.iter().filter(|address| address.type_ == "InternalIP");
        Self {
            provider_id: provider_id.filter(|id| !id.is_empty()).cloned(),
            addresses: internal.map(|address| address.address.clone()).filter(|address| !address.is_empty()).collect(),
        }
    }
}

fn has_lost_its_instance(status: &MachineStatus) -> bool {
    let exists = condition::find(&status.conditions, types::INSTANCE_EXISTS);
    status.phase.as_deref() == Some(phase::FAILED) || exists.is_some_and(|exists| exists.status == FALSE)
}

/// `namespace/name`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
