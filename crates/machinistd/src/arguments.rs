//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "machinistd", version, about = "Brings this host to the config its Node asks for, and keeps it there")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) start: Start,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the daemon (also what happens without a command).
    Start,
    /// Show where this host differs from the config it runs. Ends with 3 when it does.
    Diff,
    /// Apply one config from a file, without a cluster, and reboot where it asks for that.
    OnceFrom {
        /// A MachineConfig, or an Ignition config, as JSON.
        file: PathBuf,
        /// Do not reboot, whatever the change asks for.
        #[arg(long)]
        skip_reboot: bool,
    },
    /// Finish what a new machine's first boot has begun: OS image, kernel arguments, extensions.
    #[command(name = "firstboot-complete-machineconfig", visible_alias = "firstboot")]
    FirstBoot {
        #[arg(long, default_value = "/etc/ignition-machine-config-encapsulated.json")]
        machineconfig_file: PathBuf,
        #[arg(long)]
        skip_reboot: bool,
    },
    /// Tell the config server that Ignition failed on this machine, and with what words.
    IgnitionFailed {
        /// Ignition's log, such as the output of `journalctl -t ignition`.
        log: PathBuf,
        /// The config that Ignition has fetched, which holds the credential.
        #[arg(long, value_name = "FILE", default_value = "/run/ignition.json")]
        config: Option<PathBuf>,
    },
}

#[derive(Args, Clone)]
pub(crate) struct Start {
    /// Name of this host's Node.
    #[arg(long = "node", visible_alias = "node-name", env = "NODE_NAME", global = true)]
    pub(crate) node: Option<String>,
    /// Folder where the host's files are.
    #[arg(long, visible_alias = "root-mount", default_value = "/", global = true)]
    pub(crate) root: PathBuf,
    /// How to reach the cluster. The kubelet's own by default, found below the root.
    #[arg(long, env = "KUBECONFIG", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Speak to the cluster with the account of the pod this runs in, instead of a kubeconfig.
    #[arg(long, global = true)]
    pub(crate) in_cluster: bool,
    /// Namespace of the installation.
    #[arg(long, env = "MACHINIST_NAMESPACE", default_value = "openshift-machine-config-operator", global = true)]
    pub(crate) namespace: String,
    /// Play a host on the folder at the root: files are real, services and reboots are simulated.
    #[arg(long, global = true)]
    pub(crate) simulate: bool,
    /// Where the kubelet tells its health.
    #[arg(long, env = "KUBELET_HEALTHZ", default_value = "127.0.0.1:10248", global = true)]
    pub(crate) kubelet_healthz: String,
    /// `host:port` that answers when this node's network is well; the default gateways and the config server unless set.
    #[arg(long, env = "WITNESS", global = true)]
    pub(crate) witness: Option<String>,
    /// Where metrics and health are served: plainly on the loopback; on any other address by TLS, to whoever the cluster
    /// lets `get` the non-resource URL.
    #[arg(long, env = "METRICS_URL", default_value = "127.0.0.1:8797", global = true)]
    pub(crate) metrics_url: String,
}
