//! Explanations of whole worlds, each a few objects.
#![allow(clippy::unwrap_used)]

mod doctor;
mod installation;
mod machines;
mod runbooks;
mod same;
mod unread;
mod why;

use std::collections::BTreeMap;

use api::known::Reading;
use explain::{Blocker, Member, Objects, Snapshot, Standstill};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A world in the making. Everything is well until it is told otherwise.
struct World(Objects);

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// So many minutes ago.
fn ago(minutes: i64) -> String {
    (now() - jiff::SignedDuration::from_mins(minutes)).to_string()
}

impl World {
    /// The pool `worker` at `rendered-worker-b`, which every node had before as `rendered-worker-a`.
    fn new() -> Self {
        let mut objects = Objects::default();
        objects.pools.push(
            serde_json::from_value(json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                "metadata": {"name": "worker"},
                "spec": {"configuration": {"name": "rendered-worker-b"}},
                "status": {"configuration": {"name": "rendered-worker-a"}},
            }))
            .unwrap(),
        );
        objects.configs = Reading::known(Vec::new(), now());
        let mut world = Self(objects);
        for config in ["00-worker", "rendered-worker-a", "rendered-worker-b"] {
            world.config(config);
        }
        world.standstill(Standstill::Budget { limit: 1, used: 1 })
    }

    fn config(&mut self, name: &str) {
        let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": name}, "spec": {}});
        let Reading::Known { value, .. } = &mut self.0.configs else { panic!("configs are known") };
        value.push(serde_json::from_value(config).unwrap());
    }

    fn standstill(mut self, standstill: Standstill) -> Self {
        self.0.standstills = BTreeMap::from([("worker".to_owned(), standstill)]);
        self
    }

    /// A node of the pool that runs and wants these configs, with more annotations.
    fn node(self, name: &str, current: &str, desired: &str, state: &str, more: &[(&str, &str)]) -> Self {
        self.node_of(name, Member::Pool("worker".to_owned()), current, desired, state, more)
    }

    fn node_of(
        mut self,
        name: &str,
        member: Member,
        current: &str,
        desired: &str,
        state: &str,
        more: &[(&str, &str)],
    ) -> Self {
        let mut annotations = json!({
            "machineconfiguration.openshift.io/currentConfig": format!("rendered-worker-{current}"),
            "machineconfiguration.openshift.io/desiredConfig": format!("rendered-worker-{desired}"),
            "machineconfiguration.openshift.io/state": state,
        });
        for (key, value) in more {
            annotations[*key] = json!(value);
        }
        let node = json!({"metadata": {"name": name, "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.0.nodes.push(serde_json::from_value(node).unwrap());
        self.0.members.insert(name.to_owned(), member);
        self
    }

    fn blocked(mut self, node: &str) -> Self {
        let blocker = Blocker {
            namespace: "shop".to_owned(),
            pod: "web-1".to_owned(),
            owner: Some("deploy/web".to_owned()),
            replicas: Some(3),
            never: false,
            budgets: vec!["web".to_owned()],
        };
        self.0.blockers.insert(node.to_owned(), vec![blocker]);
        self
    }

    /// A node of which no daemon has ever spoken.
    fn blank(mut self, name: &str, annotations: Value) -> Self {
        let node = json!({"metadata": {"name": name, "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.0.nodes.push(serde_json::from_value(node).unwrap());
        self.0.members.insert(name.to_owned(), Member::Pool("worker".to_owned()));
        self
    }

    /// The controller's Deployment, whose pod nobody takes.
    fn without_controller(mut self) -> Self {
        let deployment = json!({
            "metadata": {"name": "machine-config-controller", "namespace": "openshift-machine-config-operator"},
            "spec": {"replicas": 1, "selector": {}, "template": {}}, "status": {"replicas": 1, "unavailableReplicas": 1},
        });
        let pod = json!({
            "metadata": {"name": "machine-config-controller-1", "labels": {"k8s-app": "machine-config-controller"}},
            "status": {"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu.",
            }]},
        });
        self.0.deployments.push(serde_json::from_value(deployment).unwrap());
        self.0.pods.push(serde_json::from_value(pod).unwrap());
        self
    }

    fn pool(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = serde_json::to_value(&self.0.pools[0]).unwrap();
        change(&mut value);
        self.0.pools[0] = serde_json::from_value(value).unwrap();
        self
    }

    fn ledger(mut self, spec: &Value) -> Self {
        let ledger = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "PoolLedger", "metadata": {"name": "worker"}, "spec": spec});
        self.0.ledgers.push(serde_json::from_value(ledger).unwrap());
        self
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::from_objects(&self.0, now())
    }
}
