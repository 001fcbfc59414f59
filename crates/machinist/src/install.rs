//! `machinist install` and `machinist uninstall`: puts Machinist into a cluster, and takes it away again.

use std::path::PathBuf;
use std::process::ExitCode;

use ::operator::machine_api::Choices;
use ::operator::{Images, Installation};
use anyhow::{Context, bail};
use clap::Args;
use operate::uninstall::Removal;
use serde_json::Value;

use crate::output::{self, Format};

/// What both the operator and the installation have to know.
#[derive(Args, Clone)]
pub(crate) struct Names {
    /// Namespace of Machinist's processes
    #[arg(long, default_value = api::names::NAMESPACE)]
    pub(crate) namespace: String,
    /// Namespace of Machines, where new machines' user data is kept
    #[arg(long, default_value = api::names::MACHINE_API_NAMESPACE)]
    machine_namespace: String,
    /// Namespace of `pull-secret`, `user-ca-bundle` and `image-registry-ca`; absent, that of the processes
    #[arg(long)]
    source_namespace: Option<String>,
    /// Image of every process
    #[arg(long, default_value_t = Images::default().machine_config_operator)]
    image: String,
    /// Image of the node daemon; absent, the same
    #[arg(long)]
    daemon_image: Option<String>,
    /// The user whose SSH keys and password a MachineConfig may set; absent, `core`
    #[arg(long)]
    admin_user: Option<String>,
    /// Unit of the container runtime, such as containerd.service; absent, found from the nodes
    #[arg(long, value_name = "UNIT")]
    runtime_service: Option<String>,
    /// `host` or `host:port` at which new machines reach the config server; absent, beside the API
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    /// Address at which machines reach the API; absent, found from the cluster
    #[arg(long, value_name = "URL")]
    apiserver_url: Option<String>,
    /// Platform whose machines are managed, such as AWS; absent, found from the cluster
    #[arg(long, value_name = "PLATFORM", value_parser = platform)]
    platform: Option<String>,
    /// Let daemons use one account for all nodes instead of their kubelet's credential: needed where kubelets get that from
    /// a program (EKS, GKE). Whoever takes over one node can then read the configs of all pools
    #[arg(long)]
    daemon_account: bool,
    /// Install the groups of 2019 too, cluster.k8s.io and healthchecking.openshift.io. `kubectl get machines` means those then
    #[arg(long, alias = "with-older-groups")]
    legacy_kinds: bool,
}

/// What the machine controllers are told, by whoever installs or by the operator's Deployment.
#[derive(Args, Clone)]
pub(crate) struct OfMachines {
    /// A provider that is a process of its own, on the hosts of the control plane, instead of the platform's
    #[arg(long, value_name = "unix:SOCKET", value_parser = socket)]
    provider: Option<String>,
    /// Etcd does not run as pods of this cluster, and whoever runs it keeps its quorum while machines of the control plane
    /// are replaced
    #[arg(long)]
    external_etcd: bool,
    /// Remove what carries the mark of this cluster in the cloud and belongs to no Machine, an hour after it was made. The id
    /// is that of label machine.openshift.io/cluster-api-cluster, and no other cluster may have it
    #[arg(long, value_name = "CLUSTER-ID")]
    remove_orphans: Option<String>,
}

impl OfMachines {
    pub(crate) fn choices(&self) -> Choices {
        let Self { provider, external_etcd, remove_orphans } = self.clone();
        Choices { socket: provider, external_etcd, remove_orphans }
    }
}

/// The path of a socket, of `unix:PATH`.
pub(crate) fn socket(text: &str) -> Result<String, String> {
    // Also in the form of an address: unix:///run/provider.sock.
    let path = text.strip_prefix("unix:").ok_or("name a socket, such as unix:/run/shed/provider.sock")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if !path.starts_with('/') || folder.is_empty() {
        return Err("name the socket by its whole path, in a folder, such as unix:/run/shed/provider.sock".to_owned());
    }
    // The pod gets the whole folder of the host.
    if SHARED_FOLDERS.contains(&folder.trim_end_matches('/')) || folder.contains("..") {
        return Err(format!(
            "{folder} has other things of the host in it, and the pod would get them all: put the socket into a folder of \
             its own, such as unix:/run/shed/provider.sock"
        ));
    }
    Ok(path.to_owned())
}

/// Folders in which a host keeps what is not the provider's.
const SHARED_FOLDERS: [&str; 12] =
    ["/run", "/var", "/var/run", "/var/lib", "/tmp", "/var/tmp", "/etc", "/usr", "/opt", "/home", "/root", "/dev"];

impl Names {
    pub(crate) fn installation(&self) -> anyhow::Result<Installation> {
        for (flag, name) in [
            ("--namespace", Some(&self.namespace)),
            ("--machine-namespace", Some(&self.machine_namespace)),
            ("--source-namespace", self.source_namespace.as_ref()),
        ] {
            if let Some(name) = name.filter(|name| !is_label(name)) {
                bail!(
                    "{flag} {name:?} is not a name of a namespace: lower-case letters, digits and dashes, at most 63"
                );
            }
        }
        if self.image.trim().is_empty() || self.image.contains(char::is_whitespace) {
            bail!("--image {:?} is not the name of an image", self.image);
        }
        let runtime = self.runtime_service.as_ref().map(|unit| match unit.contains('.') {
            true => unit.clone(),
            false => format!("{unit}.service"),
        });
        let installation = Installation {
            namespace: self.namespace.clone(),
            machine_namespace: self.machine_namespace.clone(),
            source_namespace: self.source_namespace.clone().unwrap_or_else(|| self.namespace.clone()),
            images: Images {
                machine_config_operator: self.image.clone(),
                machine_config_daemon: self.daemon_image.clone(),
                ..Images::default()
            },
            admin_user: self.admin_user.clone(),
            runtime_service: runtime,
            server: self.server.clone(),
            api_url: self.apiserver_url.clone(),
            daemon_account: self.daemon_account,
            older_groups: self.legacy_kinds,
            platform: self.platform.clone(),
            choices: Choices::default(),
            access: Vec::new(),
            machine_access: Vec::new(),
        };
        Ok(with_access(installation))
    }
}

/// An installation with the rights that each of its processes declares.
pub(crate) fn with_access(mut installation: Installation) -> Installation {
    installation.access = ::operator::access(&installation, &controllers::ROLES, &::server::ROLES);
    installation.machine_access = ::operator::machine_access(&installation, &::machines::webhook::with_roles());
    installation
}

/// A platform in any letters, spelled as the cluster spells it.
pub(crate) fn platform(name: &str) -> Result<String, String> {
    let known = operate::machine_api::platform(name).map(str::to_owned);
    known.ok_or_else(|| format!("no platform; the platforms are {}", operate::machine_api::PLATFORMS.join(", ")))
}

fn is_label(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_inner(*byte))
        && bytes.first() != Some(&b'-')
        && bytes.last() != Some(&b'-')
}

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    machines: OfMachines,
    /// Install the dashboard too: `kubectl port-forward` reaches it, and people sign in with their own tokens
    #[arg(long)]
    dashboard: bool,
    /// How to print the objects
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let installation = Installation { choices: arguments.machines.choices(), ..arguments.names.installation()? };
    let halves = operate::installed(&installation).into_iter().chain(operate::machine_api::installed(&installation));
    let mut objects: Vec<Value> = halves.map(|one| one.object).collect();
    if arguments.dashboard {
        let name = operate::dashboard::DASHBOARD;
        let access = cluster::rights::manifests(name, &installation.namespace, ::dashboard::roles::ROLES);
        // A role without rules is an object that says nothing.
        let says = |object: &Value| object["kind"] != "Role" && object["kind"] != "RoleBinding";
        let access: Vec<Value> = access.into_iter().filter(says).collect();
        objects.extend(operate::dashboard::objects(&installation, &access));
    }
    output::print(&arguments.output.write_all(&objects)?)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub(crate) struct Removing {
    /// Kubeconfig of the cluster; absent, as kubectl would find it
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    names: Names,
    /// Do it; without this, only what would be done is printed
    #[arg(long)]
    yes: bool,
}

pub(crate) fn remove(arguments: &Removing) -> anyhow::Result<ExitCode> {
    let installation = arguments.names.installation()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let client = cluster::connect(arguments.kubeconfig.as_deref()).await?;
        if arguments.yes {
            let tell = |line: &str| anstream::println!("{line}");
            ::operator::uninstall::remove(&client, &installation, tell).await?;
            return Ok(ExitCode::SUCCESS);
        }
        for removal in ::operator::uninstall::look(&client, &installation).await? {
            match removal {
                Removal::Delete(id) => anstream::println!("delete {id}"),
                Removal::CleanNode { name, .. } => anstream::println!("clean Node {name}"),
                Removal::Keep { id, because } => anstream::println!("keep {id}: {because}"),
            }
        }
        anstream::println!("Nothing was changed. `machinist uninstall --yes` does it.");
        Ok(ExitCode::from(3))
    })
}
