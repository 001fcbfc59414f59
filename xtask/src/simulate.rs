//! Runs the deterministic simulation of rollouts, or with `--machines` that of the machine half: `--runs N [--seed S]` for
//! known seeds, `--minutes N` for fresh ones, `--scenario TEXT` for a single run. Failing runs are shrunk before they are printed.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::bail;
use simulation::{Outcome, Real, Scenario, Summary, machines, run_scenario, shrink, trace};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of runs.
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// The seed of the first run; each further run uses the next seed. A failing seed fails again.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run fresh seeds for this many minutes, or until one fails.
    #[arg(long, conflicts_with_all = ["runs", "seed"])]
    minutes: Option<u64>,
    /// A single run, as printed for a failure: `1234` or `1234,nodes=3,steps=40,without=7+12`.
    #[arg(long, conflicts_with_all = ["runs", "seed", "minutes"])]
    scenario: Option<Scenario>,
    /// Simulate machines, sets, deployments, health checks and the control plane instead of rollouts.
    #[arg(long)]
    machines: bool,
    /// Print the trace of the run of `--scenario`, or of the first run.
    #[arg(long)]
    trace: bool,
}

/// Fresh seeds run in batches; a failure is reported after its batch.
const BATCH: u64 = 500;

/// Fresh seeds are smaller than this, so that they are easy to type.
const SEEDS: u64 = 1 << 40;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.machines {
        let run = |scenario: &Scenario| machines::run_scenario(scenario, &machines::Real);
        simulate(arguments, run, |scenario| machines::trace(scenario, &machines::Real))
    } else {
        simulate(arguments, |scenario| run_scenario(scenario, &Real), |scenario| trace(scenario, &Real))
    }
}

/// Runs what the arguments ask for, of one of the two simulations.
fn simulate<K: Rule>(
    arguments: &Arguments,
    run: impl Fn(&Scenario) -> Outcome<K> + Sync,
    trace: impl Fn(&Scenario) -> (Outcome<K>, Vec<String>),
) -> anyhow::Result<()> {
    if let Some(scenario) = &arguments.scenario {
        return run_one(scenario, trace(scenario), arguments.trace);
    }
    let of_seed = |seed| run(&Scenario::of(seed));
    let summary = match arguments.minutes {
        Some(minutes) => run_fresh(Duration::from_secs(60 * minutes), of_seed),
        None => Summary::of(arguments.seed..arguments.seed.saturating_add(arguments.runs), of_seed),
    };
    let Summary { runs, steps, faults, failed } = &summary;
    println!("runs: {runs}");
    println!("steps: {steps}");
    println!("faults injected: {faults}");
    println!("runs that broke a rule: {}", failed.len());
    let tell = |scenario: &Scenario| trace(scenario).1.iter().for_each(|line| println!("{line}"));
    if let Some(scenario) = show_failures(&summary, run) {
        println!("\n{scenario}, step by step:");
        tell(&scenario);
    }
    if arguments.trace && failed.is_empty() {
        tell(&Scenario::of(arguments.seed));
    }
    if !failed.is_empty() {
        bail!("{} of {runs} runs broke a rule", failed.len());
    }
    Ok(())
}

/// The kind of a violated rule.
trait Rule: Copy + Ord + Display + Send {}

impl<K: Copy + Ord + Display + Send> Rule for K {}

fn run_one<K: Rule>(scenario: &Scenario, ran: (Outcome<K>, Vec<String>), with_trace: bool) -> anyhow::Result<()> {
    let (outcome, lines) = ran;
    if with_trace {
        lines.iter().for_each(|line| println!("{line}"));
    }
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    if let Some(violation) = outcome.violations.first() {
        bail!("{scenario} broke a rule: {violation}");
    }
    println!("{scenario} kept every rule");
    Ok(())
}

fn run_fresh<K: Rule>(time: Duration, run: impl Fn(u64) -> Outcome<K> + Sync) -> Summary<K> {
    let base = RandomState::new().build_hasher().finish() % SEEDS;
    println!("seeds from {base}");
    let (start, mut seed, mut summary) = (Instant::now(), base, Summary::default());
    while start.elapsed() < time && summary.failed.is_empty() {
        summary.add(Summary::of(seed..seed + BATCH, &run));
        seed += BATCH;
    }
    summary
}

/// Prints the number of runs and one shrunk run for each violated rule, and returns the first of these.
fn show_failures<K: Rule>(summary: &Summary<K>, run: impl Fn(&Scenario) -> Outcome<K>) -> Option<Scenario> {
    let mut smallest = None;
    for (kind, outcomes) in summary.by_kind() {
        println!("{:8} {kind}", outcomes.len());
        let Some(first) = outcomes.first() else { continue };
        let small = shrink(&first.scenario, &run);
        println!("         seed {}, shrunk: --scenario {}", first.scenario.seed, small.scenario);
        small.violations.iter().take(1).for_each(|violation| println!("         {violation}"));
        smallest.get_or_insert(small.scenario);
    }
    smallest
}
