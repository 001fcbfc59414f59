//! Runs the daemon until it is told to stop.

use std::sync::Arc;

use anyhow::{Context, bail};
use change::host::Host;
use daemon::run::{Ended, Options, run};
use host::directory::Directory;
use host::machine::Machine;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::arguments::Start;

pub(crate) fn start(arguments: &Start) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Start) -> anyhow::Result<()> {
    let Some(node) = &arguments.node else { bail!("node-name is required: give --node or set NODE_NAME") };
    let client = cluster::connect(Some(&arguments.kubeconfig)).await?;
    let options =
        Options { node: node.clone(), witness: arguments.witness.clone(), kubelet: arguments.kubelet_healthz.clone() };
    loop {
        let (stopper, stop) = mpsc::channel(1);
        let signals = tokio::spawn(stop_on_signal(stopper)?);
        let ended = run(open_host(arguments)?, client.clone(), options.clone(), stop).await;
        signals.abort();
        match ended? {
            Ended::Terminated => return Ok(()),
            // A simulated reboot is a fresh start with another boot id.
            Ended::Rebooting if is_simulated(arguments) => tracing::info!("simulated reboot"),
            Ended::Rebooting => return wait_for_the_end().await,
        }
    }
}

fn open_host(arguments: &Start) -> anyhow::Result<Arc<dyn Host>> {
    let root = &arguments.root;
    let context = || format!("cannot open root {}", root.display());
    if is_simulated(arguments) {
        return Ok(Arc::new(Directory::open(root).with_context(context)?));
    }
    Ok(Arc::new(Machine::open(root).with_context(context)?))
}

/// A folder without systemd in it is no machine.
fn is_simulated(arguments: &Start) -> bool {
    arguments.simulate || !Machine::is_at(&arguments.root)
}

fn stop_on_signal(stopper: mpsc::Sender<()>) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stopper.send(()).await;
    })
}

/// The machine goes down; whatever else this process did would only be undone.
async fn wait_for_the_end() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    terminate.recv().await;
    Ok(())
}
