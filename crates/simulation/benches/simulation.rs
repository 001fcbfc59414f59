//! A hundred thousand runs of the simulation, each with its own seed.

use std::time::Instant;

use simulation::{Real, Summary};

/// As many as issue and documentation promise.
const RUNS: u64 = 100_000;

fn main() {
    let start = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let summary = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| scope.spawn(move || Summary::of((part..RUNS).step_by(threads as usize), &Real)))
            .collect();
        let mut whole = Summary::default();
        for part in parts {
            whole.add(part.join().expect("a run does not panic"));
        }
        whole
    });
    let Summary { runs, steps, faults, failed } = &summary;
    println!("bench: simulated rollouts with 0 violations | {} of {runs} | 100000 of 100000", *runs - failed.len());
    println!("bench: faults injected | {faults} | -");
    println!("bench: steps checked | {steps} | -");
    println!("bench: time for all runs | {:.1} s | -", start.elapsed().as_secs_f64());
    for outcome in failed.iter().take(5) {
        println!("seed {}: {}", outcome.seed, outcome.violations.join("; "));
    }
    assert!(failed.is_empty(), "the simulation found violations");
}
