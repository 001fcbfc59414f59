//! The `machinist` binary: reads the command line and hands each verb to its module.

mod diff;
mod inputs;
mod manifests;
mod output;
mod secrets;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "machinist", version, about = "Looks after the machines of any Kubernetes cluster")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show what differs between two configs, and what that would do to a running node.
    #[command(after_help = "Exit codes: 0 the same, 3 different, 1 failed, 2 wrong use.")]
    Diff(diff::Arguments),
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().verb {
        Verb::Diff(arguments) => diff::run(&arguments),
    };
    answer.unwrap_or_else(|error| {
        output::fail(&error);
        ExitCode::FAILURE
    })
}
