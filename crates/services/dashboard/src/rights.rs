//! What a visitor may see: the answers of the API to questions about each kind and namespace.
//!
//! One cache serves everybody, so what a visitor could not read with `kubectl` is taken out of it before anything is drawn
//! from it. What was taken out is told, and is never shown as if there were none of it.

use std::collections::{BTreeMap, BTreeSet};

use explain::{Drains, Objects};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// A kind that pages are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Pools,
    Nodes,
    NodeReports,
    Ledgers,
    Configs,
    Provenances,
    KubeletConfigs,
    RuntimeConfigs,
    Machines,
    MachineSets,
    HealthChecks,
    Deployments,
    Pods,
    Budgets,
    DaemonSets,
    Events,
}

impl Kind {
    pub(crate) const ALL: [Self; 16] = [
        Self::Pools,
        Self::Nodes,
        Self::NodeReports,
        Self::Ledgers,
        Self::Configs,
        Self::Provenances,
        Self::KubeletConfigs,
        Self::RuntimeConfigs,
        Self::Machines,
        Self::MachineSets,
        Self::HealthChecks,
        Self::Deployments,
        Self::Pods,
        Self::Budgets,
        Self::DaemonSets,
        Self::Events,
    ];

    /// Its group and plural.
    pub(crate) fn resource(self) -> (&'static str, &'static str) {
        const MCO: &str = "machineconfiguration.openshift.io";
        const MACHINE: &str = "machine.openshift.io";
        match self {
            Self::Pools => (MCO, "machineconfigpools"),
            Self::Nodes => ("", "nodes"),
            Self::NodeReports => (MCO, "machineconfignodes"),
            Self::Ledgers => ("machinist.dev", "poolledgers"),
            Self::Configs => (MCO, "machineconfigs"),
            Self::Provenances => ("machinist.dev", "renderedprovenances"),
            Self::KubeletConfigs => (MCO, "kubeletconfigs"),
            Self::RuntimeConfigs => (MCO, "containerruntimeconfigs"),
            Self::Machines => (MACHINE, "machines"),
            Self::MachineSets => (MACHINE, "machinesets"),
            Self::HealthChecks => (MACHINE, "machinehealthchecks"),
            Self::Deployments => ("apps", "deployments"),
            Self::Pods => ("", "pods"),
            Self::Budgets => ("policy", "poddisruptionbudgets"),
            Self::DaemonSets => ("apps", "daemonsets"),
            Self::Events => ("", "events"),
        }
    }

    fn is_namespaced(self) -> bool {
        matches!(
            self,
            Self::Machines
                | Self::MachineSets
                | Self::HealthChecks
                | Self::Deployments
                | Self::Pods
                | Self::Budgets
                | Self::DaemonSets
                | Self::Events
        )
    }
}

/// Where a visitor may read the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    Everywhere,
    /// Nowhere, if empty.
    Within(BTreeSet<String>),
}

/// Everything that a visitor may see. Visitors with the same rights share one view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rights {
    scopes: BTreeMap<Kind, Scope>,
}

/// Who a visitor is to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Rights {
    /// Whatever the dashboard itself may read, for the person who started it.
    pub(crate) fn all() -> Self {
        Self { scopes: Kind::ALL.into_iter().map(|kind| (kind, Scope::Everywhere)).collect() }
    }

    pub(crate) fn none() -> Self {
        Self { scopes: BTreeMap::new() }
    }

    /// Asks the API about every kind, and about each of these namespaces where not everything may be read.
    ///
    /// # Errors
    /// When the API does not answer: nothing is known then, so nothing is shown.
    pub(crate) async fn of(
        client: &Client,
        person: &Person,
        namespaces: &BTreeMap<Kind, BTreeSet<String>>,
    ) -> Result<Self, kube::Error> {
        let mut scopes = BTreeMap::new();
        for kind in Kind::ALL {
            if ask(client, person, kind, None).await? {
                scopes.insert(kind, Scope::Everywhere);
                continue;
            }
            let mut within = BTreeSet::new();
            if kind.is_namespaced() {
                for namespace in namespaces.get(&kind).into_iter().flatten() {
                    if ask(client, person, kind, Some(namespace)).await? {
                        within.insert(namespace.clone());
                    }
                }
            }
            scopes.insert(kind, Scope::Within(within));
        }
        Ok(Self { scopes })
    }

    /// Whether every object of a kind may be seen.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.scopes.get(&kind) == Some(&Scope::Everywhere)
    }

    fn sees(&self, kind: Kind, namespace: &str) -> bool {
        match self.scopes.get(&kind) {
            Some(Scope::Everywhere) => true,
            Some(Scope::Within(within)) => within.contains(namespace),
            None => false,
        }
    }

    /// Takes out what may not be seen, and says so.
    pub(crate) fn narrow(&self, objects: &mut Objects, drains: &mut Drains, notes: &mut Vec<String>) {
        self.cluster_wide(Kind::Pools, &mut objects.pools);
        self.cluster_wide(Kind::Nodes, &mut objects.nodes);
        self.cluster_wide(Kind::NodeReports, &mut objects.machine_config_nodes);
        self.cluster_wide(Kind::Ledgers, &mut objects.ledgers);
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
        if !self.has(Kind::Configs) {
            objects.configs = api::known::Reading::Unknown("you may not list machineconfigs".to_owned());
        }
        if !self.has(Kind::Pods) {
            objects.etcd = api::known::Reading::Unknown("you may not list pods everywhere".to_owned());
        }
        if !self.has(Kind::DaemonSets) {
            drains.daemon_sets = api::known::Reading::Unknown("you may not list daemonsets everywhere".to_owned());
        }
        notes.extend(self.notes());
    }

    /// What is not shown, one sentence for all of it.
    fn notes(&self) -> Vec<String> {
        let nowhere = Scope::Within(BTreeSet::new());
        let words = |scope: fn(&Scope) -> bool| {
            let kinds = Kind::ALL.into_iter().filter(|kind| scope(self.scopes.get(kind).unwrap_or(&nowhere)));
            kinds.map(|kind| kind.resource().1).collect::<Vec<_>>().join(", ")
        };
        let hidden = words(|scope| matches!(scope, Scope::Within(within) if within.is_empty()));
        let partly = words(|scope| matches!(scope, Scope::Within(within) if !within.is_empty()));
        let mut notes = Vec::new();
        if !hidden.is_empty() {
            notes.push(format!("You may not list these, so they are not shown: {hidden}."));
        }
        if !partly.is_empty() {
            notes.push(format!("You may list these in some namespaces, and only those are shown: {partly}."));
        }
        notes
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

async fn ask(client: &Client, person: &Person, kind: Kind, namespace: Option<&str>) -> Result<bool, kube::Error> {
    let (group, resource) = kind.resource();
    let attributes = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        namespace: namespace.map(str::to_owned),
        // Whoever may list may read each object's whole contents.
        verb: Some("list".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(person.name.clone()),
            uid: person.uid.clone(),
            groups: Some(person.groups.clone()),
            extra: Some(person.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = cluster::write::in_time(reviews.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
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
        Rights::none().narrow(&mut objects, &mut Drains::default(), &mut notes);
        assert_eq!((objects.nodes.len(), notes.len()), (0, 1));
    }
}
