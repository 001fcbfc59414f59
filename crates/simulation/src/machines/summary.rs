//! The results of many runs, and the smallest run that breaks the same rule.

use std::collections::BTreeMap;

use super::{Kind, Outcome, Parties, Scenario, run, run_scenario};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub runs: usize,
    pub steps: usize,
    pub faults: usize,
    /// Runs with violations.
    pub failed: Vec<Outcome>,
}

impl Summary {
    /// Runs these seeds on all processors.
    pub fn of(seeds: impl Iterator<Item = u64>, parties: &dyn Parties) -> Self {
        let seeds: Vec<u64> = seeds.collect();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut summary = std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|part| {
                    let seeds = seeds.iter().skip(part).step_by(threads);
                    scope.spawn(move || seeds.fold(Self::default(), |whole, seed| whole.with(run(*seed, parties))))
                })
                .collect();
            parts.into_iter().fold(Self::default(), |whole, part| {
                whole.and(part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        });
        summary.failed.sort_by_key(|outcome| outcome.scenario.seed);
        summary
    }

    fn with(mut self, outcome: Outcome) -> Self {
        self.runs += 1;
        self.steps += outcome.steps;
        self.faults += outcome.faults.len();
        if !outcome.violations.is_empty() {
            self.failed.push(outcome);
        }
        self
    }

    /// Adds the runs of another summary.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.steps += other.steps;
        self.faults += other.faults;
        self.failed.extend(other.failed);
        self
    }

    /// The failed runs by the kind of their first violation.
    pub fn by_kind(&self) -> BTreeMap<Kind, Vec<&Outcome>> {
        let mut kinds: BTreeMap<Kind, Vec<&Outcome>> = BTreeMap::new();
        for outcome in &self.failed {
            if let Some(violation) = outcome.violations.first() {
                kinds.entry(violation.kind).or_default().push(outcome);
            }
        }
        kinds
    }
}

/// Enough for a run with some fifty faults; takes a few seconds.
const TRIES: usize = 400;

/// Finds a run with fewer steps and faults whose first violation is of the same kind. A run without violations is returned
/// unchanged.
pub fn shrink(scenario: &Scenario, parties: &dyn Parties) -> Outcome {
    let mut best = run_scenario(scenario, parties);
    let Some(kind) = best.violations.first().map(|violation| violation.kind) else { return best };
    let mut tries = 0;
    let mut keeps = |scenario: Scenario, best: &mut Outcome| {
        tries += 1;
        if tries > TRIES || scenario == best.scenario {
            return false;
        }
        let outcome = run_scenario(&scenario, parties);
        let fails = outcome.violations.first().is_some_and(|violation| violation.kind == kind);
        if fails {
            *best = outcome;
        }
        fails
    };
    loop {
        let before = best.scenario.clone();
        let mut cut = before.steps.unwrap_or(200);
        while cut > 0 {
            let steps = best.scenario.steps.unwrap_or(200).saturating_sub(cut);
            if !keeps(Scenario { steps: Some(steps), ..best.scenario.clone() }, &mut best) {
                cut /= 2;
            }
        }
        let mut size = best.faults.len();
        while size > 0 {
            let faults: Vec<usize> = best.faults.iter().copied().collect();
            for part in faults.chunks(size) {
                let mut scenario = best.scenario.clone();
                scenario.without.extend(part);
                keeps(scenario, &mut best);
            }
            size /= 2;
        }
        let fresh = Scenario { fresh: true, ..best.scenario.clone() };
        keeps(fresh, &mut best);
        if best.scenario == before {
            return best;
        }
    }
}
