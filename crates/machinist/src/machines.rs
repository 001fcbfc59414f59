//! `machinist machines`: flags, environment and wiring of the machine controllers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::machines::{End, Orphans, Settings};
use anyhow::Context;
use aws::Aws;
use clap::{Args, ValueEnum};
use external::External;
use gcp::Gcp;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use libvirt::{Acceleration, Libvirt};
use machine::provider::Provider;
use memory::{Cloud, Memory, Nothing};
use metal::Metal;
use openstack::OpenStack;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use vsphere::Vsphere;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Cloud that the machines are in (aws, gcp, libvirt, bare metal, openstack, vsphere; simulated: memory, kubemark), or the socket of a provider that is a
    /// process of its own, as unix:PATH
    #[arg(long, value_name = "PLATFORM|unix:SOCKET", value_parser = Chosen::parse)]
    provider: Chosen,
    /// With the simulated cloud: file that keeps its instances across restarts; absent, they are gone with this process
    #[arg(long, value_name = "FILE")]
    account: Option<PathBuf>,
    /// With libvirt: the program that speaks to it
    #[arg(long, value_name = "FILE", default_value = "virsh")]
    virsh: PathBuf,
    /// With libvirt: emulate processors, on hosts that offer KVM and cannot use it
    #[arg(long)]
    emulate: bool,
    /// Kubeconfig of the cluster; absent, as kubectl would find it, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the Lease
    #[arg(long, default_value = api::names::MACHINE_API_NAMESPACE)]
    namespace: String,
    /// Name of this process among the candidates for leadership; absent, the pod's or host's name and a number
    #[arg(long, env = "POD_NAME")]
    identity: Option<String>,
    /// How long a leader that vanished still counts, in seconds; 0 runs without an election
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lease_duration: u64,
    /// Etcd does not run as pods of this cluster, and whoever runs it keeps its quorum while machines of the control plane
    /// are replaced; absent, none is taken away while etcd's members cannot be seen
    #[arg(long)]
    external_etcd: bool,
    /// Remove what carries the mark of this cluster in the cloud and belongs to no Machine, an hour after it was made; absent,
    /// it is only told of. The id is that of label machine.openshift.io/cluster-api-cluster, and no other cluster may have it
    #[arg(long, value_name = "CLUSTER-ID")]
    remove_orphans: Option<String>,
    /// Carry out no MachineHealthChecks
    #[arg(long)]
    without_health_checks: bool,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8799")]
    listen: SocketAddr,
    /// Where Machines are admitted, over HTTPS; absent, nowhere
    #[arg(long, value_name = "ADDRESS", requires = "webhook_certificate")]
    webhook: Option<SocketAddr>,
    /// Folder with tls.crt and tls.key of --webhook
    #[arg(long, value_name = "FOLDER")]
    webhook_certificate: Option<PathBuf>,
    /// The oldest version of TLS that --webhook speaks, such as VersionTLS13; it speaks none before VersionTLS12
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,
    /// The cipher suites of TLS 1.2 that --webhook may use; names that it does not know are left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
}

/// The clouds whose machines can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Platform {
    /// Amazon EC2
    Aws,
    /// Compute Engine of Google
    Gcp,
    /// Domains of libvirt, on the hosts that Machines name
    Libvirt,
    /// Hosts of Metal3, in the cluster itself
    #[value(name = "baremetal")]
    BareMetal,
    /// Servers of OpenStack, on the clouds that Machines name
    #[value(name = "openstack")]
    OpenStack,
    /// VMware vSphere, on the vCenters that Machines name
    Vsphere,
    /// Simulated: instances that nothing boots on
    Memory,
    /// The simulated cloud, with the spec of kubemark
    Kubemark,
}

/// Who makes the machines: one of ours, or a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Chosen {
    Platform(Platform),
    Socket(PathBuf),
}

impl Chosen {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // Also in the form of an address: unix:///run/provider.sock.
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return match path.is_absolute() {
                true => Ok(Self::Socket(path)),
                false => Err("name the socket by its whole path, such as unix:/run/provider.sock".to_owned()),
            };
        }
        Platform::from_str(text, false).map(Self::Platform).map_err(|_| {
            let known = Platform::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
            format!("there is no such provider; there are {}, and unix:PATH for one of your own", known.join(", "))
        })
    }

    fn is(&self, platforms: &[Platform]) -> bool {
        matches!(self, Self::Platform(platform) if platforms.contains(platform))
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.account.is_some() && !arguments.provider.is(&[Platform::Memory, Platform::Kubemark]) {
        anyhow::bail!("--account is for the simulated cloud; real ones keep their own");
    }
    if arguments.emulate && !arguments.provider.is(&[Platform::Libvirt]) {
        anyhow::bail!("--emulate is for libvirt");
    }
    crate::log::start("info,kube_runtime=error")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(control(arguments))
}

async fn control(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = cluster::connect(arguments.kubeconfig.as_deref()).await?;
    let provider = provider(&arguments, &client).await?;
    if let (Some(address), Some(folder)) = (arguments.webhook, arguments.webhook_certificate.clone()) {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {address}; choose another with --webhook"))?;
        let (client, provider) = (client.clone(), provider.clone());
        let tls = ::machines::webhook::Tls {
            certificates: folder,
            min_version: arguments.tls_min_version.clone(),
            suites: arguments.tls_cipher_suites.clone(),
        };
        // It serves whoever leads, and ends with the process.
        tokio::spawn(async move { ::machines::webhook::serve(listener, &tls, client, provider).await });
    }
    let settings = Settings {
        namespace: arguments.namespace,
        identity: arguments.identity.unwrap_or_else(identity),
        lease: (arguments.lease_duration > 0).then(|| Duration::from_secs(arguments.lease_duration)),
        listen: Some(arguments.listen),
        etcd_elsewhere: arguments.external_etcd,
        health_checks: !arguments.without_health_checks,
        orphans: match &arguments.remove_orphans {
            Some(cluster) => Orphans::Remove { cluster: cluster.clone() },
            None => Orphans::Report,
        },
        ..Settings::default()
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    match ::machines::run(client, settings, provider, stop).await? {
        End::Stopped => tracing::info!("stopped"),
        End::Deposed => tracing::warn!("another process leads now"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn provider(arguments: &Arguments, client: &Client) -> anyhow::Result<Arc<dyn Provider>> {
    let simulated = || {
        let boot = Arc::new(Nothing);
        let cloud = match &arguments.account {
            Some(path) => Cloud::open(path, boot).context("the simulated cloud cannot open its account")?,
            None => Cloud::new(boot),
        };
        cloud.resume();
        anyhow::Ok(cloud)
    };
    let platform = match &arguments.provider {
        Chosen::Platform(platform) => *platform,
        // It need not be there yet: its Machines say that it does not answer until it does.
        Chosen::Socket(path) => return Ok(Arc::new(External::new(external::Settings::new(path)))),
    };
    Ok(match platform {
        Platform::Aws => {
            let infrastructure = infrastructure(client).await?;
            let settings = aws::Settings::from_platform_status(&infrastructure["status"]["platformStatus"]);
            Arc::new(Aws::new(settings).context("AWS cannot be used")?)
        }
        Platform::Gcp => {
            let infrastructure = infrastructure(client).await?;
            let settings = gcp::Settings::from_platform_status(&infrastructure["status"]["platformStatus"]);
            Arc::new(Gcp::new(settings).context("Google cannot be used")?)
        }
        Platform::Libvirt => {
            let acceleration = if arguments.emulate { Acceleration::Emulated } else { Acceleration::Auto };
            let settings = libvirt::Settings { acceleration, ..libvirt::Settings::default() };
            Arc::new(Libvirt::new(&arguments.virsh, settings))
        }
        Platform::BareMetal => Arc::new(Metal::new(client.clone())),
        Platform::OpenStack => {
            let infrastructure = infrastructure(client).await?;
            let settings = openstack::Settings::from_platform_status(&infrastructure["status"]["platformStatus"]);
            // As the cloud controller manager is told.
            let regional = std::env::var("OS_CCM_REGIONAL").is_ok_and(|value| value == "true");
            Arc::new(OpenStack::new(openstack::Settings { regional, ..settings }))
        }
        Platform::Vsphere => {
            let infrastructure = infrastructure(client).await?;
            let settings = vsphere::Settings::from_platform_spec(&infrastructure["spec"]["platformSpec"]);
            Arc::new(Vsphere::new(settings, Arc::new(vsphere::claims::InCluster::new(client.clone()))))
        }
        Platform::Memory => Arc::new(Memory::new(simulated()?)),
        Platform::Kubemark => Arc::new(Memory::kubemark(simulated()?)),
    })
}

/// The Infrastructure object; nothing on a cluster that has none.
async fn infrastructure(client: &Client) -> anyhow::Result<Value> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", "Infrastructure"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let found = cluster::error::if_found(cluster::write::in_time(api.get("cluster")).await);
    let found = found.map_err(|error| crate::gather::refusal(error, "get", "infrastructures"))?;
    Ok(found.map(|object| object.data).unwrap_or_default())
}

/// Two processes on one host must not take each other for themselves, so a host's name alone is not enough.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_a_platform_or_a_socket() {
        assert_eq!(Chosen::parse("aws"), Ok(Chosen::Platform(Platform::Aws)));
        for text in ["unix:/run/shed.sock", "unix:///run/shed.sock"] {
            assert_eq!(Chosen::parse(text), Ok(Chosen::Socket(PathBuf::from("/run/shed.sock"))));
        }
        assert!(Chosen::parse("unix:shed.sock").expect_err("whose folder?").contains("whole path"));
        let error = Chosen::parse("nutanix").expect_err("there is none");
        assert!(error.contains("libvirt") && error.contains("unix:PATH"), "{error}");
    }

    #[test]
    fn every_provider_that_the_operator_deploys_is_one_that_can_be_run() {
        let deployed = operate::machine_api::PLATFORMS.into_iter().filter_map(operate::machine_api::provider);
        let unknown: Vec<&str> = deployed.filter(|name| Platform::from_str(name, false).is_err()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn every_provider_that_the_operator_deploys_has_an_image_in_a_new_installation() {
        use machine::operator_config::{Deployment, Proxy, Snapshot, TlsSettings, plan};
        use operate::machine_api::{SIMULATED, images, installed, provider};
        let objects = installed(&operate::Installation::default());
        let map = objects.iter().find(|one| one.object["metadata"]["name"] == images::CONFIG_MAP).expect("it is there");
        let text = map.object["data"][images::KEY].as_str().expect("a text");
        let images = images::parse(text, "here").expect("it can be read");
        // The operator takes the simulated cloud for kubemark.
        let deployed = operate::machine_api::PLATFORMS.into_iter().filter(|name| provider(name).is_some());
        for name in deployed.filter(|name| *name != SIMULATED) {
            let snapshot = Snapshot {
                platform: Ok(name.to_owned()),
                images: images.clone(),
                enabled_features: std::collections::BTreeSet::new(),
                proxy: Proxy::default(),
                tls: TlsSettings::default(),
                namespace: "ns".to_owned(),
                release_version: String::new(),
            };
            let decided = plan(&snapshot).map(|plan| plan.deployment);
            assert!(matches!(decided, Ok(Deployment::Run { .. })), "{name}: {decided:?}");
        }
    }
}
