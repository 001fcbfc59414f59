//! Which PinnedImageSets each node is told of, and which sets reach no node.
//!
//! A node is told by an annotation: the sets that its pool names, each with its generation, so that a changed set is news. The
//! daemon reads the sets and tells on its MachineConfigNode how far it is.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::{MachineConfigPool, PinnedImageSet};

use crate::plan::{Object, Plan};

/// Tells of a set that no pool names.
pub const UNUSED: &str = "no MachineConfigPool names this PinnedImageSet, so no node pulls its images; add it to spec.pinnedImageSets of a pool";

/// What the planner looks at. Every list is complete.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub pools: Vec<MachineConfigPool>,
    pub sets: Vec<PinnedImageSet>,
    pub nodes: Vec<Member>,
}

/// A node, the pool it is in, and what it is told now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub node: String,
    /// Empty for a node that is in none.
    pub pool: String,
    /// The annotation [`api::annotations::PINNED_IMAGE_SETS`].
    pub told: Option<String>,
}

/// What to write on nodes; `None` takes the annotation off.
pub type Notes = BTreeMap<String, Option<String>>;

/// Decides what nodes and sets are told.
pub fn plan(snapshot: &Snapshot) -> (Notes, Plan) {
    let generations: BTreeMap<&str, i64> = snapshot
        .sets
        .iter()
        .filter_map(|set| Some((set.metadata.name.as_deref()?, set.metadata.generation?)))
        .collect();
    let of_pools: BTreeMap<&str, String> = snapshot
        .pools
        .iter()
        .filter_map(|pool| Some((pool.metadata.name.as_deref()?, told(pool, &generations))))
        .collect();
    let mut notes = Notes::new();
    for member in &snapshot.nodes {
        let wanted = of_pools.get(member.pool.as_str()).filter(|wanted| !wanted.is_empty()).cloned();
        if member.told != wanted {
            notes.insert(member.node.clone(), wanted);
        }
    }
    let named = snapshot.pools.iter().flat_map(|pool| &pool.spec.pinned_image_sets).map(|named| named.name.as_str());
    let named: BTreeSet<&str> = named.collect();
    let mut plan = Plan::default();
    for set in &snapshot.sets {
        let name = set.metadata.name.clone().unwrap_or_default();
        let says = if named.contains(name.as_str()) { "" } else { UNUSED };
        plan.remark(Object::new("PinnedImageSet", name), &set.metadata, "NotUsed", says);
    }
    (notes, plan)
}

/// The sets of a pool. One that does not exist is named too: its nodes say that it is missing.
fn told(pool: &MachineConfigPool, generations: &BTreeMap<&str, i64>) -> String {
    let names: BTreeSet<&str> = pool.spec.pinned_image_sets.iter().map(|named| named.name.as_str()).collect();
    let one = |name: &str| format!("{name}@{}", generations.get(name).copied().unwrap_or_default());
    names.into_iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use api::annotations;
    use serde_json::json;

    use super::*;

    fn pool(name: &str, sets: &[&str]) -> MachineConfigPool {
        let sets: Vec<_> = sets.iter().map(|name| json!({"name": name})).collect();
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": name}, "spec": {"pinnedImageSets": sets},
        });
        serde_json::from_value(pool).unwrap()
    }

    fn set(name: &str, generation: i64, says: Option<&str>) -> PinnedImageSet {
        let mut set = PinnedImageSet::new(name, Default::default());
        set.metadata.generation = Some(generation);
        set.metadata.annotations = says.map(|says| [(annotations::IGNORED.to_owned(), says.to_owned())].into());
        set
    }

    fn member(node: &str, pool: &str, told: Option<&str>) -> Member {
        Member { node: node.into(), pool: pool.into(), told: told.map(str::to_owned) }
    }

    #[test]
    fn nodes_are_told_of_the_sets_of_their_pool_and_only_what_is_new() {
        let snapshot = Snapshot {
            pools: vec![pool("worker", &["b", "a", "missing"]), pool("master", &[])],
            sets: vec![set("a", 3, None), set("b", 1, None)],
            nodes: vec![
                member("new", "worker", None),
                member("known", "worker", Some("a@3,b@1,missing@0")),
                member("older", "worker", Some("a@2,b@1,missing@0")),
                member("moved", "master", Some("a@3,b@1,missing@0")),
                member("none", "", Some("a@3")),
                member("master", "master", None),
            ],
        };
        let (notes, plan) = plan(&snapshot);
        let wanted = Some("a@3,b@1,missing@0".to_owned());
        let expected = [("new", wanted.clone()), ("older", wanted), ("moved", None), ("none", None)];
        assert_eq!(notes, expected.map(|(node, told)| (node.to_owned(), told)).into());
        assert!(plan.is_empty(), "{plan:?}");
    }

    #[test]
    fn a_set_that_no_pool_names_says_so_once_and_no_longer_than_that() {
        let said = |pools: Vec<MachineConfigPool>, says: Option<&str>| {
            let snapshot = Snapshot { pools, sets: vec![set("a", 1, says)], nodes: Vec::new() };
            let (_, plan) = plan(&snapshot);
            let texts: Vec<String> = plan.updates.iter().flat_map(|it| it.annotations.values().cloned()).collect();
            (texts, plan.events.len())
        };
        assert_eq!(said(vec![], None), (vec![UNUSED.to_owned()], 1));
        assert_eq!(said(vec![], Some(UNUSED)), (vec![], 0));
        let named = || vec![pool("worker", &["a"])];
        assert_eq!(said(named(), Some("what an earlier version said")), (vec![String::new()], 0));
        assert_eq!(said(named(), Some("")), (vec![], 0));
        assert_eq!(said(named(), None), (vec![], 0));
    }
}
