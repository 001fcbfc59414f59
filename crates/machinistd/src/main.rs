//! `machinistd`: the node daemon. Flags and wiring only; see `services/daemon` for what it does.

mod arguments;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    // reqwest and kube panic without a provider, so it comes first; a second call would only say that one is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let result = match arguments.command {
        None | Some(Command::Start) => serve::start(&arguments.start),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("machinistd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
