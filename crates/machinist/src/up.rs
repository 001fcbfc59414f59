//! `machinist up`: a whole fleet in one process, with no cluster, no container engine and no root.
//!
//! The embedded API, the controllers, and nodes that each run the real daemon on a folder of their own. Everything is
//! wired as on a real cluster; only the hosts' services and reboots are simulated.

mod content;
mod folder;
mod nodes;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use api::machineconfiguration::MachineConfigPool;
use clap::Args;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use owo_colors::OwoColorize as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

use folder::Folder;

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many worker nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u16,
    /// How many control-plane nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    control_plane: u16,
    /// Folder that keeps everything across restarts; absent, a temporary one that is removed at the end
    #[arg(long, value_name = "DIR")]
    data: Option<std::path::PathBuf>,
    /// Port of the API; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// How long the fleet may take to come up before it is worth saying what it waits for.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let folder = Folder::open(arguments.data.as_deref())?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_runtime=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(folder.log()?).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let code = runtime.block_on(up(&arguments, &folder));
    runtime.shutdown_timeout(Duration::from_secs(5));
    code
}

async fn up(arguments: &Arguments, folder: &Folder) -> anyhow::Result<ExitCode> {
    let server = ::apiserver::Server::builder().data(folder.path()).port(arguments.port).start().await?;
    let client = cluster::connect(Some(&folder.kubeconfig())).await?;
    content::install(&client).await?;

    let (stop, stopped) = watch::channel(false);
    let mut parts: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let names = nodes::create(&client, arguments.control_plane, arguments.nodes).await?;
    for name in &names {
        parts.spawn(nodes::run(client.clone(), name.clone(), folder.root_of(name), stopped.clone()));
    }
    parts.spawn(control(client.clone(), stopped.clone()));

    announce(&client, folder, server.server(), &names).await?;
    tokio::select! {
        signal = tokio::signal::ctrl_c() => signal.context("cannot wait for Ctrl-C")?,
        ended = parts.join_next() => {
            // Parts end only when they are told to; one that ended by itself is worth more than a fleet without it.
            ended.context("no part of the fleet runs")?.context("a part of the fleet failed")??;
            anyhow::bail!("a part of the fleet ended by itself; see {}", folder.log_path().display());
        }
    }
    anstream::println!("Stopping.");
    let _ = stop.send(true);
    while parts.join_next().await.is_some() {}
    server.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// The controllers, as one process would run them, without settling: a trial should answer at once.
async fn control(client: Client, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
    let settings =
        controllers::Settings { identity: "machinist-up".to_owned(), settle: Duration::ZERO, ..Default::default() };
    let stop = async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    controllers::run(client, settings, stop).await.context("the controllers failed")?;
    Ok(())
}

/// Waits until every pool is updated and says how to go on.
async fn announce(client: &Client, folder: &Folder, server: &str, names: &[String]) -> anyhow::Result<()> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let ready = async {
        for pool in content::POOLS {
            await_condition(pools.clone(), pool, is_updated).await?;
        }
        Ok::<_, kube::runtime::wait::Error>(())
    };
    match tokio::time::timeout(PATIENCE, ready).await {
        Ok(ready) => ready.context("cannot watch the pools")?,
        Err(_) => anstream::println!("The pools are not updated yet; `kubectl get mcp` shows how far they are."),
    }
    let node = names.last().map_or("NODE", String::as_str);
    let root = folder.root_of(node);
    anstream::println!("{} {} nodes at {server}", "Your fleet is up:".bold(), names.len());
    anstream::println!();
    anstream::println!("  export KUBECONFIG={}", folder.kubeconfig().display());
    anstream::println!("  kubectl get mcp,nodes                      pools and nodes");
    anstream::println!("  kubectl apply -f examples/motd.yaml        a file on every worker, one node at a time");
    anstream::println!("  ls {}      what is on {node}", root.join("etc").display());
    anstream::println!();
    anstream::println!("The log is {}. Ctrl-C stops.", folder.log_path().display());
    Ok(())
}

fn is_updated(pool: Option<&MachineConfigPool>) -> bool {
    let Some(status) = pool.and_then(|pool| pool.status.as_ref()) else { return false };
    status.conditions.iter().any(|condition| condition.type_ == "Updated" && condition.status == "True")
}
