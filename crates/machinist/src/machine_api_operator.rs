//! `machinist machine-api-operator start`: flags, environment and wiring of the Machine API's operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::operator::machine_api::Settings;
use anyhow::Context;
use clap::{Args, Subcommand};

use crate::{install, operator};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Deploy the machine controllers that this cluster's platform needs, and keep them so
    Start(Start),
}

#[derive(Args)]
struct Start {
    /// Kubeconfig of the cluster; absent, as kubectl would find it, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// File of images; absent, they are in the ConfigMap machine-api-operator-images
    #[arg(long, value_name = "FILE")]
    images_json: Option<PathBuf>,
    /// Namespace of the controllers and of the images
    #[arg(long, default_value = api::names::MACHINE_API_NAMESPACE)]
    namespace: String,
    /// Platform whose machines are managed, such as AWS; absent, found from the cluster
    #[arg(long, value_name = "PLATFORM", value_parser = install::platform)]
    platform: Option<String>,
    #[command(flatten)]
    machines: install::OfMachines,
    /// Name of this process among the candidates for leadership; absent, the host's name and a number
    #[arg(long, env = "POD_NAME")]
    identity: Option<String>,
    /// How long a leader that vanished still counts, in seconds; 0 runs without an election
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lease_duration: u64,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8800")]
    listen: SocketAddr,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Verb::Start(start) = arguments.verb;
    if let Some(path) = start.images_json.as_ref().filter(|path| path.as_os_str().is_empty()) {
        anyhow::bail!("--images-json {:?} should not be empty", path.display());
    }
    crate::log::start("info,kube_runtime=warn")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(operate(start))
}

async fn operate(start: Start) -> anyhow::Result<ExitCode> {
    let settings = Settings {
        namespace: start.namespace,
        platform: start.platform,
        choices: start.machines.choices(),
        images: start.images_json,
        identity: start.identity.unwrap_or_else(operator::identity),
        lease: (start.lease_duration > 0).then(|| Duration::from_secs(start.lease_duration)),
        listen: Some(start.listen),
        ..Settings::default()
    };
    let client = cluster::connect(start.kubeconfig.as_deref()).await?;
    let stop = operator::told_to_stop()?;
    Ok(operator::said(::operator::machine_api::run(client, settings, stop).await?))
}
