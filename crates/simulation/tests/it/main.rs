//! The simulation holds for the real planner, and notices a broken one.

mod broken;

use simulation::{Real, Summary, run, trace};

#[test]
fn some_hundred_runs_keep_every_rule() {
    let summary = Summary::of(0..300, &Real);
    for outcome in summary.failed.iter().take(3) {
        println!("seed {}: {}", outcome.seed, outcome.violations.join("\n  "));
    }
    assert_eq!(summary.failed.len(), 0, "see `cargo xtask simulate --runs 1 --seed N --trace`");
    assert!(summary.faults > 20 * summary.runs, "runs without faults prove little: {}", summary.faults);
}

#[test]
fn runs_that_once_found_a_fault_stay_clean() {
    let seeds = [
        548, 3876, 12_664, 15_314, 17_066, 1269, 1828, 2534, 15_000, 21_921, 28_066, 31_740, 33_654, 49_794, 69_303,
        74_377, 100_068, 100_420,
    ];
    let summary = Summary::of(seeds.into_iter(), &Real);
    assert_eq!(summary.failed, []);
}

#[test]
fn a_seed_is_a_run() {
    assert_eq!(run(7, &Real), run(7, &Real));
    let (outcome, lines) = trace(7, &Real);
    assert_eq!(outcome, run(7, &Real));
    assert!(lines.iter().any(|line| line.contains("ledger: ")), "a trace tells about the ledger");
}
