//! One look at the fleet: what every page is drawn from, and what changed since the look before.

use std::collections::BTreeMap;

use explain::decided::decide;
use explain::{Drains, Explanation, Fleet, Input, Member, Objects, Snapshot, State};
use jiff::Timestamp;
use serde::Serialize;

/// The fleet at one moment.
pub(crate) struct Scene {
    pub(crate) version: u64,
    pub(crate) snapshot: Snapshot,
    pub(crate) fleet: Fleet,
    /// What could not be read, one sentence each.
    pub(crate) notes: Vec<String>,
}

/// A pool as a band of cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Band {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) nodes: usize,
    pub(crate) updated: usize,
    /// Whether its nodes could be looked at; else the numbers say nothing.
    pub(crate) counted: bool,
    pub(crate) summary: String,
    pub(crate) waits: Vec<String>,
}

/// The cells of a band: names and, in the same order, one letter for each state.
#[derive(Serialize)]
pub(crate) struct Cells<'a> {
    #[serde(flatten)]
    pub(crate) band: &'a Band,
    pub(crate) names: Vec<&'a str>,
    pub(crate) states: String,
}

/// What is different from the scene before.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Delta {
    pub(crate) version: u64,
    /// Nodes came, went or changed their pool: the cells are fetched anew.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) moved: bool,
    /// The new letter of each node whose state changed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) nodes: BTreeMap<String, char>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pools: Vec<Band>,
    /// What can be read has changed: every page says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) noted: bool,
    /// Anything at all is said differently: pages of one object look again.
    pub(crate) said: bool,
}

impl Scene {
    /// Reads objects and asks the planners about them.
    pub(crate) fn new(version: u64, mut objects: Objects, drains: &Drains, notes: Vec<String>, now: Timestamp) -> Self {
        decide(&mut objects, drains, now);
        let snapshot = Snapshot::from_objects(&objects, now);
        let fleet = Fleet::of(&snapshot, None);
        Self { version, snapshot, fleet, notes }
    }

    /// Pools with their counts, and the nodes that follow none as one band without a name.
    pub(crate) fn bands(&self) -> Vec<Band> {
        let mut bands: Vec<Band> = self.fleet.pools.iter().map(|pool| self.band(pool)).collect();
        let lone = self.members("").count();
        if lone > 0 {
            let (state, summary) = match self.snapshot.unread.why(Input::Pools) {
                Some(why) => (State::Unknown, format!("which pools these nodes follow is not known: {why}")),
                None => (State::Unmanaged, "these nodes follow no pool, or several".to_owned()),
            };
            bands.push(Band {
                name: String::new(),
                state,
                nodes: lone,
                updated: 0,
                counted: state != State::Unknown,
                summary,
                waits: Vec::new(),
            });
        }
        bands
    }

    fn band(&self, pool: &Explanation) -> Band {
        let facts = &self.snapshot.pools[&pool.name];
        let has_target = |name: &&Explanation| {
            let node = &self.snapshot.nodes[&name.name];
            node.done && node.current.as_deref() == Some(&facts.target)
        };
        Band {
            name: pool.name.clone(),
            state: pool.state,
            nodes: self.members(&pool.name).count(),
            updated: self.members(&pool.name).filter(has_target).count(),
            counted: self.snapshot.unread.why(Input::Nodes).is_none(),
            summary: pool.summary.clone(),
            waits: pool.waiting_for.clone(),
        }
    }

    /// The nodes of a band, by name.
    pub(crate) fn members<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Explanation> {
        self.fleet.nodes.iter().filter(move |node| self.pool_of(&node.name) == pool)
    }

    /// The pool that a node follows; empty if none, or several.
    pub(crate) fn pool_of(&self, node: &str) -> &str {
        match self.snapshot.nodes.get(node).map(|facts| &facts.member) {
            Some(Member::Pool(pool)) => pool,
            Some(Member::Contested(_) | Member::Born(_) | Member::Unmanaged) | None => "",
        }
    }

    /// What is different from an earlier scene.
    pub(crate) fn since(&self, old: &Self) -> Delta {
        let mut delta = Delta { version: self.version, ..Delta::default() };
        let mut before = old.fleet.nodes.iter();
        let same_nodes = self.fleet.nodes.len() == old.fleet.nodes.len()
            && self.fleet.nodes.iter().all(|node| {
                before.next().is_some_and(|was| was.name == node.name)
                    && self.pool_of(&node.name) == old.pool_of(&node.name)
            });
        delta.moved = !same_nodes || self.fleet.pools.len() != old.fleet.pools.len();
        if !delta.moved {
            let changed = self.fleet.nodes.iter().zip(&old.fleet.nodes).filter(|(new, old)| new.state != old.state);
            delta.nodes = changed.map(|(new, _)| (new.name.clone(), letter(new.state))).collect();
            let (new, old) = (self.bands(), old.bands());
            delta.pools = new.into_iter().filter(|band| !old.contains(band)).collect();
        }
        delta.noted = self.notes != old.notes;
        delta.said = delta.moved
            || delta.noted
            || self.fleet.nodes != old.fleet.nodes
            || self.fleet.pools != old.fleet.pools
            || self.fleet.machines != old.fleet.machines
            || self.fleet.machine_sets != old.fleet.machine_sets;
        delta
    }
}

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        !self.moved && !self.said && self.nodes.is_empty() && self.pools.is_empty()
    }
}

/// The letter that stands for a state on the wire, where ten thousand of them are sent.
pub(crate) fn letter(state: State) -> char {
    match state {
        State::Updated => 'u',
        State::Running => 'r',
        State::Updating => 'm',
        State::Provisioning => 'n',
        State::Deleting => 'x',
        State::Waiting => 'w',
        State::Paused => 'p',
        State::Blocked => 'b',
        State::Degraded => 'd',
        State::Failed => 'f',
        State::Unmanaged => 'o',
        State::Unknown => 'q',
    }
}

/// A sign beside the colour, for people who see no difference between colours.
pub(crate) fn sign(state: State) -> &'static str {
    match state {
        State::Updated | State::Running => "✓",
        State::Updating | State::Provisioning => "↻",
        State::Deleting => "−",
        State::Waiting => "…",
        State::Paused => "‖",
        State::Blocked => "!",
        State::Degraded | State::Failed => "✕",
        State::Unmanaged => "○",
        State::Unknown => "?",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, current: &str, state: &str) -> Value {
        let prefix = "machineconfiguration.openshift.io";
        json!({"metadata": {"name": name, "labels": {"node-role.kubernetes.io/worker": ""}, "annotations": {
            format!("{prefix}/currentConfig"): current,
            format!("{prefix}/desiredConfig"): "rendered-worker-2",
            format!("{prefix}/state"): state,
        }}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    }

    fn scene(version: u64, nodes: &[Value]) -> Scene {
        scene_without(version, nodes, &[])
    }

    fn scene_without(version: u64, nodes: &[Value], hidden: &[Input]) -> Scene {
        let pool = json!({"metadata": {"name": "worker"}, "spec": {
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}},
            "configuration": {"name": "rendered-worker-2"},
        }});
        let mut objects = Objects {
            pools: vec![serde_json::from_value(pool).expect("it is a pool")],
            nodes: nodes.iter().map(|node| serde_json::from_value(node.clone()).expect("it is a node")).collect(),
            ..Objects::default()
        };
        for input in hidden {
            objects.unread.add(*input, "you may not list them");
            if *input == Input::Pools {
                objects.pools.clear();
            }
        }
        Scene::new(version, objects, &Drains::default(), Vec::new(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_node_that_arrives_is_one_letter_and_its_pool() {
        let old = scene(1, &[node("a", "rendered-worker-1", "Working"), node("b", "rendered-worker-2", "Done")]);
        let new = scene(2, &[node("a", "rendered-worker-2", "Done"), node("b", "rendered-worker-2", "Done")]);
        let delta = new.since(&old);
        assert!(!delta.moved && delta.said);
        assert_eq!(delta.nodes, BTreeMap::from([("a".to_owned(), 'u')]));
        expect![[r#"[(1, Updating), (2, Updated)]"#]].assert_eq(&format!(
            "{:?}",
            [&old, &new].map(|scene| scene
                .bands()
                .into_iter()
                .map(|band| (band.updated, band.state))
                .next()
                .expect("a band"))
        ));
        assert!(new.since(&new).is_empty());
    }

    #[test]
    fn what_is_hidden_is_neither_none_nor_well() {
        let nodes = [node("a", "rendered-worker-1", "Working")];
        let [band] = &scene_without(1, &[], &[Input::Nodes]).bands()[..] else { panic!("there is one pool") };
        assert_eq!((band.state, band.counted), (State::Unknown, false));
        assert!(band.summary.contains("its nodes are not known: you may not list them"), "{band:?}");
        let homeless = scene_without(1, &nodes, &[Input::Pools]);
        let [band] = &homeless.bands()[..] else { panic!("there is one band") };
        assert_eq!((band.state, band.counted, band.nodes), (State::Unknown, false, 1));
        assert_eq!(homeless.fleet.nodes[0].state, State::Unknown);
    }

    #[test]
    fn a_node_that_comes_or_leaves_its_pool_moves_cells() {
        let one = scene(1, &[node("a", "rendered-worker-2", "Done")]);
        let two = scene(2, &[node("a", "rendered-worker-2", "Done"), node("b", "rendered-worker-2", "Done")]);
        assert!(two.since(&one).moved && one.since(&two).moved);
        let mut stranger = node("b", "rendered-worker-2", "Done");
        stranger["metadata"]["labels"] = json!({});
        let three = scene(3, &[node("a", "rendered-worker-2", "Done"), stranger]);
        assert!(three.since(&two).moved);
        assert_eq!(three.bands().last().map(|band| (band.name.as_str(), band.nodes)), Some(("", 1)));
    }
}
