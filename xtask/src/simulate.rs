//! Runs the deterministic simulation of rollouts: `cargo xtask simulate --runs N [--seed S]`.

use anyhow::bail;
use simulation::{Real, Summary};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many runs.
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// The seed of the first run; the next run has the next seed. A seed that failed fails again.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tell step by step what happened in the first run that failed, or in the first run.
    #[arg(long)]
    trace: bool,
}

/// How many failing seeds are shown.
const SHOWN: usize = 10;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let end = arguments.seed.saturating_add(arguments.runs);
    let summary = Summary::of(arguments.seed..end, &Real);
    let Summary { runs, steps, faults, failed } = &summary;
    println!("runs: {runs}");
    println!("steps: {steps}");
    println!("faults injected: {faults}");
    println!("violations: {}", failed.len());
    for outcome in failed.iter().take(SHOWN) {
        println!("seed {}: {}", outcome.seed, outcome.violations.join("; "));
        println!("  again: cargo xtask simulate --runs 1 --seed {}", outcome.seed);
    }
    if arguments.trace {
        let seed = failed.first().map_or(arguments.seed, |outcome| outcome.seed);
        for line in simulation::trace(seed, &Real).1 {
            println!("{line}");
        }
    }
    if !failed.is_empty() {
        bail!("{} of {runs} runs broke a rule", failed.len());
    }
    Ok(())
}
