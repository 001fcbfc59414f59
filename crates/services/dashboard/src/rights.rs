//! What a visitor may see: the answers of the API to questions about each kind and namespace.
//!
//! One cache serves everybody, so what a visitor could not read with `kubectl` is taken out of it before anything is drawn
//! from it. What was taken out is told, and is never shown as if there were none of it.

mod asking;
mod kind;

use std::collections::{BTreeMap, BTreeSet};

use api::known::Reading;
use explain::{Drains, Input, Objects};
use kube::ResourceExt;

pub(crate) use asking::Person;
pub(crate) use kind::Kind;

/// Where a visitor may read the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    Everywhere,
    /// Nowhere, if empty.
    Within(BTreeSet<String>),
    /// Like [`Scope::Within`], of a cluster with more namespaces than are asked about.
    Among(BTreeSet<String>),
    /// The API did not say.
    Unknown,
}

/// Everything that a visitor may see. Visitors with the same rights share one view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rights {
    scopes: BTreeMap<Kind, Scope>,
}

impl Rights {
    /// Whatever the dashboard itself may read, for the person who started it.
    pub(crate) fn all() -> Self {
        Self { scopes: Kind::ALL.into_iter().map(|kind| (kind, Scope::Everywhere)).collect() }
    }

    /// These kinds everywhere, and nothing else.
    #[cfg(test)]
    pub(crate) fn only(kinds: &[Kind]) -> Self {
        let scope = |kind| if kinds.contains(&kind) { Scope::Everywhere } else { Scope::Within(BTreeSet::new()) };
        Self { scopes: Kind::ALL.into_iter().map(|kind| (kind, scope(kind))).collect() }.drawn()
    }

    /// The rights that pages are drawn by, so that visitors who differ only in what they may plan share a view.
    pub(crate) fn drawn(&self) -> Self {
        Self { scopes: self.scopes.iter().filter(|(kind, _)| kind.is_drawn()).map(|(k, s)| (*k, s.clone())).collect() }
    }

    /// Whether the API has answered everything.
    pub(crate) fn is_known(&self) -> bool {
        !self.scopes.values().any(|scope| *scope == Scope::Unknown)
    }

    /// Whether every object of a kind may be seen.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.scopes.get(&kind) == Some(&Scope::Everywhere)
    }

    fn sees(&self, kind: Kind, namespace: &str) -> bool {
        match self.scopes.get(&kind) {
            Some(Scope::Everywhere) => true,
            Some(Scope::Within(within) | Scope::Among(within)) => within.contains(namespace),
            Some(Scope::Unknown) | None => false,
        }
    }

    /// Why not every object of a kind is shown.
    pub(crate) fn why(&self, kind: Kind) -> Option<String> {
        let word = kind.word();
        match self.scopes.get(&kind) {
            Some(Scope::Everywhere) => None,
            Some(Scope::Unknown) => Some(format!("whether you may list {word} is not known now")),
            Some(Scope::Within(within) | Scope::Among(within)) if !within.is_empty() => {
                Some(format!("you may list {word} in some namespaces only"))
            }
            Some(Scope::Among(_)) => {
                Some(format!("you may list {word} in none of the namespaces that were asked about"))
            }
            Some(Scope::Within(_)) | None => Some(format!("you may not list {word}")),
        }
    }

    /// Which of these kinds are missing for something, in one sentence.
    pub(crate) fn lack(&self, what: &str, kinds: &[Kind]) -> Option<String> {
        let words = |unknown: bool| {
            let lacking = kinds.iter().filter(|kind| !self.has(**kind));
            let chosen = lacking.filter(|kind| (self.scopes.get(kind) == Some(&Scope::Unknown)) == unknown);
            chosen.map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
        };
        let (missing, unknown) = (words(false), words(true));
        match (missing.is_empty(), unknown.is_empty()) {
            (true, true) => None,
            (false, _) => Some(format!("{what} needs the right to list {missing}, which you do not have.")),
            (true, false) => Some(format!(
                "{what} needs the right to list {unknown}, and the API has not said whether you have it. Try again."
            )),
        }
    }

    /// Takes out what may not be seen, and says so.
    pub(crate) fn narrow(&self, objects: &mut Objects, drains: &mut Drains, notes: &mut Vec<String>) {
        let mut unread = std::mem::take(&mut objects.unread);
        for (kind, input) in [
            (Kind::Pools, Input::Pools),
            (Kind::Nodes, Input::Nodes),
            (Kind::NodeReports, Input::NodeReports),
            (Kind::Ledgers, Input::Ledgers),
            (Kind::Machines, Input::Machines),
            (Kind::MachineSets, Input::MachineSets),
            (Kind::HealthChecks, Input::HealthChecks),
            (Kind::Pods, Input::Pods),
            (Kind::Budgets, Input::Budgets),
        ] {
            match (self.why(kind), self.scopes.get(&kind)) {
                (Some(why), Some(Scope::Within(within) | Scope::Among(within))) if !within.is_empty() => {
                    unread.add_outside(input, within.clone(), why);
                }
                (Some(why), _) => unread.add(input, why),
                (None, _) => {}
            }
        }
        objects.unread = unread;
        self.cluster_wide(Kind::Pools, &mut objects.pools);
        self.cluster_wide(Kind::Nodes, &mut objects.nodes);
        self.cluster_wide(Kind::NodeReports, &mut objects.machine_config_nodes);
        self.cluster_wide(Kind::Ledgers, &mut objects.ledgers);
        self.cluster_wide(Kind::PoolPolicies, &mut objects.pool_policies);
        self.cluster_wide(Kind::KubeletConfigs, &mut objects.kubelet_configs);
        self.cluster_wide(Kind::RuntimeConfigs, &mut objects.container_runtime_configs);
        self.cluster_wide(Kind::Provenances, &mut objects.provenances);
        self.namespaced(Kind::Machines, &mut objects.machines);
        self.namespaced(Kind::MachineSets, &mut objects.machine_sets);
        self.namespaced(Kind::HealthChecks, &mut objects.health_checks);
        self.namespaced(Kind::Deployments, &mut objects.deployments);
        self.namespaced(Kind::Pods, &mut objects.pods);
        self.namespaced(Kind::Pods, &mut drains.pods);
        self.namespaced(Kind::Budgets, &mut drains.budgets);
        if let Some(why) = self.why(Kind::Configs) {
            objects.configs = Reading::Unknown(why);
        }
        if let Some(why) = self.why(Kind::Pods) {
            objects.etcd = Reading::Unknown(why);
        }
        if let Some(why) = self.why(Kind::DaemonSets) {
            drains.daemon_sets = Reading::Unknown(why);
        }
        notes.extend(self.notes());
    }

    /// What is not shown, one sentence for each reason.
    fn notes(&self) -> Vec<String> {
        let nowhere = Scope::Within(BTreeSet::new());
        let words = |scope: fn(&Scope) -> bool| {
            let drawn = Kind::ALL.into_iter().filter(|kind| kind.is_drawn());
            let kinds = drawn.filter(|kind| scope(self.scopes.get(kind).unwrap_or(&nowhere)));
            kinds.map(Kind::word).collect::<Vec<_>>().join(", ")
        };
        let sentences = [
            (
                "You may not list these, so they are not shown",
                words(|scope| matches!(scope, Scope::Within(within) if within.is_empty())),
            ),
            (
                "You may list these in some namespaces, and only those are shown",
                words(|scope| matches!(scope, Scope::Within(within) if !within.is_empty())),
            ),
            (
                "There are more namespaces with these than are asked about, so some that you may list are perhaps not shown",
                words(|scope| matches!(scope, Scope::Among(_))),
            ),
            (
                "The API has not said whether you may list these, so they are not shown now",
                words(|scope| *scope == Scope::Unknown),
            ),
        ];
        let told = sentences.into_iter().filter(|(_, kinds)| !kinds.is_empty());
        told.map(|(sentence, kinds)| format!("{sentence}: {kinds}.")).collect()
    }

    fn cluster_wide<T>(&self, kind: Kind, objects: &mut Vec<T>) {
        if !self.has(kind) {
            objects.clear();
        }
    }

    fn namespaced<T: ResourceExt>(&self, kind: Kind, objects: &mut Vec<T>) {
        objects.retain(|object| self.sees(kind, object.namespace().as_deref().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use api::machine::Machine;
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_not_be_listed_is_taken_out_and_told() {
        let read = |namespace: &str| json!({"metadata": {"name": "a", "namespace": namespace}, "spec": {}});
        let machine = |namespace: &str| serde_json::from_value::<Machine>(read(namespace)).expect("it is one");
        let pod = |namespace: &str| {
            serde_json::from_value::<Pod>(json!({"metadata": {"name": "p", "namespace": namespace}}))
                .expect("it is one")
        };
        let mut objects = Objects {
            nodes: vec![Node::default()],
            machines: vec![machine("mine"), machine("theirs")],
            ..Objects::default()
        };
        let mut drains = Drains { pods: vec![pod("mine"), pod("theirs")], ..Drains::default() };
        let mine = Scope::Within(["mine".to_owned()].into());
        let scopes = [(Kind::Machines, mine.clone()), (Kind::Pods, mine), (Kind::Pools, Scope::Everywhere)];
        let mut notes = Vec::new();
        Rights { scopes: scopes.into() }.narrow(&mut objects, &mut drains, &mut notes);
        assert_eq!((objects.nodes.len(), objects.machines.len(), drains.pods.len()), (0, 1, 1));
        assert_eq!(drains.pods[0].namespace().as_deref(), Some("mine"));
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains("nodes") && !notes[0].contains("machineconfigpools"), "{notes:?}");
        assert!(notes[1].contains("machines, pods"), "{notes:?}");
    }

    #[test]
    fn whoever_started_it_sees_what_it_reads() {
        let mut objects = Objects { nodes: vec![Node::default()], ..Objects::default() };
        let mut notes = Vec::new();
        Rights::all().narrow(&mut objects, &mut Drains::default(), &mut notes);
        assert_eq!((objects.nodes.len(), notes.len()), (1, 0));
        assert!(objects.unread.is_empty());
        Rights { scopes: BTreeMap::new() }.narrow(&mut objects, &mut Drains::default(), &mut notes);
        assert_eq!((objects.nodes.len(), notes.len()), (0, 1));
        assert_eq!(objects.unread.why(Input::Nodes), Some("you may not list nodes"));
    }
}
