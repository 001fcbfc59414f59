//! The machines of `up --systemd`: which containers run, and how each comes to its first config.
//!
//! Those that `up` begins with are born with their pool's config. Those that a Machine asked for boot as in any cloud: they fetch
//! their config from the config server with the token of their user data, write it, and join with a Node of their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use container::{Boot, Start};
use futures::future::BoxFuture;
use host::directory::Directory;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_blocking};

use super::born::Births;
use super::nodes::{self, Place};
use super::systemd::{self, Birth, Making, Parts};
use super::told_to_stop;
use crate::first_boot;
use crate::standins::Machines;

/// In the folder of a machine that booted through the config server, once its first boot is over: its pool.
const BOOTED: &str = "booted";

#[derive(Clone)]
pub(super) struct Containers(Arc<Inner>);

struct Inner {
    client: Client,
    machines: Machines,
    /// The folder of all nodes.
    folder: PathBuf,
    parts: Arc<Parts>,
    /// Gives each node's daemon a credential of its own.
    credentials: ::apiserver::Credentials,
    running: Mutex<BTreeMap<String, Running>>,
    failed: mpsc::UnboundedSender<anyhow::Error>,
}

struct Running {
    /// Another one for each container that runs.
    number: u32,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Containers {
    /// The containers, and what [`Containers::run`] needs.
    pub(super) fn new(
        client: Client,
        machines: Machines,
        folder: PathBuf,
        parts: Arc<Parts>,
        credentials: ::apiserver::Credentials,
    ) -> (Self, mpsc::UnboundedReceiver<anyhow::Error>) {
        let (failed, failures) = mpsc::unbounded_channel();
        let running = Mutex::default();
        (Self(Arc::new(Inner { client, machines, folder, parts, credentials, running, failed })), failures)
    }

    /// Waits for the end of the fleet, or for a machine that fails, and shuts all of them down.
    pub(super) async fn run(
        self,
        mut failures: mpsc::UnboundedReceiver<anyhow::Error>,
        stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let ended = tokio::select! {
            () = told_to_stop(stopped) => Ok(()),
            Some(error) = failures.recv() => Err(error),
        };
        let running = std::mem::take(&mut *self.0.running.lock());
        for machine in running.values() {
            let _ = machine.stop.send(true);
        }
        for machine in running.into_values() {
            let _ = machine.task.await;
        }
        ended
    }

    /// Switches on a machine that `up` begins with and that has its Node already. The fleet ends if it cannot be made.
    pub(super) fn switch_on(&self, name: &str, births: &Births) -> anyhow::Result<()> {
        let (births, of, failed) = (births.clone(), name.to_owned(), self.0.failed.clone());
        let birth = Birth::new(move |root, _| {
            Box::pin(async move {
                // As Ignition does, before the machine's own system starts.
                let boot = move || births.boot(&of, &Directory::open(&root)?);
                spawn_blocking(boot).await.context("a first boot was interrupted")?
            })
        });
        self.spawn(name, birth, move |_, error| drop(failed.send(error)))
    }

    /// Runs a container. One that runs already goes on.
    fn spawn(
        &self,
        name: &str,
        birth: Birth,
        fail: impl FnOnce(&str, anyhow::Error) + Send + 'static,
    ) -> anyhow::Result<()> {
        let mut running = self.0.running.lock();
        if running.contains_key(name) {
            return Ok(());
        }
        let user = format!("system:node:{name}");
        let kubeconfig = self.0.credentials.kubeconfig_for(&user, &["system:nodes"]).context("cannot name a node")?;
        let is_free = |number: &u32| !running.values().any(|machine| machine.number == *number);
        let number = (0..).find(is_free).unwrap_or_default();
        let machines = self.0.machines.clone();
        machines.add(name, self.0.folder.join(name).join("off"));
        let root = self.0.folder.join(name).join("root");
        let place = Place { name: name.to_owned(), number, root, machines };
        let making = Making { parts: Arc::clone(&self.0.parts), kubeconfig, birth };
        let (stop, stopped) = watch::channel(false);
        let (client, of) = (self.0.client.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            if let Err(error) = systemd::run(client, place, making, stopped).await {
                fail(&of, error);
            }
        });
        running.insert(name.to_owned(), Running { number, stop, task });
        Ok(())
    }

    /// The first boot of a machine through the config server, unless it is over, and its Node.
    async fn boot(self, start: Start, root: PathBuf, stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let booted = self.0.folder.join(&start.name).join(BOOTED);
        let pool = match std::fs::read_to_string(&booted) {
            Ok(pool) => pool.trim().to_owned(),
            Err(_) => {
                let served = tokio::select! {
                    served = first_boot::fetch(&start.name, &start.user_data) => served?,
                    // Whoever runs the container looks for itself.
                    () = told_to_stop(stopped) => return Ok(()),
                };
                let pool = served.pool.clone();
                let host = Directory::open(&root).with_context(|| format!("cannot open {}", root.display()))?;
                first_boot::complete(&start.name, &root, Arc::new(host), served).await?;
                std::fs::write(&booted, &pool).with_context(|| format!("cannot write {}", booted.display()))?;
                tracing::info!(machine = start.name, pool, "first boot is over");
                pool
            }
        };
        let node = nodes::of_pool(&start.name, &pool, &start.zone, &start.provider_id);
        nodes::create(&self.0.client, &[node], false).await.map(drop)
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        let running = self.0.running.lock().remove(name);
        if let Some(Running { stop, task, .. }) = running {
            let _ = stop.send(true);
            let _ = task.await;
        }
        self.0.machines.remove(name);
        let folder = self.0.folder.join(name);
        let removing = spawn_blocking(move || remove_folder(&folder));
        removing.await.map_err(|error| error.to_string())?
    }
}

/// Removes a machine's disk, also if an earlier process has left it mounted.
fn remove_folder(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        return Ok(());
    }
    containers::unmount_beneath(folder).map_err(|error| format!("{error}: {}", folder.display()))?;
    let removed = std::fs::remove_dir_all(folder);
    removed.map_err(|error| format!("{} cannot be removed: {error}", folder.display()))
}

impl Boot for Containers {
    fn start(&self, start: Start) -> BoxFuture<'_, ()> {
        let (containers, name) = (self.clone(), start.name.clone());
        let birth = Birth::new(move |root, stopped| Box::pin(containers.boot(start, root, stopped)));
        // As in any cloud, the instance exists and nobody hears of it.
        let fail = |name: &str, error| tracing::error!(machine = name, "the machine does not boot: {error:#}");
        if let Err(error) = self.spawn(&name, birth, fail) {
            tracing::error!(machine = name, "the machine does not boot: {error:#}");
        }
        Box::pin(std::future::ready(()))
    }

    fn stop<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.remove(name))
    }
}
