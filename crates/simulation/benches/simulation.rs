//! A hundred thousand runs of the simulation, each with its own seed.

use std::time::Instant;

use simulation::{Real, Summary, run};

/// As many as issue and documentation promise.
const RUNS: u64 = 100_000;

fn main() {
    let start = Instant::now();
    let summary = Summary::of(0..RUNS, |seed| run(seed, &Real));
    let Summary { runs, steps, faults, failed } = &summary;
    println!("bench: simulated rollouts with 0 violations | {} of {runs} | 100000 of 100000", *runs - failed.len());
    println!("bench: faults injected | {faults} | -");
    println!("bench: steps checked | {steps} | -");
    println!("bench: time for all runs | {:.1} s | -", start.elapsed().as_secs_f64());
    for outcome in failed.iter().take(5) {
        println!("scenario {}: {:?}", outcome.scenario, outcome.violations.first().map(ToString::to_string));
    }
    assert!(failed.is_empty(), "the simulation found violations");
}
