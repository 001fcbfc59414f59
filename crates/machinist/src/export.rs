//! `machinist export machine NAME`: a Machine as a file to make another one from.
//!
//! The file has neither a status nor anything that names the original's instance, so a copy under another name gets an
//! instance of its own, and deleting the copy never ends the original's.

use std::process::ExitCode;

use api::machine::Machine;
use api::names::MACHINE_API_NAMESPACE;
use clap::{Args, Subcommand};
use kube::api::Api;
use machine::admission;

use crate::gather::{self, Cluster};
use crate::output::{self, Format};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// A Machine, to make another one like it
    #[command(after_help = crate::help::EXPORT)]
    Machine(OfMachine),
}

#[derive(Args)]
struct OfMachine {
    #[command(flatten)]
    cluster: Cluster,
    /// Its name
    name: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAME", default_value = MACHINE_API_NAMESPACE)]
    namespace: String,
    /// How to print it
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Kind::Machine(arguments) = &arguments.kind;
    gather::block_on(export(arguments))
}

async fn export(arguments: &OfMachine) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let (name, namespace) = (&arguments.name, &arguments.namespace);
    let machines: Api<Machine> = Api::namespaced(client, namespace);
    let machine = match cluster::write::in_time(machines.get(name)).await {
        Ok(machine) => machine,
        Err(error) if cluster::problem(&error) == cluster::Problem::NotFound => {
            anyhow::bail!(
                "there is no Machine {name} in namespace {namespace}; `kubectl get machines -A` shows where they are"
            )
        }
        Err(error) => return Err(gather::refusal(error, "get", "machines")),
    };
    output::warn(admission::adoption_warning(&machine).iter());
    output::print(&arguments.output.write_one(&serde_json::to_value(admission::export(&machine))?)?)?;
    Ok(ExitCode::SUCCESS)
}
