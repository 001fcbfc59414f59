//! `machinist server`: flags, environment and wiring of the config server.

pub(crate) mod bootstrap;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::server::{BootstrapFiles, ClusterSettings, ClusterSource, Daemon, DaemonError, Listener, Settings, Source};
use anyhow::Context;
use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    listen: Listen,
    /// Kubeconfig of the cluster; absent, as kubectl would find it, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of events about pools
    #[arg(long, default_value = api::names::NAMESPACE)]
    namespace: String,
    /// Address at which new machines reach the API; it goes into their first kubeconfig
    #[arg(long, value_name = "URL", visible_alias = "api-server-url")]
    apiserver_url: Option<String>,
    /// Folder with token and ca.crt, from which the kubelet's first kubeconfig is made
    #[arg(long, value_name = "DIR", default_value = "/etc/mcs/bootstrap-token")]
    bootstrap_token: PathBuf,
}

#[derive(Subcommand)]
enum Mode {
    /// Serve the control plane's first machines from a folder of manifests, before there is a cluster.
    Bootstrap(bootstrap::Arguments),
}

/// Where it listens, and with which certificate.
#[derive(Args)]
struct Listen {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "::")]
    address: IpAddr,
    /// Port for TLS
    #[arg(long, value_name = "PORT", default_value_t = 22623)]
    secure_port: u16,
    /// Port for plain HTTP, on which tokens and secrets travel in the clear; none unless asked for
    #[arg(long, value_name = "PORT")]
    insecure_port: Option<u16>,
    /// Certificate chain; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.crt")]
    cert: PathBuf,
    /// Key of the certificate
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.key")]
    key: PathBuf,
    /// What machines check this server by when they report; absent, ca.crt beside the certificate if it is there
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// How machines reach this server. With it, those that come without the daemon are told to fetch it here
    #[arg(long, value_name = "HOST[:PORT]")]
    server: Option<String>,
    /// The daemon's binary; absent, machinistd beside this program if it is there. FILE.gz beside it is served to who takes gzip
    #[arg(long, value_name = "FILE", requires = "server")]
    daemon_binary: Option<PathBuf>,
}

impl Listen {
    fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings {
            secure: self.at(self.secure_port),
            insecure: self.insecure_port.map(|port| self.at(port)),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            daemon: self.daemon()?,
            host: self.server.clone(),
        })
    }

    /// One that was named must be there; one that might be found may be missing or broken.
    fn daemon(&self) -> anyhow::Result<Option<Daemon>> {
        if let Some(path) = &self.daemon_binary {
            return Ok(Some(Daemon::load(path)?));
        }
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name("machinistd"));
        let Some(path) = beside.filter(|path| self.server.is_some() && path.is_file()) else { return Ok(None) };
        let warn = |error: &DaemonError| {
            tracing::warn!(error = error as &dyn std::error::Error, "machines cannot fetch the daemon here");
        };
        Ok(Daemon::load(&path).inspect_err(warn).ok())
    }

    /// A host without IPv6 has no `::`.
    fn at(&self, port: u16) -> SocketAddr {
        let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
        let address = if self.address.is_unspecified() && !has_ipv6 { [0, 0, 0, 0].into() } else { self.address };
        SocketAddr::new(address, port)
    }

    fn ca(&self) -> Option<PathBuf> {
        self.ca.clone().or_else(|| Some(self.cert.with_file_name("ca.crt")).filter(|path| path.is_file()))
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    crate::log::start("info,kube_runtime=warn")?;
    // TLS is all that costs; a fleet that boots at once may have two cores of a control-plane host, and no more.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).max_blocking_threads(4).enable_all().build().context("cannot start")?;
    match &arguments.mode {
        Some(Mode::Bootstrap(bootstrap)) => {
            let Some(source) = bootstrap.source()? else { return Ok(ExitCode::SUCCESS) };
            runtime.block_on(serve(bootstrap.listen(), Source::Folder(source)))
        }
        None => runtime.block_on(serve_cluster(&arguments)),
    }
}

async fn serve_cluster(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let url = arguments.apiserver_url.clone();
    let api_server_url = url.context("give --apiserver-url: the address at which new machines reach the API")?;
    let client = cluster::connect(arguments.kubeconfig.as_deref()).await?;
    let settings = ClusterSettings {
        files: BootstrapFiles { api_server_url, folder: arguments.bootstrap_token.clone() },
        server_ca: arguments.listen.ca(),
        namespace: arguments.namespace.clone(),
    };
    let source = ClusterSource::start(client, settings);
    serve(&arguments.listen, Source::Cluster(Box::new(source))).await
}

async fn serve(listen: &Listen, source: Source) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let listener = Listener::bind(listen.settings()?, source)?;
    let address = listener.address().context("cannot tell the port")?;
    tracing::info!(%address, insecure = ?listener.insecure_address(), "serving configs");
    anstream::println!("Serving https://{address}");
    tokio::select! {
        () = listener.run() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}
