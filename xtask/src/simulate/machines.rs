//! Runs the simulation of the machine half, as its neighbour runs that of rollouts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::bail;
use simulation::Scenario;
use simulation::machines::{Real, Summary, shrink, trace};

use super::{Arguments, BATCH, SEEDS};

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(scenario) = &arguments.scenario {
        return run_one(scenario, arguments.trace);
    }
    let summary = match arguments.minutes {
        Some(minutes) => run_fresh(Duration::from_secs(60 * minutes)),
        None => Summary::of(arguments.seed..arguments.seed.saturating_add(arguments.runs), &Real),
    };
    let Summary { runs, steps, faults, failed } = &summary;
    println!("runs: {runs}");
    println!("steps: {steps}");
    println!("faults injected: {faults}");
    println!("runs that broke a rule: {}", failed.len());
    show_failures(&summary);
    if !failed.is_empty() {
        bail!("{} of {runs} runs broke a rule", failed.len());
    }
    Ok(())
}

fn run_one(scenario: &Scenario, with_trace: bool) -> anyhow::Result<()> {
    let (outcome, lines) = trace(scenario, &Real);
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

fn run_fresh(time: Duration) -> Summary {
    let base = RandomState::new().build_hasher().finish() % SEEDS;
    println!("seeds from {base}");
    let (start, mut seed, mut summary) = (Instant::now(), base, Summary::default());
    while start.elapsed() < time && summary.failed.is_empty() {
        summary = summary.and(Summary::of(seed..seed + BATCH, &Real));
        seed += BATCH;
    }
    summary
}

/// Prints, for each violated rule, the number of runs and one shrunk run; then the trace of the first of these.
fn show_failures(summary: &Summary) {
    let mut smallest = None;
    for (kind, outcomes) in summary.by_kind() {
        println!("{:8} {kind}", outcomes.len());
        let Some(first) = outcomes.first() else { continue };
        let small = shrink(&first.scenario, &Real);
        println!("         seed {}, shrunk: --scenario {}", first.scenario.seed, small.scenario);
        small.violations.iter().take(1).for_each(|violation| println!("         {violation}"));
        smallest.get_or_insert(small.scenario);
    }
    if let Some(scenario) = smallest {
        println!("\n{scenario}, step by step:");
        trace(&scenario, &Real).1.iter().for_each(|line| println!("{line}"));
    }
}
