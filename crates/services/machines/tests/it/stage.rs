//! A cluster with our kinds, a cloud whose instances become nodes, and controllers that can be ended and begun again.

use std::sync::{Arc, Mutex};

use api::machine::{Machine, MachineSet};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use machines::Settings;
use serde_json::{Value, json};
use testkit::{ControlPlane, Faults, Kind, control_plane, wait_for, wait_for_all};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::cloud::{Account, Cloud, Entry};
use crate::wire::Life;

pub(crate) const NAMESPACE: &str = api::names::MACHINE_API_NAMESPACE;

pub(crate) struct Stage {
    /// Ends with the stage.
    control_plane: ControlPlane,
    /// The test's own, which meets no faults.
    pub(crate) client: Client,
    pub(crate) machines: Api<Machine>,
    pub(crate) sets: Api<MachineSet>,
    pub(crate) nodes: Api<Node>,
    pub(crate) faults: Faults,
    pub(crate) account: Arc<Mutex<Account>>,
    /// Of the controllers that are started from now on.
    pub(crate) settings: Settings,
    boots: UnboundedSender<Entry>,
}

/// One process.
pub(crate) struct Running {
    pub(crate) life: Life,
    task: JoinHandle<()>,
}

impl Running {
    /// Kills it, in the middle of whatever it does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Stage {
    pub(crate) async fn start(kind: Kind) -> Option<Self> {
        let control_plane = control_plane(kind).await?;
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        cluster::ensure_namespace(&client, NAMESPACE).await.unwrap();
        let (boots, booting) = unbounded_channel();
        let account = Arc::<Mutex<Account>>::default();
        tokio::spawn(boot(Api::all(client.clone()), booting));
        Some(Self {
            machines: Api::namespaced(client.clone(), NAMESPACE),
            sets: Api::namespaced(client.clone(), NAMESPACE),
            nodes: Api::all(client.clone()),
            faults: Faults::default(),
            settings: Settings { identity: "test".into(), ..Settings::default() },
            account,
            boots,
            client,
            control_plane,
        })
    }

    /// Starts the controllers.
    pub(crate) fn control(&self) -> Running {
        self.control_until(Life::endless())
    }

    /// Starts controllers that may do what their table of rights says, and nothing else.
    pub(crate) async fn control_with_rights(&self) -> Running {
        const PROCESS: &str = "machine-api-controllers";
        for manifest in cluster::rights::manifests(PROCESS, NAMESPACE, &machines::ROLES) {
            self.control_plane.apply(&manifest.to_string());
        }
        let account = format!("system:serviceaccount:{NAMESPACE}:{PROCESS}");
        let kubeconfig = self.control_plane.user_kubeconfig(&account, None);
        let client = cluster::connect(Some(&kubeconfig)).await.unwrap();
        self.start_controllers(client, Life::endless())
    }

    /// Starts controllers that live for as long as `life` says.
    pub(crate) fn control_until(&self, life: Life) -> Running {
        self.start_controllers(self.client.clone(), life)
    }

    fn start_controllers(&self, client: Client, life: Life) -> Running {
        let settings = self.settings.clone();
        let client = self.faults.client(life.client(client));
        let cloud = Cloud { account: self.account.clone(), life: life.clone(), boots: self.boots.clone() };
        let task = tokio::spawn(async move {
            machines::run(client, settings, Arc::new(cloud), std::future::pending()).await.unwrap();
        });
        Running { life, task }
    }

    pub(crate) async fn create_machine(&self, name: &str, more: Value) -> Machine {
        self.machines.create(&PostParams::default(), &machine(name, more)).await.unwrap()
    }

    pub(crate) async fn create_set(&self, name: &str, replicas: i32) -> MachineSet {
        self.sets.create(&PostParams::default(), &set(name, replicas)).await.unwrap()
    }

    pub(crate) async fn patch_machine(&self, name: &str, patch: Value) {
        self.machines.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn scale(&self, name: &str, replicas: i32) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.sets.patch_scale(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete_machine(&self, name: &str) {
        self.machines.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a Machine runs and has its node.
    pub(crate) async fn running(&self, name: &str) -> Machine {
        self.machine_is(name, "running", |machine| phase(machine) == Some("Running")).await
    }

    /// Waits until a Machine is as it should be.
    pub(crate) async fn machine_is(&self, name: &str, what: &str, is: impl Fn(&Machine) -> bool) -> Machine {
        wait_for(&self.machines, name, &format!("machine {name}: {what}"), |machine| machine.is_some_and(&is)).await;
        self.machines.get(name).await.unwrap()
    }

    pub(crate) async fn machine_gone(&self, name: &str) {
        wait_for(&self.machines, name, &format!("machine {name} to be gone"), |machine| machine.is_none()).await;
    }

    /// Waits until a condition of a Machine says this.
    pub(crate) async fn says(&self, name: &str, type_: &str, status: &str, words: &str) -> Machine {
        let what = format!("condition {type_} {status} with {words:?}");
        self.machine_is(name, &what, |machine| {
            condition(machine, type_).is_some_and(|(is, text)| is == status && text.contains(words))
        })
        .await
    }

    /// Waits until the set says that so many machines are available, and no more are there.
    pub(crate) async fn available(&self, set: &str, count: i32) {
        wait_for(&self.sets, set, &format!("{count} available machines"), |set| {
            let Some(status) = set.and_then(|set| set.status.as_ref()) else { return false };
            let numbers = [status.replicas, status.ready_replicas, status.available_replicas];
            numbers.iter().all(|number| number.unwrap_or(0) == count)
        })
        .await;
    }

    /// A pod that runs on a node, as a scheduler and a kubelet would leave it.
    pub(crate) async fn place(&self, name: &str, node: &str, labels: Value) -> Api<Pod> {
        self.place_in("default", name, node, labels).await
    }

    pub(crate) async fn place_in(&self, namespace: &str, name: &str, node: &str, labels: Value) -> Api<Pod> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        wait_for(&accounts, "default", "the default service account", |account| account.is_some()).await;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "example.org/main"}],
            },
        });
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        pods
    }

    /// Waits for an event with this reason whose note has these words.
    pub(crate) async fn event(&self, reason: &str, words: &str) {
        let events: Api<Event> = Api::all(self.client.clone());
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some(reason) && event.note.as_deref().is_some_and(|note| note.contains(words))
        };
        let what = format!("event {reason} with {words}");
        wait_for_all(&events, &what, |events| events.iter().any(is_it)).await;
    }

    /// The instances in the cloud, by the name of their Machine.
    pub(crate) fn instances(&self) -> Vec<String> {
        let account = self.account.lock().unwrap();
        let mut names: Vec<_> = account.entries.iter().map(|entry| entry.mark.machine.clone()).collect();
        names.sort();
        names
    }
}

/// Instances become nodes that are named after their Machine.
async fn boot(nodes: Api<Node>, mut booting: UnboundedReceiver<Entry>) {
    while let Some(entry) = booting.recv().await {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": entry.mark.machine},
            "spec": {"providerID": entry.id},
        });
        // An instance that is told of twice is one node.
        if nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.is_ok() {
            set_ready(&nodes, &entry.mark.machine, "True").await;
        }
    }
}

pub(crate) async fn set_ready(nodes: &Api<Node>, name: &str, status: &str) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": now, "lastHeartbeatTime": now,
        "reason": "Test", "message": ""});
    let patch = json!({"status": {"conditions": [condition]}});
    let _ = nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
}

pub(crate) fn machine(name: &str, more: Value) -> Machine {
    let mut value = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
            "machine.openshift.io/cluster-api-cluster": "c", "app": "single",
        }},
        "spec": {"providerSpec": {"value": {"size": 1}}},
    });
    merge(&mut value, &more);
    serde_json::from_value(value).unwrap()
}

pub(crate) fn set(name: &str, replicas: i32) -> MachineSet {
    let labels =
        json!({"machine.openshift.io/cluster-api-cluster": "c", "machine.openshift.io/cluster-api-machineset": name});
    serde_json::from_value(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": {"size": 1}}}},
        },
    }))
    .unwrap()
}

fn merge(value: &mut Value, more: &Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => {
            for (key, more) in more {
                if more.is_null() {
                    value.remove(key);
                    continue;
                }
                merge(value.entry(key.clone()).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more.clone(),
    }
}

pub(crate) fn phase(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.phase.as_deref()
}

/// Status of a condition, and its reason and message.
pub(crate) fn condition(machine: &Machine, type_: &str) -> Option<(String, String)> {
    let condition = machine.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)?;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    Some((condition.status.clone(), format!("{}: {}", text(&condition.reason), text(&condition.message))))
}

pub(crate) fn names<K: ResourceExt>(objects: &[K]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}
