//! Who uses which rendered config: pools by their spec and status, nodes by their annotations.
//!
//! Counted change by change, so that asking costs the same for any size of fleet.

use std::collections::{BTreeSet, HashMap};

use api::machineconfiguration::MachineConfigPool;
use cluster::Change;
use rollout::NodeFacts;

#[derive(Default)]
pub(super) struct References {
    counts: HashMap<String, usize>,
}

impl References {
    /// Whether a pool or a node refers to this config.
    pub(super) fn is_used(&self, config: &str) -> bool {
        self.counts.contains_key(config)
    }

    /// Takes in a node; returns the configs that nobody uses any more.
    pub(super) fn node_changed(&mut self, change: &Change<NodeFacts>) -> Vec<String> {
        self.replace(change.old.as_deref().map(of_node), change.new.as_deref().map(of_node))
    }

    /// Takes in a pool; returns the configs that nobody uses any more.
    pub(super) fn pool_changed(&mut self, change: &Change<MachineConfigPool>) -> Vec<String> {
        self.replace(change.old.as_deref().map(of_pool), change.new.as_deref().map(of_pool))
    }

    fn replace(&mut self, old: Option<BTreeSet<&str>>, new: Option<BTreeSet<&str>>) -> Vec<String> {
        if old == new {
            return Vec::new();
        }
        for name in new.into_iter().flatten() {
            *self.counts.entry(name.to_owned()).or_default() += 1;
        }
        let mut released = Vec::new();
        for name in old.into_iter().flatten() {
            let Some(count) = self.counts.get_mut(name) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(name);
                released.push(name.to_owned());
            }
        }
        released
    }
}

fn of_node(node: &NodeFacts) -> BTreeSet<&str> {
    [node.current.as_deref(), node.desired.as_deref()].into_iter().flatten().collect()
}

fn of_pool(pool: &MachineConfigPool) -> BTreeSet<&str> {
    let spec = pool.spec.configuration.as_ref();
    let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    spec.into_iter().chain(status).filter_map(|configuration| configuration.name.as_deref()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cluster::watch::Key;

    use super::*;

    fn node(current: &str, desired: &str) -> Option<Arc<NodeFacts>> {
        let facts =
            NodeFacts { current: Some(current.to_owned()), desired: Some(desired.to_owned()), ..NodeFacts::default() };
        Some(Arc::new(facts))
    }

    #[test]
    fn a_config_is_released_by_its_last_user() {
        let mut references = References::default();
        let key = |name| Key::cluster(name);
        references.node_changed(&Change { key: key("a"), old: None, new: node("one", "two") });
        references.node_changed(&Change { key: key("b"), old: None, new: node("one", "one") });
        let moved = Change { key: key("a"), old: node("one", "two"), new: node("two", "two") };
        assert!(references.node_changed(&moved).is_empty());
        assert!(references.is_used("one"));
        let gone = Change { key: key("b"), old: node("one", "one"), new: None };
        assert_eq!(references.node_changed(&gone), ["one"]);
        assert!(!references.is_used("one") && references.is_used("two"));
    }
}
