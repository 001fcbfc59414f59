//! Failing runs shrink and keep failing in the same way.

use rollout::{Plan, Snapshot};
use simulation::{Kind, Parties, Scenario, run, run_scenario, shrink};

/// A planner that ignores pauses.
struct Hurried;

impl Parties for Hurried {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        let mut snapshot = snapshot.clone();
        snapshot.pool.paused = false;
        rollout::plan(&snapshot)
    }
}

#[test]
fn a_failing_run_shrinks_to_a_small_one_that_breaks_the_same_rule() {
    let breaks = |seed: &u64| run(*seed, &Hurried).violations.first().is_some_and(|it| it.kind == Kind::Paused);
    let seed = (0..400).find(breaks).expect("a planner that does not see pauses is found out");
    let (whole, small) = (run(seed, &Hurried), shrink(&Scenario::of(seed), |it| run_scenario(it, &Hurried)));
    assert_eq!(small.violations.first().map(|violation| violation.kind), Some(Kind::Paused));
    assert!(small.faults.len() <= whole.faults.len() / 2, "{} of {} faults", small.faults.len(), whole.faults.len());
    let again: Scenario = small.scenario.to_string().parse().expect("a scenario is read as it is printed");
    assert_eq!(run_scenario(&again, &Hurried), small);
}

#[test]
fn a_run_that_keeps_every_rule_is_left_as_it_is() {
    let clean = (0..400).find(|seed| run(*seed, &Hurried).violations.is_empty()).expect("many runs have no pause");
    assert_eq!(shrink(&Scenario::of(clean), |it| run_scenario(it, &Hurried)), run(clean, &Hurried));
}
