//! Signals changes in a cluster to tests that inspect it by running commands.
//!
//! Such a test runs its command and, if the expected state is not reached yet, waits for the next change instead of a
//! fixed time.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};

/// The kinds that describe the state of a fleet. Heartbeats of nodes are changes too, so no wait is long.
const KINDS: [(&str, &str, &str); 11] = [
    ("", "v1", "Node"),
    ("", "v1", "Pod"),
    ("apps", "v1", "Deployment"),
    ("machineconfiguration.openshift.io", "v1", "MachineConfig"),
    ("machineconfiguration.openshift.io", "v1", "MachineConfigPool"),
    ("machineconfiguration.openshift.io", "v1", "MachineConfigNode"),
    ("machineconfiguration.openshift.io", "v1", "ControllerConfig"),
    ("config.openshift.io", "v1", "ClusterOperator"),
    ("machine.openshift.io", "v1beta1", "Machine"),
    ("machine.openshift.io", "v1beta1", "MachineSet"),
    ("machine.openshift.io", "v1beta1", "MachineHealthCheck"),
];

/// Changes of one cluster since the last check.
pub struct Changes(Receiver<()>);

impl Changes {
    /// Watches the cluster of a kubeconfig in a separate thread, until the test ends.
    pub fn of(kubeconfig: &Path) -> Self {
        // One signal is enough for any number of changes between two checks.
        let (bell, rings) = sync_channel(1);
        let kubeconfig = kubeconfig.to_owned();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = referee::control_plane::client(&kubeconfig).await;
                futures::future::join_all(KINDS.iter().map(|kind| follow(client.clone(), *kind, bell.clone()))).await;
            });
        });
        Self(rings)
    }

    /// Waits for a change. Returns false if there is none before `deadline`.
    pub fn wait(&self, deadline: Instant) -> bool {
        self.0.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }
}

async fn follow(client: Client, (group, version, kind): (&str, &str, &str), bell: SyncSender<()>) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
    // The kind may not be installed yet, or the server may be gone; the watcher retries with growing pauses.
    let mut changes = watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(change) = changes.next().await {
        if change.is_ok()
            && let Err(std::sync::mpsc::TrySendError::Disconnected(())) = bell.try_send(())
        {
            return;
        }
    }
}
