//! `machinistd`: the node daemon. Flags and wiring only; see `services/daemon` for what it does.

mod arguments;
mod first_boot;
mod line;
mod log;
mod offline;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    // reqwest and kube panic without a provider, so it comes first; a second call would only say that one is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    log::start();
    let result = match arguments.command {
        None | Some(Command::Start) => serve::start(&arguments.start).map(|()| ExitCode::SUCCESS),
        Some(Command::Diff) => offline::diff(&arguments.start),
        Some(Command::OnceFrom { file, skip_reboot }) => offline::once_from(&arguments.start, &file, skip_reboot),
        Some(Command::FirstBoot { machineconfig_file, skip_reboot }) => {
            first_boot::run(&arguments.start, &machineconfig_file, skip_reboot)
        }
        Some(Command::IgnitionFailed { log, config }) => {
            first_boot::ignition_failed(&arguments.start, &log, config.as_deref())
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("machinistd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
