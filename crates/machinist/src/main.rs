//! The `machinist` binary: reads the command line and hands each verb to its module.

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "machinist", version, about = "Looks after the machines of any Kubernetes cluster")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {}

fn main() {
    match Arguments::parse().verb {}
}
