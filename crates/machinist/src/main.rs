//! The `machinist` binary: reads the command line and hands each verb to its module.

mod apiserver;
mod controller;
mod crds;
mod diff;
mod inputs;
mod manifests;
mod output;
mod pools;
mod render;
mod secrets;
mod up;

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
    /// Run the embedded Kubernetes API alone.
    Apiserver(apiserver::Arguments),
    /// Run the controllers that render pools, roll their configs out and drain nodes.
    Controller(controller::Arguments),
    /// Print the definitions of all kinds, for `kubectl apply --server-side -f -`.
    Crds(crds::Arguments),
    /// Print what would be put on the nodes of each pool, offline.
    Render(render::Arguments),
    /// Show what differs between two configs, and what that would do to a running node.
    #[command(after_help = "Exit codes: 0 the same, 3 different, 1 failed, 2 wrong use.")]
    Diff(diff::Arguments),
    /// Bring up a whole fleet in this process, to try Machinist on nothing at all.
    Up(up::Arguments),
}

fn main() -> ExitCode {
    // Before any connection is made: clients and servers find the TLS provider here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = match Arguments::parse().verb {
        Verb::Apiserver(arguments) => apiserver::run(arguments),
        Verb::Controller(arguments) => controller::run(arguments),
        Verb::Crds(arguments) => crds::run(&arguments),
        Verb::Render(arguments) => render::run(&arguments),
        Verb::Diff(arguments) => diff::run(&arguments),
        Verb::Up(arguments) => up::run(arguments),
    };
    answer.unwrap_or_else(|error| {
        output::fail(&error);
        ExitCode::FAILURE
    })
}
