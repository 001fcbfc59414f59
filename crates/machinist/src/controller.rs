//! `machinist controller`: flags, environment and wiring of the config controllers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use controllers::{End, Settings};
use tokio::signal::unix::{SignalKind, signal};

use crate::bootstrap;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Kubeconfig of the cluster; absent, as kubectl would find it, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the Lease and of events about cluster-scoped objects
    #[arg(long, default_value = api::names::NAMESPACE)]
    namespace: String,
    /// Name of this process among the candidates for leadership; absent, the pod's or host's name and a random part
    #[arg(long, env = "POD_NAME")]
    identity: Option<String>,
    /// How long a leader that vanished still counts, in seconds; 0 runs without an election
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lease_duration: u64,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8797")]
    listen: SocketAddr,
    /// How long a pool's target must stay the same before a node gets it, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    settle: f64,
    /// The node this process runs on; of a control plane it is updated last
    #[arg(long, env = "NODE_NAME")]
    node: Option<String>,
    /// Folder of templates that hosts start from, instead of those that come with the profile
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Render the pools of a new cluster from a folder of manifests, without an API, as the controllers will later.
    Bootstrap(bootstrap::Rendering),
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(Command::Bootstrap(rendering)) = &arguments.command {
        return bootstrap::render(rendering);
    }
    // Each watch tells its own trouble once; kube would repeat it at every attempt.
    crate::log::start("info,kube_runtime=error")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(control(arguments))
}

async fn control(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let kubeconfig = arguments.kubeconfig.clone();
    let settings = settings(arguments)?;
    let client = cluster::connect(kubeconfig.as_deref()).await?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    match controllers::run(client, settings, stop).await? {
        End::Stopped => tracing::info!("stopped"),
        End::Deposed => tracing::warn!("another process leads now"),
    }
    Ok(ExitCode::SUCCESS)
}

fn settings(arguments: Arguments) -> anyhow::Result<Settings> {
    let settle = Duration::try_from_secs_f64(arguments.settle)
        .with_context(|| format!("--settle {} is not a number of seconds", arguments.settle))?;
    let templates = arguments.templates.as_deref().map(crate::templates::load).transpose()?;
    Ok(Settings {
        templates,
        namespace: arguments.namespace,
        identity: arguments.identity.unwrap_or_else(identity),
        lease: (arguments.lease_duration > 0).then(|| Duration::from_secs(arguments.lease_duration)),
        listen: Some(arguments.listen),
        settle,
        node: arguments.node,
        ..Settings::default()
    })
}

/// Two processes on one host must not take each other for themselves, so a host's name alone is not enough.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), std::process::id())
}
