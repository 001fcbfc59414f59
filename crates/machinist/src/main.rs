//! The `machinist` binary: reads the command line and hands each verb to its module.

mod apiserver;
mod apply;
mod blame;
mod controller;
mod crds;
mod diff;
mod doctor;
mod gather;
mod inputs;
mod manifests;
mod output;
mod plan;
mod pools;
mod render;
mod rollback;
mod secrets;
mod status;
mod up;
mod why;

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
    /// Show the fleet at a glance: pools and nodes, how far they are, what each waits for.
    Status(status::Arguments),
    /// Say why a pool or node is in its state, since when, what it waits for and what would move it.
    Why(why::Arguments),
    /// Show what a change would do, node by node, before it is applied. Changes nothing.
    #[command(after_help = "Exit codes: 0 nothing to do, 3 something to do, 1 failed, 2 wrong use.")]
    Plan(plan::Arguments),
    /// Carry out a saved plan exactly, or refuse because the world has changed.
    Apply(apply::Arguments),
    /// Say which fragment put a file on a node, by whom and since when.
    Blame(blame::Arguments),
    /// Look for every known failure, explain it, and repair it if asked.
    #[command(after_help = "Exit codes: 0 nothing wrong or all repaired, 3 something found, 1 failed, 2 wrong use.")]
    Doctor(doctor::Arguments),
    /// Take a pool back to the last config that worked.
    Rollback(rollback::Arguments),
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
        Verb::Status(arguments) => status::run(&arguments),
        Verb::Why(arguments) => why::run(&arguments),
        Verb::Plan(arguments) => plan::run(&arguments),
        Verb::Apply(arguments) => apply::run(&arguments),
        Verb::Blame(arguments) => blame::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Rollback(arguments) => rollback::run(&arguments),
        Verb::Up(arguments) => up::run(arguments),
    };
    answer.unwrap_or_else(|error| {
        output::fail(&error);
        ExitCode::FAILURE
    })
}
