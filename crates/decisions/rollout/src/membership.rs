//! Decides which pool a node belongs to.
//!
//! One pool with a broken selector fails alone: it has no members, and all other pools go on. A node that two custom
//! pools want belongs to neither until a person decides; it never holds up any other node.

use std::collections::BTreeMap;
use std::fmt;

use api::machineconfiguration::MachineConfigPool;
use api::selector::{Selector, SelectorError};
use api::{labels, names};

use crate::control_plane::is_control_plane;
use crate::node::NodeFacts;

/// Every pool's node selector, checked.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    pools: Vec<(String, NodeSelector)>,
}

/// What a pool's node selector amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelector {
    /// It selects by label.
    Labels(Selector),
    /// There is none, so it selects nothing.
    Missing,
    /// It is `{}`, which a person may have meant as everything. It selects nothing.
    Everything,
    /// It cannot be used.
    Broken(SelectorError),
}

/// Where a node belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// No pool wants it, or it is a Windows node. That is not an error.
    Unmanaged,
    /// It follows `primary`. `also` is the worker pool, when that matches too.
    Member {
        primary: String,
        also: Option<String>,
        /// A custom pool that wants this control-plane node and does not get it.
        ignored: Option<String>,
    },
    /// More than one custom pool wants it, so it follows none.
    Contested(Contested),
}

/// A node that several custom pools want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    pub node: String,
    pub pools: Vec<String>,
    /// What the node's MachineConfigNode says about that.
    pub reported: Option<String>,
}

impl Contested {
    /// Whether people were told already.
    pub fn is_reported(&self) -> bool {
        self.reported.as_deref() == Some(self.to_string().as_str())
    }
}

impl fmt::Display for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} belongs to {} custom roles, cannot proceed with this Node: the nodeSelector of each of the pools {} \
             matches it; change the node's labels so that only one does",
            self.node,
            self.pools.len(),
            self.pools.join(", "),
        )
    }
}

impl Pools {
    /// Reads the node selectors of all pools.
    pub fn from_objects<'a>(pools: impl IntoIterator<Item = &'a MachineConfigPool>) -> Self {
        let mut pools: Vec<_> = pools
            .into_iter()
            .map(|pool| (pool.metadata.name.clone().unwrap_or_default(), NodeSelector::from_pool(pool)))
            .collect();
        pools.sort_by(|left, right| left.0.cmp(&right.0));
        Self { pools }
    }

    /// The selectors that cannot be used, with the pool that has them.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &SelectorError)> {
        self.pools.iter().filter_map(|(name, selector)| match selector {
            NodeSelector::Broken(error) => Some((name.as_str(), error)),
            NodeSelector::Labels(_) | NodeSelector::Missing | NodeSelector::Everything => None,
        })
    }

    /// The selector of one pool.
    pub fn selector(&self, pool: &str) -> Option<&NodeSelector> {
        self.pools.iter().find(|(name, _)| name == pool).map(|(_, selector)| selector)
    }

    /// Decides where a node belongs. One that was born into a custom pool and does not carry that pool's labels yet belongs
    /// nowhere until it does, so that it is not given the config of another pool first.
    pub fn of(&self, facts: &NodeFacts) -> Membership {
        match self.birthplace(facts) {
            Some((_, selector)) if !selector.matches(&facts.labels) => Membership::Unmanaged,
            Some(_) | None => self.of_node(&facts.name, &facts.labels),
        }
    }

    /// The custom pool that a node was born into, while the node has not been given that pool's labels.
    pub fn birthplace(&self, facts: &NodeFacts) -> Option<(&str, &Selector)> {
        let born = facts.first_pivot.as_deref().filter(|_| !facts.labels_applied)?;
        let (pool, _) = born.strip_prefix(names::RENDERED_PREFIX)?.rsplit_once('-')?;
        if pool == names::POOL_WORKER || is_control_plane(pool) {
            return None;
        }
        let found = self.pools.iter().find(|(name, _)| name == pool)?;
        match &found.1 {
            // By another name it is the control plane too.
            NodeSelector::Labels(selector) if makes_control_plane(selector) => None,
            NodeSelector::Labels(selector) => Some((&found.0, selector)),
            NodeSelector::Missing | NodeSelector::Everything | NodeSelector::Broken(_) => None,
        }
    }

    /// Decides where a node with these labels belongs.
    pub fn of_node(&self, node: &str, labels: &BTreeMap<String, String>) -> Membership {
        if labels.get(labels::OS).is_some_and(|os| os == "windows") {
            return Membership::Unmanaged;
        }
        let (mut master, mut worker, mut custom) = (None, None, Vec::new());
        for (name, selector) in &self.pools {
            if !selector.matches(labels) {
                continue;
            }
            match name.as_str() {
                names::POOL_MASTER => master = Some(name.clone()),
                names::POOL_WORKER => worker = Some(name.clone()),
                _ => custom.push(name.clone()),
            }
        }
        if custom.len() > 1 {
            return Membership::Contested(Contested { node: node.to_owned(), pools: custom, reported: None });
        }
        match (master, custom.pop(), worker) {
            (Some(primary), Some(ignored), also) => Membership::Member { primary, also, ignored: Some(ignored) },
            // A control-plane node that also is a worker lives under the control plane alone.
            (Some(primary), None, _) | (None, None, Some(primary)) => {
                Membership::Member { primary, also: None, ignored: None }
            }
            (None, Some(primary), also) => Membership::Member { primary, also, ignored: None },
            (None, None, None) => Membership::Unmanaged,
        }
    }
}

/// Whether a node gets a label of the control plane by being selected.
fn makes_control_plane(selector: &Selector) -> bool {
    let roles = [labels::NODE_ROLE_MASTER, labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_ARBITER];
    selector.implied_labels().keys().any(|key| roles.contains(&key.as_str()))
}

impl NodeSelector {
    pub(crate) fn from_pool(pool: &MachineConfigPool) -> Self {
        let Some(selector) = pool.spec.node_selector.as_ref().or(pool.spec.machine_selector.as_ref()) else {
            return Self::Missing;
        };
        match Selector::parse(selector) {
            Ok(selector) if selector.is_empty() => Self::Everything,
            Ok(selector) => Self::Labels(selector),
            Err(error) => Self::Broken(error),
        }
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Labels(selector) => selector.matches(labels),
            Self::Missing | Self::Everything | Self::Broken(_) => false,
        }
    }
}

impl Membership {
    /// The pool that counts, targets and reports the node.
    pub fn primary(&self) -> Option<&str> {
        match self {
            Self::Member { primary, .. } => Some(primary),
            Self::Unmanaged | Self::Contested(_) => None,
        }
    }
}
