//! Runs the daemon until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use change::host::Host;
use daemon::metrics::{self, Door, Guard, Identity, Metrics};
use daemon::run::{Ended, Options, run};
use daemon::trial::Witness;
use host::directory::Directory;
use host::machine::Machine;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::arguments::Start;
use crate::line::Line;
use crate::offline;

/// How long a machine may take to go down. Units have ninety seconds to stop by default, and some take several minutes.
const REBOOT: Duration = Duration::from_secs(600);

pub(crate) fn start(arguments: &Start) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Start) -> anyhow::Result<()> {
    let mut line = Line::open(arguments).await?;
    let metrics = Metrics::default();
    let (os, version) = offline::os_release(&arguments.root);
    metrics.set_os(&os, &version);
    let guard = Arc::new(Guard::default());
    serve_metrics(arguments, &metrics, &guard).await;
    let mut options = Options {
        node: arguments.node.clone().unwrap_or_default(),
        watched_root: Some(arguments.root.clone()),
        metrics,
        witness: witness(arguments),
        kubelet: arguments.kubelet_healthz.clone(),
        namespace: arguments.namespace.clone(),
        access: line.access.clone(),
    };
    let mut stopped = stop_on_signal()?;
    // Unit type notify: whoever waits for the daemon waits until it listens.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    tell_backend(&*open_host(arguments)?);
    loop {
        let (renewal, ended) = line.renewed(arguments, stopped.clone());
        options.access = line.access.clone();
        guard.ask_with(line.client.clone());
        let ended = run(open_host(arguments)?, line.client, options.clone(), ended).await?;
        let renewed = renewal.end().await;
        match ended {
            Ended::Terminated if *stopped.borrow() => return Ok(()),
            Ended::Terminated if !renewed => return Ok(()),
            Ended::Terminated | Ended::Reconnect => tracing::info!("connecting anew with the credential on the host"),
            // A simulated reboot is a fresh start with another boot id.
            Ended::Rebooting if arguments.simulate => tracing::info!("simulated reboot"),
            // The machine goes down; whatever else this process did would only be undone. A reboot that is lost (a job that
            // hangs, an inhibitor) is asked for again: the daemon finds it in its journal.
            Ended::Rebooting => {
                if tokio::time::timeout(REBOOT, stopped.wait_for(|stopped| *stopped)).await.is_ok() {
                    return Ok(());
                }
                tracing::error!("the reboot that was asked for has not happened; it is asked for again");
            }
        }
        line = Line::open(arguments).await?;
    }
}

/// Says what of the operating system can be changed here, and by which program.
fn tell_backend(host: &dyn Host) {
    match host.system().backend() {
        Some(backend) => tracing::info!(backend = backend.name(), "found how to change the operating system"),
        None => tracing::info!("this host has no way to change its OS image or kernel arguments"),
    }
}

fn witness(arguments: &Start) -> Witness {
    match &arguments.witness {
        Some(address) => Witness::At(address.clone()),
        None if arguments.simulate => Witness::Nobody,
        None => Witness::Network,
    }
}

/// A daemon without metrics is still a daemon: a taken port is only worth a word.
async fn serve_metrics(arguments: &Start, metrics: &Metrics, guard: &Arc<Guard>) {
    let address = metrics::address(&arguments.metrics_url);
    match listen(arguments, &address, guard).await {
        Ok((listener, door)) => {
            drop(tokio::spawn(metrics::serve(listener, metrics.clone(), arguments.kubelet_healthz.clone(), door)));
        }
        Err(error) => tracing::warn!(address, "metrics are not served: {error:#}"),
    }
}

/// Beyond the host itself, only those are let in whom the cluster lets in.
async fn listen(arguments: &Start, address: &str, guard: &Arc<Guard>) -> anyhow::Result<(TcpListener, Door)> {
    let listener = TcpListener::bind(address).await?;
    if listener.local_addr()?.ip().is_loopback() {
        return Ok((listener, Door::Open));
    }
    let identity = Arc::new(Identity::of(arguments.node.as_deref().unwrap_or("localhost")));
    Ok((listener, Door::Guarded { guard: Arc::clone(guard), identity, host: open_host(arguments)? }))
}

pub(crate) fn open_host(arguments: &Start) -> anyhow::Result<Arc<dyn Host>> {
    let root = &arguments.root;
    let context = || format!("cannot open root {}", root.display());
    if arguments.simulate {
        return Ok(Arc::new(Directory::open(root).with_context(context)?));
    }
    if !Machine::is_at(root) {
        let place = root.display();
        bail!(
            "{place} has no systemd (no usr/lib/systemd/systemd), so units cannot be managed and reboots not asked for: \
             give the host's root with --root, or --simulate to play a host on a folder"
        );
    }
    Ok(Arc::new(Machine::open(root).with_context(context)?))
}

/// Turns true with the first signal to end, and stays so: a signal that comes while nobody looks is not lost.
fn stop_on_signal() -> std::io::Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stopper, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stopper.send(true);
        // The receivers must not see the channel end before they have seen the word.
        std::future::pending::<()>().await;
    });
    Ok(stopped)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn a_host_without_systemd_is_refused_and_simulated_only_when_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let open = |more: &[&str]| {
            let root = folder.path().to_str().unwrap();
            let arguments = [&["machinistd", "--root", root], more].concat();
            open_host(&Arguments::parse_from(arguments).start).map(drop)
        };
        let refusal = open(&[]).unwrap_err().to_string();
        assert!(refusal.contains("has no systemd") && refusal.contains("--simulate"), "{refusal}");
        open(&["--simulate"]).unwrap();
        std::fs::create_dir_all(folder.path().join("usr/lib/systemd")).unwrap();
        std::fs::write(folder.path().join("usr/lib/systemd/systemd"), "").unwrap();
        open(&[]).unwrap();
    }
}
