//! The machine half keeps every rule in the simulation, and the simulation notices broken planners.

mod broken;

use simulation::Scenario;
use simulation::machines::{Real, Summary, run, trace};

/// As many as fit into a test run. `cargo xtask simulate --machines --minutes N` runs fresh seeds.
const SEEDS: u64 = 400;

#[test]
fn four_hundred_runs_of_the_machine_half_keep_every_rule() {
    let summary = Summary::of(0..SEEDS, &Real);
    for (kind, outcomes) in summary.by_kind() {
        println!("{} runs: {kind}", outcomes.len());
        for outcome in outcomes.iter().take(2) {
            println!("  {}: {}", outcome.scenario, outcome.violations[0]);
        }
    }
    assert_eq!(summary.failed.len(), 0, "see `cargo xtask simulate --machines --scenario SEED --trace`");
    assert!(summary.faults > 20 * summary.runs, "runs without faults prove little: {}", summary.faults);
}

#[test]
fn a_seed_is_a_run_of_the_machine_half() {
    assert_eq!(run(7, &Real), run(7, &Real));
    let (outcome, lines) = trace(&Scenario::of(7), &Real);
    assert_eq!(outcome, run(7, &Real));
    assert!(lines.iter().any(|line| line.contains("creation for")), "a trace tells about creations");
}
