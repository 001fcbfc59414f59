//! The machines of a fleet and the heartbeats of their kubelets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::Store;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

use crate::standins::MANAGER;

/// A real kubelet renews every 10 s and counts as lost after 40 s; on a laptop nobody wants to wait so long.
const BEAT: Duration = Duration::from_secs(1);
const RENEW: Duration = Duration::from_secs(5);
const LOST: Duration = Duration::from_secs(10);

/// In a machine's folder while its kubelet is stopped: on a systemd container its unit makes this file, on a simulated node whoever
/// wants the kubelet to be stopped.
pub(crate) const KUBELET_STOPPED: &str = "root/var/lib/machinist/kubelet-stopped";

/// Which machines are on. Shared between whoever plays them and the kubelets.
#[derive(Clone, Debug, Default)]
pub struct Machines(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// A machine is off while this file is there.
    switches: BTreeMap<String, PathBuf>,
    rebooting: BTreeSet<String>,
    daemons: BTreeMap<String, Daemon>,
    /// The newest pod of our daemon that was seen on each node, and how often it was another one than before.
    restarts: BTreeMap<String, (String, u64)>,
}

/// A pod of a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    pub(crate) node: String,
    pub(crate) uid: String,
}

/// How the pods of our own daemon begin.
const DAEMON: &str = "machine-config-daemon-";

impl Machines {
    /// Adds a machine that is off while the file `switch` is there.
    pub fn add(&self, name: &str, switch: PathBuf) {
        self.0.lock().switches.insert(name.to_owned(), switch);
    }

    /// Forgets a machine that is gone for good.
    pub fn remove(&self, name: &str) {
        let mut inner = self.0.lock();
        inner.switches.remove(name);
        inner.rebooting.remove(name);
        inner.restarts.remove(name);
    }

    /// Whether there is such a machine, on or off.
    pub fn knows(&self, name: &str) -> bool {
        self.0.lock().switches.contains_key(name)
    }

    /// The machine is between going down and coming up.
    pub fn set_rebooting(&self, name: &str, is: bool) {
        let mut inner = self.0.lock();
        if is {
            inner.rebooting.insert(name.to_owned())
        } else {
            inner.rebooting.remove(name)
        };
    }

    /// Whether somebody has switched it off.
    pub fn is_switched_off(&self, name: &str) -> bool {
        let switch = self.0.lock().switches.get(name).cloned();
        switch.is_some_and(|switch| switch.exists())
    }

    /// Machines whose kubelet does not run, whether they are on or not.
    fn without_kubelet(&self) -> BTreeSet<String> {
        let mut silent = self.off();
        let inner = self.0.lock();
        let is_stopped = |switch: &PathBuf| switch.with_file_name(KUBELET_STOPPED).exists();
        let stopped = inner.switches.iter().filter(|(_, switch)| is_stopped(switch)).map(|(name, _)| name.clone());
        silent.extend(stopped);
        silent
    }

    /// Machines that do not run now.
    pub fn off(&self) -> BTreeSet<String> {
        let inner = self.0.lock();
        let switched = inner.switches.iter().filter(|(_, switch)| switch.exists()).map(|(name, _)| name.clone());
        switched.chain(inner.rebooting.iter().cloned()).collect()
    }

    /// The node that a DaemonSet's pod is on.
    pub fn node_of(&self, pod: &str) -> Option<String> {
        self.0.lock().daemons.get(pod).map(|daemon| daemon.node.clone())
    }

    /// How often the pod of our daemon on this node was made anew. Whoever deletes it wants the daemon to start again.
    pub fn restarts_of(&self, node: &str) -> u64 {
        self.0.lock().restarts.get(node).map_or(0, |(_, count)| *count)
    }

    pub(crate) fn set_daemons(&self, daemons: BTreeMap<String, Daemon>) {
        let mut inner = self.0.lock();
        for (_, Daemon { node, uid }) in daemons.iter().filter(|(pod, _)| pod.starts_with(DAEMON)) {
            match inner.restarts.get_mut(node) {
                Some((last, count)) if last != uid => (*last, *count) = (uid.clone(), *count + 1),
                Some(_) => {}
                None => drop(inner.restarts.insert(node.clone(), (uid.clone(), 0))),
            }
        }
        inner.daemons = daemons;
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().switches.keys().cloned().collect()
    }
}

/// What is known of one machine's heart.
#[derive(Clone, Copy)]
struct Heart {
    renewed: tokio::time::Instant,
    is_lost: bool,
}

/// Beats for every machine whose kubelet runs; one that is silent for long enough is told NotReady, as the node controller would.
pub(crate) async fn heartbeat(client: Client, machines: Machines, nodes: Store<Node>) {
    nodes.synced().await;
    let start = tokio::time::Instant::now();
    let mut hearts: BTreeMap<String, Heart> = BTreeMap::new();
    let mut ticks = tokio::time::interval(BEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (off, now) = (machines.without_kubelet(), tokio::time::Instant::now());
        let mut writes = Vec::new();
        for name in machines.all().into_iter().filter(|name| nodes.named(name).is_some()) {
            let heart = hearts.entry(name.clone()).or_insert(Heart { renewed: start - RENEW, is_lost: false });
            let silent = now.duration_since(heart.renewed);
            let is_unwell = nodes.named(&name).is_some_and(|node| !is_ready(&node));
            if !off.contains(&name) && (silent >= RENEW || heart.is_lost || is_unwell) {
                *heart = Heart { renewed: now, is_lost: false };
                writes.push((name, true));
            } else if off.contains(&name) && silent >= LOST && !heart.is_lost {
                heart.is_lost = true;
                writes.push((name, false));
            }
        }
        let write = stream::iter(writes).map(|(name, alive)| beat(&client, name, alive));
        write.buffer_unordered(16).collect::<Vec<()>>().await;
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

async fn beat(client: &Client, name: String, alive: bool) {
    let api: Api<Node> = Api::all(client.clone());
    let _ = set_ready(&api, &name, alive).await;
    if !alive {
        return;
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let now = Timestamp::now().to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro(&now)},
    });
    let _ = cluster::write::apply(&leases, MANAGER, &name, &lease).await;
}

/// RFC 3339 with exactly six digits, which MicroTime wants.
fn micro(time: &str) -> String {
    format!("{}.000000Z", time.get(..19).unwrap_or_default())
}

/// Writes what the kubelet, or in its absence the node controller, says.
async fn set_ready(api: &Api<Node>, name: &str, alive: bool) -> Result<(), kube::Error> {
    let now = Timestamp::now().to_string();
    let now = format!("{}Z", now.get(..19).unwrap_or_default());
    let was = api.get(name).await?;
    let ready = if alive { "True" } else { "Unknown" };
    let before = was.status.iter().flat_map(|status| status.conditions.iter().flatten()).find(|it| it.type_ == "Ready");
    let same = before.filter(|before| before.status == ready);
    let since = same.and_then(|before| before.last_transition_time.clone()).map(|time| json!(time));
    let condition = if alive {
        json!({"type": "Ready", "status": ready, "reason": "KubeletReady", "message": "this node is simulated",
               "lastHeartbeatTime": now, "lastTransitionTime": since.unwrap_or_else(|| json!(now))})
    } else {
        json!({"type": "Ready", "status": ready, "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
               "lastTransitionTime": since.unwrap_or_else(|| json!(now))})
    };
    let patch = json!({"status": {"conditions": [condition]}});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_status(&was.name_any(), &parameters, &Patch::Strategic(patch)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_can_be_stopped_on_a_machine_that_is_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let machines = Machines::default();
        machines.add("a", folder.path().join("a/off"));
        machines.add("b", folder.path().join("b/off"));
        let stopped = folder.path().join("a").join(KUBELET_STOPPED);
        std::fs::create_dir_all(stopped.parent().expect("it has a folder")).expect("a folder");
        std::fs::write(&stopped, "").expect("a file");
        assert_eq!((machines.off(), machines.without_kubelet()), (BTreeSet::new(), BTreeSet::from(["a".to_owned()])));
        std::fs::remove_file(&stopped).expect("it was there");
        std::fs::create_dir_all(folder.path().join("b")).expect("a folder");
        std::fs::write(folder.path().join("b/off"), "").expect("a file");
        assert_eq!(
            machines.without_kubelet(),
            BTreeSet::from(["b".to_owned()]),
            "a machine that is off has none either"
        );
    }

    #[test]
    fn a_pod_that_was_made_anew_restarts_the_daemon_of_its_node_and_no_other() {
        let machines = Machines::default();
        let see = |pods: &[(&str, &str, &str)]| {
            let daemon = |(pod, node, uid): &(&str, &str, &str)| {
                ((*pod).to_owned(), Daemon { node: (*node).to_owned(), uid: (*uid).to_owned() })
            };
            machines.set_daemons(pods.iter().map(daemon).collect());
            [machines.restarts_of("a"), machines.restarts_of("b")]
        };
        assert_eq!(see(&[("machine-config-daemon-x", "a", "1"), ("machine-config-daemon-y", "b", "2")]), [0, 0]);
        assert_eq!(see(&[("machine-config-daemon-y", "b", "2")]), [0, 0], "it is on its way");
        assert_eq!(see(&[("machine-config-daemon-x", "a", "3"), ("machine-config-daemon-y", "b", "2")]), [1, 0]);
        assert_eq!(see(&[("machine-config-server-z", "b", "4"), ("machine-config-daemon-y", "b", "2")]), [1, 0]);
        assert_eq!(machines.node_of("machine-config-server-z").as_deref(), Some("b"));
    }
}
