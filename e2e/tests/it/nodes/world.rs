//! A cluster with nodes in which the test sets the nodes' targets by hand.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::MachineConfig;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::{ControlPlane, Kind, control_plane, needs, objects, wait_for};

use super::node::{Node, Setup};

/// The control plane with our kinds, and the test's manual actions in it.
pub(crate) struct World {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
}

impl World {
    /// Returns `None` if this machine lacks a prerequisite.
    pub(crate) async fn new() -> Option<Self> {
        if !needs::nspawn() || !needs::root() {
            return None;
        }
        let control_plane = control_plane(Kind::Real).await?;
        control_plane.install().await;
        let client = control_plane.client().await;
        Some(Self { control_plane, client })
    }

    /// Creates a booted node that runs `config` and is done.
    pub(crate) async fn node(&self, name: &str, number: u8, config: &str) -> Node {
        self.node_with(name, number, config, &Setup::default()).await
    }

    pub(crate) async fn node_with(&self, name: &str, number: u8, config: &str, setup: &Setup) -> Node {
        let mut object = objects::node(name, &["worker"]);
        let first = BTreeMap::from([
            (annotations::CURRENT_CONFIG.to_owned(), config.to_owned()),
            (annotations::DESIRED_CONFIG.to_owned(), config.to_owned()),
        ]);
        object.annotations_mut().extend(first);
        self.nodes().create(&PostParams::default(), &object).await.unwrap();
        let node = Node::boot(&self.control_plane, name, number, setup);
        self.done(name, config).await;
        node
    }

    pub(crate) fn nodes(&self) -> Api<NodeObject> {
        Api::all(self.client.clone())
    }

    /// Stores a rendered config with this Ignition config.
    pub(crate) async fn config(&self, name: &str, ignition: Value) -> String {
        self.config_with(name, ignition, |_| {}).await
    }

    pub(crate) async fn config_with(
        &self,
        name: &str,
        mut ignition: Value,
        change: impl FnOnce(&mut MachineConfig),
    ) -> String {
        ignition["ignition"] = json!({"version": "3.4.0"});
        let mut config = objects::machine_config(name, "worker", ignition);
        config.labels_mut().insert(api::labels::RENDERED_FOR.into(), "worker".into());
        change(&mut config);
        let configs: Api<MachineConfig> = Api::all(self.client.clone());
        configs.create(&PostParams::default(), &config).await.unwrap();
        name.to_owned()
    }

    /// Adds disruption policies to the defaults.
    pub(crate) fn policies(&self, policy: &Value) {
        let object = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
            "spec": {"managementState": "Managed", "nodeDisruptionPolicy": policy},
        });
        self.control_plane.apply(&object.to_string());
    }

    /// Changes below `/etc/quiet` need no action.
    pub(crate) fn quiet_folder(&self) {
        self.policies(&json!({"files": [{"path": "/etc/quiet", "actions": [{"type": "None"}]}]}));
    }

    /// Sets the target of a node.
    pub(crate) async fn want(&self, node: &str, config: &str) {
        self.annotate(node, json!({ annotations::DESIRED_CONFIG: config })).await;
    }

    pub(crate) async fn annotate(&self, node: &str, values: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": values } }));
        self.nodes().patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Completes drain requests at once, like a drain controller with nothing to drain. Ends with the test.
    pub(crate) fn answer_drains(&self, node: &str) {
        use futures::StreamExt;
        let (nodes, name) = (self.nodes(), node.to_owned());
        tokio::spawn(async move {
            let mut changes = kube::runtime::watcher::watch_object(nodes.clone(), &name).boxed();
            while let Some(change) = changes.next().await {
                let Ok(Some(node)) = change else { continue };
                let (wanted, done) =
                    (get(&node, annotations::DESIRED_DRAIN), get(&node, annotations::LAST_APPLIED_DRAIN));
                if !wanted.is_empty() && wanted != done {
                    let values = json!({ annotations::LAST_APPLIED_DRAIN: wanted });
                    let patch = Patch::Merge(json!({ "metadata": { "annotations": values } }));
                    let _ = nodes.patch(&name, &PatchParams::default(), &patch).await;
                }
            }
        });
    }

    /// Waits until the node reports that it is done with `config`.
    #[track_caller]
    pub(crate) fn done<'a>(&'a self, node: &'a str, config: &'a str) -> impl Future<Output = NodeObject> + 'a {
        self.state(node, "Done", move |node| get(node, annotations::CURRENT_CONFIG) == config)
    }

    /// Waits until the node is in `state` and `also` holds.
    #[track_caller]
    pub(crate) fn state<'a>(
        &'a self,
        node: &'a str,
        state: &'a str,
        also: impl Fn(&NodeObject) -> bool + 'a,
    ) -> impl Future<Output = NodeObject> + 'a {
        let nodes = self.nodes();
        async move {
            let is_there = |node: Option<&NodeObject>| {
                node.is_some_and(|node| get(node, annotations::STATE) == state && also(node))
            };
            wait_for(&nodes, node, state, is_there).await.unwrap()
        }
    }
}

pub(crate) fn get(node: &NodeObject, key: &str) -> String {
    node.annotations().get(key).cloned().unwrap_or_default()
}

/// A file for an Ignition config.
pub(crate) fn file(path: &str, text: &str) -> Value {
    json!({"path": path, "mode": 420, "overwrite": true, "contents": {"source": format!("data:,{}", text.replace(' ', "%20").replace('\n', "%0A"))}})
}
