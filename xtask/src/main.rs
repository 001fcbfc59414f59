//! Developer commands: `cargo xtask <command>`.
//!
//! Each command is one module; this file only parses the command line.

mod bench;
mod crd_compat;
mod dist;
mod generate;
mod record;
mod referee;
mod simulate;
mod test;
mod tidy;
mod vectors;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Developer commands of Machinist")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything: format, clippy, tidy and all tests. Installs prerequisites and says what it installs.
    Test {
        /// One part of the tests, or the suite that is too heavy for CI, instead of everything
        suite: Option<test::Suite>,
        /// Only the tests of that part whose names contain this
        filter: Option<String>,
    },
    /// Run the full comparison of the embedded Kubernetes API with a real one, and record that it passed.
    Referee,
    /// Check layers, dependencies, generated files, licences, links and paths.
    Tidy,
    /// Write the generated files (CRDs, tables).
    Generate,
    /// Record the first five minutes with `machinist up` as an SVG, for the README.
    Record {
        /// With an optimised build, which is what users have.
        #[arg(long)]
        release: bool,
    },
    /// Run benchmarks, print each figure with its target, and write the newest results to docs/benchmarks.md.
    Bench(bench::Arguments),
    /// Compare our results with every known vector file of a folder.
    Vectors {
        /// A folder of `*.jsonl` or `*.jsonl.gz` files.
        folder: PathBuf,
    },
    /// Compare our CRDs with a folder of upstream's schemas.
    CrdCompat {
        /// A folder of upstream CRDs as YAML.
        folder: PathBuf,
    },
    /// Make what people install: binaries, image, packages, chart.
    Dist(dist::Arguments),
    /// Run the deterministic simulation of rollouts.
    Simulate(simulate::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Test { suite, filter } => test::run(suite, filter.as_deref()),
        Command::Referee => referee::run(),
        Command::Tidy => tidy::run(),
        Command::Generate => generate::run(),
        Command::Record { release } => record::run(release),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Vectors { folder } => vectors::run(&folder),
        Command::CrdCompat { folder } => crd_compat::run(&folder),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
    }
}
