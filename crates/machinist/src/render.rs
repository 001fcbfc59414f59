//! `machinist render -f PATH...`: what Machinist would put on the nodes of each pool, offline.

mod masked;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use api::machineconfiguration::MachineConfig;
use clap::Args;
use proposal::inputs::Inputs;
use proposal::{Secrets, pools};

use crate::manifests;
use crate::output::{self, Format};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Manifests: files, folders, or - for standard input.
    #[arg(short, long = "filename", value_name = "PATH", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Look into folders within folders.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print what templates make of the ControllerConfig in the input instead: those of the profile, or those in DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, conflicts_with_all = ["pool", "why"])]
    templates: Option<Option<PathBuf>>,
    /// Render only this pool.
    #[arg(long)]
    pool: Option<String>,
    /// How the configs are printed.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Format,
    /// Print where this file (or unit, user, kernel argument) comes from instead.
    #[arg(long, value_name = "PATH")]
    why: Option<String>,
    /// Print pull secrets, password hashes and private keys as they are.
    #[arg(long)]
    show_secrets: bool,
    /// Refuse objects of unknown kind instead of skipping them.
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let manifests = manifests::load(&arguments.filename, arguments.recursive)?;
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Masked };
    if let Some(folder) = &arguments.templates {
        let given = folder.as_deref().map(crate::templates::load).transpose()?;
        let configs = crate::templates::fill(&manifests, given)?;
        return print(configs.iter(), secrets, arguments.output);
    }
    let inputs = Inputs::sort(manifests, arguments.strict)?;
    output::warn(inputs.warnings.iter());
    if inputs.fragments.is_empty() {
        bail!("no MachineConfig to render in the input");
    }
    let pools = pools::render_all(&inputs, arguments.pool.as_deref())?;
    output::warn(pools.iter().flat_map(|pool| &pool.warnings));
    if let Some(part) = &arguments.why {
        output::print(&why::report(part, &pools, &inputs)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(pools.iter().map(|pool| &pool.rendered.machine_config), secrets, arguments.output)
}

/// Prints configs and says how many secrets in them are hidden.
fn print<'a>(
    machine_configs: impl Iterator<Item = &'a MachineConfig>,
    secrets: Secrets,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let mut hidden = 0;
    let mut configs = Vec::new();
    for machine_config in machine_configs {
        let mut config = serde_json::to_value(machine_config)?;
        hidden += masked::hide(&mut config, secrets);
        configs.push(config);
    }
    if hidden > 0 {
        let note = format!("{hidden} secrets are masked; --show-secrets prints them");
        output::warn(std::iter::once(&note));
    }
    output::print(&format.write_all(&configs)?)?;
    Ok(ExitCode::SUCCESS)
}
