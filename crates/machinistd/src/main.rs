//! `machinistd`: the node daemon. Flags and wiring only; see `services/daemon` for what it does.

mod arguments;
mod chroot;
mod first_boot;
mod line;
mod log;
mod offline;
mod serve;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

/// The name by which the daemon's image has this binary too.
const CHROOT: &str = "chroot";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    if words.next().is_some_and(|name| Path::new(&name).file_name().is_some_and(|name| name == CHROOT)) {
        return chroot::run(words);
    }
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
