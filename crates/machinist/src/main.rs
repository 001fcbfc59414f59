//! The `machinist` binary: reads the command line and hands each verb to its module.

mod apiserver;
mod apply;
mod blame;
mod controller;
mod crds;
mod dashboard;
mod diff;
mod doctor;
mod export;
mod gather;
mod help;
mod inputs;
mod install;
mod machine_api_operator;
mod machines;
mod manifests;
mod operator;
mod output;
mod pause;
mod plan;
mod pointer;
mod pools;
mod render;
mod rollback;
mod secrets;
mod server;
mod status;
mod templates;
mod why;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// With glibc's, requests pay for the connections that came and went before them (ADR 14).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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
    /// Run the controllers that make, watch and replace machines in a cloud.
    Machines(machines::Arguments),
    /// Print the definitions of all kinds, for `kubectl apply --server-side -f -`.
    Crds(crds::Arguments),
    /// Make user data for new machines of a pool, with a fresh credential.
    Pointer(pointer::Arguments),
    /// Print everything that a cluster needs to run Machinist, for `kubectl apply -f -`.
    Install(install::Arguments),
    /// Take Machinist out of a cluster: all that it made, and nothing that you made.
    #[command(after_help = "Exit codes: 0 done, 3 something would be done, 1 failed, 2 wrong use.")]
    Uninstall(install::Removing),
    /// Run the operator that makes and keeps what `install` prints, and what depends on the cluster.
    Operator(operator::Arguments),
    /// Run the operator that deploys the machine controllers of this cluster's platform.
    MachineApiOperator(machine_api_operator::Arguments),
    /// Print what would be put on the nodes of each pool, offline.
    #[command(after_help = help::RENDER)]
    Render(render::Arguments),
    /// Show what differs between two configs, and what that would do to a running node.
    #[command(after_help = help::DIFF)]
    Diff(diff::Arguments),
    /// Show the fleet at a glance: pools, nodes and machines, how far they are, what each waits for.
    #[command(after_help = help::STATUS)]
    Status(status::Arguments),
    /// Show the fleet as a live web page on this machine.
    Dashboard(dashboard::Arguments),
    /// Say why a pool, node, machine or machineset is in its state, since when, what it waits for and what would move it.
    #[command(after_help = help::WHY)]
    Why(why::Arguments),
    /// Show what a change would do, node by node, before it is applied. Changes nothing.
    #[command(after_help = help::PLAN)]
    Plan(plan::Arguments),
    /// Carry out a saved plan exactly, or refuse because the world has changed.
    #[command(after_help = help::APPLY)]
    Apply(apply::Arguments),
    /// Say which fragment put a file on a node, by whom and since when.
    #[command(after_help = help::BLAME)]
    Blame(blame::Arguments),
    /// Look for every known failure, explain it, and repair it if asked.
    #[command(after_help = help::DOCTOR)]
    Doctor(doctor::Arguments),
    /// Stop the updates of a pool, with a word about who, why and until when.
    #[command(after_help = help::PAUSE)]
    Pause(pause::Arguments),
    /// Let the updates of a paused pool go on.
    #[command(after_help = help::RESUME)]
    Resume(pause::Resuming),
    /// Take a pool back to the last config that worked.
    #[command(after_help = help::ROLLBACK)]
    Rollback(rollback::Arguments),
    /// Print an object as a file to make another one from.
    #[command(after_help = help::EXPORT)]
    Export(export::Arguments),
    /// Serve new machines the config of their pool.
    Server(server::Arguments),
    /// Bring up a whole fleet in this process, to try Machinist on nothing at all.
    #[command(after_help = help::UP)]
    Up(sandbox::up::Arguments),
    /// Print the completions of a shell, such as `machinist completions bash > /etc/bash_completion.d/machinist`.
    Completions(help::Completions),
    /// Print or write manual pages.
    Man(help::Man),
}

fn main() -> ExitCode {
    // Before any connection is made: clients and servers find the TLS provider here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = match Arguments::parse_from(command_line()).verb {
        Verb::Apiserver(arguments) => apiserver::run(arguments),
        Verb::Controller(arguments) => controller::run(arguments),
        Verb::Machines(arguments) => machines::run(arguments),
        Verb::Crds(arguments) => crds::run(&arguments),
        Verb::Pointer(arguments) => pointer::run(&arguments),
        Verb::Install(arguments) => install::run(&arguments),
        Verb::Uninstall(arguments) => install::remove(&arguments),
        Verb::Operator(arguments) => operator::run(arguments),
        Verb::MachineApiOperator(arguments) => machine_api_operator::run(arguments),
        Verb::Render(arguments) => render::run(&arguments),
        Verb::Diff(arguments) => diff::run(&arguments),
        Verb::Status(arguments) => status::run(&arguments),
        Verb::Dashboard(arguments) => dashboard::run(&arguments),
        Verb::Why(arguments) => why::run(&arguments),
        Verb::Plan(arguments) => plan::run(&arguments),
        Verb::Apply(arguments) => apply::run(&arguments),
        Verb::Blame(arguments) => blame::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Pause(arguments) => pause::run(&arguments),
        Verb::Resume(arguments) => pause::resume(&arguments),
        Verb::Rollback(arguments) => rollback::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Server(arguments) => server::run(arguments),
        Verb::Up(arguments) => sandbox::up::run(arguments),
        Verb::Completions(arguments) => help::completions(&arguments, Arguments::command()),
        Verb::Man(arguments) => help::man(&arguments, Arguments::command()),
    };
    answer.unwrap_or_else(|error| {
        output::fail(&error);
        ExitCode::FAILURE
    })
}

/// The command line, with the name of another program that this binary is called by as its verb.
fn command_line() -> Vec<OsString> {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_else(|| operate::programs::MACHINIST.into());
    let name = Path::new(&called).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut line = vec![called];
    line.extend(operate::programs::spelled(&name, words.collect()));
    line
}
