//! `machinist operator`: flags, environment and wiring of the operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::operator::{End, Settings};
use anyhow::Context;
use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::bootstrap;
use crate::install::Names;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Kubeconfig of the cluster; absent, as kubectl would find it, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    names: Names,
    /// Name of this process among the candidates for leadership; absent, the host's name and a number
    #[arg(long, env = "POD_NAME")]
    identity: Option<String>,
    /// How long a leader that vanished still counts, in seconds; 0 runs without an election
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lease_duration: u64,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8798")]
    listen: SocketAddr,
}

#[derive(Subcommand)]
enum Command {
    /// Write the ControllerConfig and the pools of a new cluster from an installer's files, without an API.
    Bootstrap(Box<bootstrap::operator::Making>),
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(Command::Bootstrap(making)) = &arguments.command {
        return bootstrap::operator::make(making);
    }
    crate::log::start("info,kube_runtime=warn")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(operate(arguments))
}

async fn operate(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let settings = Settings {
        installation: arguments.names.installation()?,
        identity: arguments.identity.clone().unwrap_or_else(identity),
        lease: (arguments.lease_duration > 0).then(|| Duration::from_secs(arguments.lease_duration)),
        listen: Some(arguments.listen),
        ..Settings::default()
    };
    let client = cluster::connect(arguments.kubeconfig.as_deref()).await?;
    let stop = told_to_stop()?;
    Ok(said(::operator::run(client, settings, stop).await?))
}

/// Returns when the process is asked to end.
pub(crate) fn told_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Says how a process came to its end.
pub(crate) fn said(end: End) -> ExitCode {
    match end {
        End::Stopped => tracing::info!("stopped"),
        End::Deposed => tracing::warn!("another process leads now"),
    }
    ExitCode::SUCCESS
}

/// Two processes on one host must not take each other for themselves, so a host's name alone is not enough.
pub(crate) fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), std::process::id())
}
