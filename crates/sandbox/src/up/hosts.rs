//! The machines of `up` that live in folders: the real daemon runs on each, and each can be stopped alone.
//!
//! Those that `up` begins with are on at once. Those that the simulated cloud starts boot first: they fetch their config from
//! the config server, write it, and join with a Node of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use futures::future::BoxFuture;
use host::directory::Directory;
use kube::Client;
use memory::{Boot, Start};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::nodes::{self, Place};
use super::told_to_stop;
use crate::first_boot;
use crate::standins::Machines;

/// In the folder of a machine that the cloud started, once its first boot is over: its pool.
const BOOTED: &str = "booted";

/// In the folder of a machine that the cloud started, from the beginning: the folder goes with the machine.
const MADE: &str = "made-by-the-cloud";

#[derive(Clone)]
pub(super) struct Hosts(Arc<Inner>);

struct Inner {
    client: Client,
    machines: Machines,
    /// The folder of all nodes.
    folder: PathBuf,
    running: Mutex<BTreeMap<String, Running>>,
    /// First boots that are being written. They cannot be cut off, so whoever removes their machine waits for them.
    writing: Mutex<BTreeMap<String, JoinHandle<()>>>,
    failed: mpsc::UnboundedSender<anyhow::Error>,
}

struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Hosts {
    /// The machines, and what [`Hosts::run`] needs.
    pub(super) fn new(
        client: Client,
        machines: Machines,
        folder: PathBuf,
    ) -> (Self, mpsc::UnboundedReceiver<anyhow::Error>) {
        let (failed, failures) = mpsc::unbounded_channel();
        (
            Self(Arc::new(Inner {
                client,
                machines,
                folder,
                running: Mutex::default(),
                writing: Mutex::default(),
                failed,
            })),
            failures,
        )
    }

    /// Waits for the end of the fleet, or for a machine that fails, and stops all of them.
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

    /// Switches on a machine that has its Node already.
    pub(super) fn switch_on(&self, name: &str) {
        self.spawn(name, |_| async { Ok(()) });
    }

    fn root(&self, name: &str) -> PathBuf {
        self.0.folder.join(name).join("root")
    }

    /// Runs a machine's daemon after `before`. A machine that runs already goes on.
    fn spawn<F>(&self, name: &str, before: impl FnOnce(PathBuf) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let mut running = self.0.running.lock();
        if running.contains_key(name) {
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let root = self.root(name);
        let place = Place { name: name.to_owned(), number: 0, root: root.clone(), machines: self.0.machines.clone() };
        let (before, client, failed) = (before(root), self.0.client.clone(), self.0.failed.clone());
        let switch = self.0.folder.join(name).join("off");
        let (machines, node) = (self.0.machines.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            let living = async {
                before.await?;
                machines.add(&node, switch);
                nodes::run(client, place, stopped.clone()).await
            };
            let ended = tokio::select! {
                ended = living => ended,
                // The daemon ends by itself; a machine that still boots is simply cut off.
                () = cut_off(stopped.clone(), machines.clone(), node.clone()) => Ok(()),
            };
            if let Err(error) = ended {
                let _ = failed.send(error);
            }
        });
        running.insert(name.to_owned(), Running { stop, task });
    }

    /// The first boot of a machine, unless it is over, and its Node.
    async fn boot(self, start: Start, root: PathBuf) -> anyhow::Result<()> {
        let Start { name, .. } = &start;
        let folder = self.0.folder.join(name);
        let booted = folder.join(BOOTED);
        let pool = match std::fs::read_to_string(&booted) {
            Ok(pool) => pool.trim().to_owned(),
            Err(_) => {
                let made = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(MADE), ""));
                made.with_context(|| format!("cannot make {}", folder.display()))?;
                let pool = self.ignite(&start, root).await?;
                std::fs::write(&booted, &pool).with_context(|| format!("cannot write {}", booted.display()))?;
                pool
            }
        };
        let node = nodes::of_pool(&start.name, &pool, &start.zone, &start.provider_id);
        nodes::register(&self.0.client, &node).await
    }

    /// Fetches and writes the machine's config; returns the pool it is for.
    async fn ignite(&self, start: &Start, root: PathBuf) -> anyhow::Result<String> {
        let Start { name, user_data, .. } = start;
        let served = first_boot::fetch(name, user_data).await?;
        let pool = served.pool.clone();
        nodes::furnish(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let host = Directory::image_based(&root).with_context(|| format!("cannot open {}", root.display()))?;
        let (done, written) = oneshot::channel();
        let of = name.clone();
        let writing = tokio::spawn(async move {
            let _ = done.send(first_boot::complete(&of, &root, Arc::new(host), served).await);
        });
        self.0.writing.lock().insert(name.clone(), writing);
        written.await.context("the first boot was given up")??;
        self.0.writing.lock().remove(name);
        tracing::info!(machine = name, pool, "first boot is over");
        Ok(pool)
    }

    async fn remove(&self, name: &str) {
        let running = self.0.running.lock().remove(name);
        if let Some(Running { stop, task }) = running {
            let _ = stop.send(true);
            let _ = task.await;
        }
        let writing = self.0.writing.lock().remove(name);
        if let Some(writing) = writing {
            let _ = writing.await;
        }
        self.0.machines.remove(name);
        let folder = self.0.folder.join(name);
        // What the cloud did not make is somebody's to look at.
        if (folder.join(MADE).exists() || folder.join(BOOTED).exists())
            && let Err(error) = std::fs::remove_dir_all(&folder)
        {
            tracing::warn!(error = &error as &dyn std::error::Error, name, "a machine's folder is still there");
        }
    }
}

impl Boot for Hosts {
    fn start(&self, start: Start) -> BoxFuture<'_, ()> {
        let (hosts, name) = (self.clone(), start.name.clone());
        self.spawn(&name, |root| async move {
            let name = start.name.clone();
            match hosts.boot(start, root).await {
                Ok(()) => Ok(()),
                Err(error) => {
                    // As in any cloud, the instance runs on and nobody hears of it.
                    tracing::error!(machine = name, "the first boot failed: {error:#}");
                    std::future::pending().await
                }
            }
        });
        Box::pin(std::future::ready(()))
    }

    fn stop<'a>(&'a self, name: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.remove(name))
    }
}

/// Returns when a machine is told to stop before it is on.
async fn cut_off(stopped: watch::Receiver<bool>, machines: Machines, name: String) {
    told_to_stop(stopped).await;
    if machines.knows(&name) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_that_goes_before_its_first_boot_is_over_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, kube::Error>>()
        });
        let client = Client::new(nobody, "default");
        let (hosts, _failures) = Hosts::new(client, Machines::default(), folder.path().to_owned());
        let start = Start {
            name: "worker-a-x".to_owned(),
            provider_id: String::new(),
            region: String::new(),
            zone: String::new(),
            instance_type: String::new(),
            user_data: b"nonsense".to_vec(),
        };
        hosts.start(start).await;
        let machine = folder.path().join("worker-a-x");
        while !machine.join(MADE).exists() {
            tokio::task::yield_now().await;
        }
        std::fs::create_dir_all(machine.join("root/etc")).expect("a folder");
        std::fs::write(machine.join("root/etc/credential"), "secret").expect("a file");
        hosts.stop("worker-a-x", "").await;
        assert!(!machine.exists(), "the next machine of that name would boot upon it");
        std::fs::create_dir_all(folder.path().join("worker-1/root")).expect("a folder");
        hosts.stop("worker-1", "").await;
        assert!(folder.path().join("worker-1").exists(), "the cloud did not make it");
    }
}
