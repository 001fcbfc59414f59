//! `machinist up`: a whole fleet in one process, with no cluster, no container engine and no root.
//!
//! The embedded API, the controllers, and nodes that each run the real daemon on a folder of their own. Everything is
//! wired as on a real cluster; only the hosts' services and reboots are simulated, and small stand-ins play the rest of
//! a cluster. With `--systemd` the nodes are real systemd containers instead.

mod born;
mod cloud;
mod components;
mod config_server;
mod containers;
mod content;
mod exec;
mod folder;
mod hosts;
mod limits;
mod logs;
mod machines;
mod nodes;
mod played;
mod systemd;
mod templates;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::machineconfiguration::MachineConfigPool;
use clap::Args;
use dashboard::Dashboard;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use memory::Boot;
use owo_colors::OwoColorize as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

use crate::standins::{self, Machines};
use cloud::{Cloud, Platform};
use folder::Folder;

#[derive(Args)]
pub struct Arguments {
    /// How many worker nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
    /// How many control-plane nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    control_plane: u32,
    /// Folder that keeps everything across restarts; absent, a temporary one that is removed at the end
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Port of the API; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Keep nodes in memory only: thousands of them, without files to look at
    #[arg(long)]
    in_memory: bool,
    /// Make each node a real systemd container, with real units and reboots; needs root, debootstrap and systemd-nspawn
    #[arg(long, conflicts_with_all = ["in_memory", "kubeconfig"])]
    systemd: bool,
    /// With --systemd: the daemon's binary; absent, the one beside this binary or on the PATH
    #[arg(long, value_name = "FILE", requires = "systemd")]
    machinistd: Option<PathBuf>,
    /// Install the kinds of 2019 too: cluster.k8s.io and healthchecking.openshift.io
    #[arg(long)]
    legacy_kinds: bool,
    /// Run the fleet against this API, a test one, instead of the embedded one
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    kubeconfig: Option<PathBuf>,
}

/// Names and roles of nodes.
type Names = Vec<(String, &'static str)>;

/// How long the fleet may take to come up before it is worth saying what it waits for.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    limits::allow(arguments.nodes + arguments.control_plane, arguments.in_memory, arguments.systemd)?;
    let parts = arguments.systemd.then(|| systemd::prepare(&arguments)).transpose()?.map(Arc::new);
    let folder = Folder::open(arguments.data.as_deref())?;
    if !arguments.in_memory {
        folder.keep_kind_of_nodes(arguments.systemd)?;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_runtime=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(folder.log()?).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let code = runtime.block_on(up(&arguments, &folder, parts));
    runtime.shutdown_timeout(Duration::from_secs(5));
    code
}

/// The API that the fleet runs against.
enum Server {
    Embedded(Box<::apiserver::Running>),
    Other(String),
}

impl Server {
    fn address(&self) -> &str {
        match self {
            Self::Embedded(server) => server.server(),
            Self::Other(address) => address,
        }
    }
}

/// A running fleet.
struct Fleet<'a> {
    arguments: &'a Arguments,
    folder: &'a Folder,
    client: Client,
    kubeconfig: PathBuf,
    machines: Machines,
    parts: JoinSet<anyhow::Result<()>>,
    stopped: watch::Receiver<bool>,
    /// Where the config server will listen; taken when it begins.
    configs: Option<(TcpListener, SocketAddr)>,
    /// What real nodes are made from.
    systemd: Option<Arc<systemd::Parts>>,
    /// Serves the fleet to a browser, until the fleet ends.
    dashboard: Option<Dashboard>,
}

async fn up(arguments: &Arguments, folder: &Folder, systemd: Option<Arc<systemd::Parts>>) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let (machines, parts) = (Machines::default(), JoinSet::new());
    let (server, client, kubeconfig) = open(arguments, folder, &machines).await?;
    let (stop, stopped) = watch::channel(false);
    let configs = Some(config_server::reserve().await?);
    let mut fleet =
        Fleet { arguments, folder, client, kubeconfig, machines, parts, stopped, configs, systemd, dashboard: None };
    let lived = tokio::select! {
        ended = fleet.live(&server, begun) => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    if lived.is_ok() {
        anstream::println!("Stopping.");
    }
    // However it came to its end: containers are stopped and unmounted, what was accepted is committed.
    let _ = stop.send(true);
    while fleet.parts.join_next().await.is_some() {}
    if let Server::Embedded(server) = server {
        server.shutdown().await;
    }
    lived.map(|()| ExitCode::SUCCESS)
}

/// Starts the embedded API, or connects to the one that was named.
async fn open(
    arguments: &Arguments,
    folder: &Folder,
    machines: &Machines,
) -> anyhow::Result<(Server, Client, PathBuf)> {
    if let Some(kubeconfig) = &arguments.kubeconfig {
        let client = cluster::connect(Some(kubeconfig)).await?;
        refuse_production(&client).await?;
        let text = std::fs::read_to_string(kubeconfig).unwrap_or_default();
        let address = text.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap_or("the other API");
        return Ok((Server::Other(address.to_owned()), client, kubeconfig.clone()));
    }
    let mut builder = ::apiserver::Server::builder().port(arguments.port).pod_logs(logs::of_pods(
        folder.log_path(),
        folder.nodes(),
        machines.clone(),
    ));
    builder = builder.pod_exec(exec::on_nodes(folder, machines.clone(), arguments));
    builder =
        if arguments.in_memory && arguments.data.is_none() { builder.in_memory() } else { builder.data(folder.path()) };
    let server = builder.start().await.map_err(|error| limits::explain(error, arguments.port))?;
    if arguments.in_memory && arguments.data.is_none() {
        folder.write_kubeconfig(&server.kubeconfig())?;
    }
    let client = cluster::connect(Some(&folder.kubeconfig())).await?;
    Ok((Server::Embedded(Box::new(server)), client, folder.kubeconfig()))
}

/// Somebody's real nodes must never meet a simulated fleet.
async fn refuse_production(client: &Client) -> anyhow::Result<()> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.context("cannot list nodes")?.items;
    let foreign = nodes.iter().find(|node| !node.labels().contains_key(nodes::LABEL));
    if let Some(node) = foreign {
        bail!(
            "this cluster has a node of its own, {}; `up --kubeconfig` is for test APIs without nodes, and it would play \
             scheduler and kubelet there",
            node.name_any()
        );
    }
    Ok(())
}

impl Fleet<'_> {
    /// Comes up and lives until a part of it fails.
    async fn live(&mut self, server: &Server, begun: Instant) -> anyhow::Result<()> {
        let names = self.start(server).await?;
        self.announce(server.address(), &names, begun).await?;
        // Parts end only when they are told to; one that ended by itself is worth more than a fleet without it.
        let ended = self.parts.join_next().await;
        ended.context("no part of the fleet runs")?.context("a part of the fleet failed")??;
        bail!("a part of the fleet ended by itself; see {}", self.folder.log_path().display())
    }

    async fn start(&mut self, server: &Server) -> anyhow::Result<Names> {
        content::install(&self.client, self.arguments.legacy_kinds).await?;
        let (client, stopped) = (self.client.clone(), self.stopped.clone());
        let mut installation = ::operator::Installation {
            server: self.configs.as_ref().map(|(_, address)| address.to_string()),
            api_url: Some(server.address().to_owned()),
            older_groups: self.arguments.legacy_kinds,
            // Also for containers: the Deployment is played by this process, whatever its arguments say.
            platform: Some(::operator::machine_api::SIMULATED.to_owned()),
            ..::operator::Installation::default()
        };
        installation.access = ::operator::access(&installation, &controllers::ROLES, &::server::ROLES);
        installation.machine_access = ::operator::machine_access(&installation, &::machines::webhook::with_roles());
        let authority = match server {
            Server::Embedded(server) => Some(server.certificate_authority().to_owned()),
            Server::Other(_) => None,
        };
        let machine_installation = installation.clone();
        self.parts.spawn(components::operator(client.clone(), installation, authority, stopped.clone()));
        let folder = self.folder.path().join("config-server");
        let url = server.address().to_owned();
        if let Some(configs) = self.configs.take() {
            self.parts.spawn(config_server::run(client, folder, configs, url, stopped));
        }
        self.parts.spawn(components::controller(self.client.clone(), self.stopped.clone()));
        let (admission, address) = config_server::reserve().await?;
        let names = nodes::names(self.arguments.control_plane, self.arguments.nodes);
        let names = if self.arguments.systemd {
            self.start_containers(names, server, admission).await?
        } else if self.arguments.in_memory {
            self.start_in_memory(names, admission).await?
        } else {
            self.start_on_folders(names, admission).await?
        };
        // After the initial Machines, which are right and need not be admitted one by one.
        let (client, stopped) = (self.client.clone(), self.stopped.clone());
        let url = format!("https://{address}");
        self.parts.spawn(components::machine_operator(client, machine_installation, url, stopped));
        let options = standins::Options {
            machines: self.machines.clone(),
            daemon_sets: !self.arguments.in_memory,
            heartbeats: !self.arguments.in_memory,
        };
        let (client, stopped) = (self.client.clone(), self.stopped.clone());
        self.parts.spawn(async move {
            standins::run(client, options, told_to_stop(stopped)).await;
            Ok(())
        });
        Ok(names)
    }

    /// Nodes that the fleet plays, and their Machines.
    async fn start_in_memory(&mut self, names: Names, admission: TcpListener) -> anyhow::Result<Names> {
        let fleet = nodes::fleet(&self.client);
        let cloud = self.open_cloud(Arc::new(played::Played::new(self.client.clone(), fleet.clone())))?;
        let names = still_there(names, &cloud);
        let dress = |node, role: &str| machines::dressed(Platform::Memory, node, role);
        let nodes = nodes::play(&fleet, &self.client, &names, dress).await?;
        let stopped = self.stopped.clone();
        self.parts.spawn(async move {
            tokio::select! {
                () = fleet.run() => bail!("the simulated nodes ended by themselves"),
                () = told_to_stop(stopped) => Ok(()),
            }
        });
        self.start_machines(&names, nodes, cloud, admission).await?;
        Ok(names)
    }

    /// Nodes whose daemon runs on a folder, and their Machines.
    async fn start_on_folders(&mut self, names: Names, admission: TcpListener) -> anyhow::Result<Names> {
        let folder = self.folder.nodes();
        let (hosts, failures) = hosts::Hosts::new(self.client.clone(), self.machines.clone(), folder);
        let cloud = self.open_cloud(Arc::new(hosts.clone()))?;
        let names = still_there(names, &cloud);
        born::Births::expect(&self.client, &names).await?.in_folders(|name| self.folder.root_of(name)).await?;
        let nodes = nodes::create(&self.client, &initial(&names, Platform::Memory), true).await?;
        names.iter().for_each(|(name, _)| hosts.switch_on(name));
        self.parts.spawn(hosts.run(failures, self.stopped.clone()));
        self.start_machines(&names, nodes, cloud, admission).await?;
        Ok(names)
    }

    /// Nodes that are systemd containers, and their Machines.
    async fn start_containers(
        &mut self,
        names: Names,
        server: &Server,
        admission: TcpListener,
    ) -> anyhow::Result<Names> {
        let (Some(parts), Server::Embedded(server)) = (&self.systemd, server) else {
            bail!("--systemd needs the embedded API");
        };
        let (client, machines, credentials) = (self.client.clone(), self.machines.clone(), server.credentials());
        let (containers, failures) =
            containers::Containers::new(client, machines, self.folder.nodes(), Arc::clone(parts), credentials);
        let host = container::Host::open(&self.folder.containers(), Arc::new(containers.clone()));
        let cloud = Cloud::Container(host.context("the containers of an earlier run cannot be found")?);
        let names = still_there(names, &cloud);
        let births = born::Births::expect(&self.client, &names).await?;
        let nodes = nodes::create(&self.client, &initial(&names, Platform::Container), false).await?;
        names.iter().try_for_each(|(name, _)| containers.switch_on(name, &births))?;
        self.parts.spawn(containers.run(failures, self.stopped.clone()));
        self.start_machines(&names, nodes, cloud, admission).await?;
        Ok(names)
    }

    /// The simulated cloud. Its account lives as long as the API's objects do.
    fn open_cloud(&self, boot: Arc<dyn Boot>) -> anyhow::Result<Cloud> {
        if self.arguments.data.is_none() {
            return Ok(Cloud::Memory(memory::Cloud::new(boot)));
        }
        let cloud = memory::Cloud::open(&self.folder.account(), boot);
        cloud.map(Cloud::Memory).context("the simulated cloud cannot open its account")
    }

    async fn start_machines(
        &mut self,
        names: &Names,
        nodes: Vec<Node>,
        cloud: Cloud,
        admission: TcpListener,
    ) -> anyhow::Result<()> {
        cluster::ensure_namespace(&self.client, api::names::MACHINE_API_NAMESPACE).await?;
        machines::install(&self.client, names, nodes, &cloud).await?;
        cloud.resume();
        let provider = cloud.provider();
        let folder = self.folder.path().join("admission");
        let (client, stopped) = (self.client.clone(), self.stopped.clone());
        self.parts.spawn(components::admission(client, admission, folder, provider.clone(), stopped));
        self.parts.spawn(components::machines(self.client.clone(), provider, self.stopped.clone()));
        Ok(())
    }

    /// Waits until every pool is updated and says how to go on.
    async fn announce(&mut self, server: &str, names: &[(String, &'static str)], begun: Instant) -> anyhow::Result<()> {
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        // Also pools that a user has made: their nodes are counted there and no longer by the pool of their role.
        let ready = async {
            let mut known = BTreeMap::new();
            let mut changes = std::pin::pin!(watcher(pools, watcher::Config::default()).applied_objects());
            while let Some(pool) = changes.try_next().await? {
                known.insert(pool.name_any(), pool);
                if are_updated(known.values(), names.len()) {
                    break;
                }
            }
            Ok::<_, watcher::Error>(())
        };
        tokio::select! {
            ready = tokio::time::timeout(PATIENCE, ready) => match ready {
                Ok(ready) => ready.context("cannot watch the pools")?,
                Err(_) => anstream::println!("The pools are not updated yet; `machinist status` shows what they wait for."),
            },
            Some(ended) = self.parts.join_next() => {
                ended.context("a part of the fleet failed")??;
                bail!("a part of the fleet ended by itself; see {}", self.folder.log_path().display());
            }
        }
        let took = begun.elapsed().as_secs_f32();
        let (kubeconfig, folder) = (self.kubeconfig.display(), self.folder);
        anstream::println!("{} {} nodes at {server}, in {took:.1} s", "Your fleet is up:".bold(), names.len());
        anstream::println!();
        anstream::println!("  export KUBECONFIG={kubeconfig}");
        anstream::println!();
        anstream::println!("{}", "Three things to try, in another terminal:".bold());
        anstream::println!("  machinist status --watch                   pools and nodes, live");
        anstream::println!("  kubectl apply -f examples/motd.yaml        a file for every worker, one node at a time");
        anstream::println!(
            "  machinist why pool worker                  why it is in its state, and what would move it"
        );
        anstream::println!();
        if let Some((node, _)) = names.last().filter(|_| !self.arguments.in_memory) {
            let (root, switch) = (folder.root_of(node), folder.switch_of(node));
            anstream::println!("What is on {node}:    ls {}", root.join("etc").display());
            if self.arguments.systemd {
                let leader = root.with_file_name("leader");
                anstream::println!("A shell on {node}:    nsenter -t $(cat {}) -m -u -i -p -C bash", leader.display());
            }
            anstream::println!("Switch {node} off:    touch {}", switch.display());
        }
        let settings =
            dashboard::Settings { listen: SocketAddr::from(([127, 0, 0, 1], 0)), entry: dashboard::Entry::Link };
        let dashboard = Dashboard::start(self.client.clone(), &settings).await?;
        anstream::println!("In a browser, once:     {}", dashboard.link());
        self.dashboard = Some(dashboard);
        anstream::println!("A new worker's pointer: machinist pointer --pool worker");
        anstream::println!("The log:                {}", folder.log_path().display());
        anstream::println!(
            "Ctrl-C stops{}.",
            if self.arguments.data.is_some() {
                "; the same command goes on from here"
            } else {
                " and removes everything"
            }
        );
        Ok(())
    }
}

/// The nodes that `up` begins with, without those whose Machine was deleted since.
fn still_there(mut names: Names, cloud: &Cloud) -> Names {
    names.retain(|(name, _)| !cloud.is_gone(&cloud.platform().provider_id(name)));
    names
}

/// The Nodes that `up` begins with, each linked to its Machine.
fn initial(names: &Names, platform: Platform) -> Vec<Node> {
    let blank = |(name, role): &(String, &'static str)| {
        machines::dressed(platform, nodes::blank(name, role, &nodes::zone_of(name), ""), role)
    };
    names.iter().map(blank).collect()
}

/// Returns at the end of the fleet.
async fn told_to_stop(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Whether the pools count so many nodes together, and those of the fleet's roles have brought all of theirs to their config.
/// One that a user made may be paused for as long as the user likes.
fn are_updated<'a>(pools: impl Iterator<Item = &'a MachineConfigPool>, count: usize) -> bool {
    let mut counted = 0;
    for pool in pools {
        let Some(status) = &pool.status else { continue };
        let is_updated =
            status.conditions.iter().any(|condition| condition.type_ == "Updated" && condition.status == "True");
        if !is_updated && nodes::POOLS.iter().any(|(name, _)| pool.name_any() == *name) {
            return false;
        }
        counted += status.machine_count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    }
    counted >= count
}
