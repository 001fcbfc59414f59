//! `machinist pointer`: user data for new machines of a pool, with a fresh credential.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use api::machine::Machine;
use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use api::names;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serving::pointer::{USER_DATA, pointer};
use serving::token::{self, Grant};

use crate::output;

/// The ConfigMap in which the operator publishes the config server's authority and its address.
const PUBLISHED: &str = "machine-config-server-ca";
const CA: &str = "ca-bundle.crt";
const SERVER: &str = "server";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Pool that the machines shall join
    #[arg(long)]
    pool: String,
    /// Machine that the credential is for; no other may use it. Without a Machine object, the name of the node it becomes
    #[arg(long)]
    machine: Option<String>,
    /// How often the credential works, such as the size of a MachineSet; 0 sets no limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    uses: i64,
    /// How long the credential works, such as 30m or 24h; 0 sets no end
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    expires: SignedDuration,
    /// Make no credential: for a pool that is open
    #[arg(long, conflicts_with_all = ["machine", "token_manifest"])]
    open: bool,
    /// Where machines reach the config server; absent, where the operator says, or port 22623 of the internal API address
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// Authority of the config server's certificate; absent, the one the operator published
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Use no cluster: write the BootstrapToken into this file, to be applied later or given to `server bootstrap`
    #[arg(long, value_name = "FILE", requires_all = ["server", "ca"])]
    token_manifest: Option<PathBuf>,
    /// Kubeconfig of the cluster; absent, as kubectl would find it
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the installation
    #[arg(long, default_value = names::NAMESPACE)]
    namespace: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.uses < 0 {
        bail!("--uses {} is less than nothing", arguments.uses);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let user_data = runtime.block_on(make(arguments))?;
    if user_data.len() > USER_DATA {
        let length = user_data.len();
        let note = format!(
            "the pointer has {length} bytes: some clouds take only {USER_DATA}; give a --ca with one certificate"
        );
        output::warn(std::iter::once(&note));
    }
    output::print(&(user_data + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn make(arguments: &Arguments) -> anyhow::Result<String> {
    let mut grant = Grant {
        pool: arguments.pool.clone(),
        machine: arguments.machine.clone(),
        machine_uid: None,
        expires: (!arguments.expires.is_zero()).then(|| Timestamp::now().checked_add(arguments.expires)).transpose()?,
        max_uses: (arguments.uses > 0).then_some(arguments.uses),
    };
    let file = arguments.ca.as_ref();
    let file = file.map(|path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display())));
    let (server, ca, secret) = match &arguments.token_manifest {
        Some(path) => {
            let secret = cluster::tokens::secret();
            let manifest = serde_json::to_string_pretty(&token::object(&grant, &secret))?;
            std::fs::write(path, manifest).with_context(|| format!("cannot write {}", path.display()))?;
            (arguments.server.clone(), file.transpose()?, Some(secret))
        }
        None => {
            let client = cluster::connect(arguments.kubeconfig.as_deref()).await?;
            let pools: Api<MachineConfigPool> = Api::all(client.clone());
            let pool = pools.get_opt(&arguments.pool).await.context("cannot read the pool")?;
            pool.with_context(|| {
                format!("there is no pool {}; `kubectl get mcp` lists those there are", arguments.pool)
            })?;
            // Read once: of one that is published in between, half would be the operator's and half a guess.
            let mut published = published(&client, &arguments.namespace).await?;
            let server = match arguments.server.clone().or_else(|| published.remove(SERVER)) {
                Some(server) => server,
                None => guess_server(&client).await?,
            };
            let ca = match file {
                Some(ca) => ca?,
                None => published.remove(CA).map(String::into_bytes).with_context(|| {
                    format!("no {CA} in ConfigMap {}/{PUBLISHED} yet; give --ca FILE", arguments.namespace)
                })?,
            };
            if let Some(machine) = &arguments.machine {
                grant.machine_uid = machine_uid(&client, machine).await?;
            }
            let secret = if arguments.open { None } else { Some(issue(&client, &grant).await?) };
            (Some(server), Some(ca), secret)
        }
    };
    let (Some(server), Some(ca)) = (server, ca) else { bail!("--server and --ca are needed without a cluster") };
    Ok(pointer(&server, &arguments.pool, &ca, secret.as_deref()).to_string())
}

async fn issue(client: &Client, grant: &Grant) -> anyhow::Result<String> {
    let secret = cluster::tokens::issue(client, grant).await.context("cannot store the BootstrapToken")?;
    let name = token::name(&grant.pool, &secret);
    let note = format!("made BootstrapToken {name}; `kubectl delete bootstraptoken {name}` revokes it");
    anstream::eprintln!("{note}");
    Ok(secret)
}

/// The uid of the Machine of this name, with which its credential ends; nothing for a machine that has none.
async fn machine_uid(client: &Client, name: &str) -> anyhow::Result<Option<String>> {
    let machines: Api<Machine> = Api::namespaced(client.clone(), names::MACHINE_API_NAMESPACE);
    // A cluster without the Machine API has none either.
    match cluster::error::if_found(cluster::write::in_time(machines.get(name)).await) {
        Ok(machine) => Ok(machine.and_then(|machine| machine.metadata.uid)),
        Err(error) => Err(crate::gather::refusal(error, "get", "machines")),
    }
}

async fn guess_server(client: &Client) -> anyhow::Result<String> {
    let configs: Api<ControllerConfig> = Api::all(client.clone());
    let config = configs.get_opt(names::CONTROLLER_CONFIG).await.context("cannot read the ControllerConfig")?;
    let infra = config.and_then(|config| config.spec.infra).and_then(|infra| infra.status);
    let address = infra.and_then(|status| status.api_server_internal_uri).unwrap_or_default();
    let host = address.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let host = host.context("the cluster does not say where its API is inside; give --server HOST:PORT")?;
    Ok(format!("{host}:22623"))
}

/// What the operator publishes of the config server.
async fn published(client: &Client, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get_opt(PUBLISHED).await;
    let map = map.with_context(|| format!("cannot read ConfigMap {namespace}/{PUBLISHED}"))?;
    Ok(map.and_then(|map| map.data).unwrap_or_default())
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    if text == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let duration: SignedDuration = text.parse().map_err(|_| "write a duration such as 30m or 24h".to_owned())?;
    if duration.is_negative() { Err("a duration is not negative".to_owned()) } else { Ok(duration) }
}
