//! The results of many runs.

use std::collections::BTreeMap;

use crate::{Kind, Outcome, Parties, run};

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
                    scope.spawn(move || Self::one_by_one(seeds.copied(), parties))
                })
                .collect();
            let mut whole = Self::default();
            for part in parts {
                whole.add(part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            whole
        });
        summary.failed.sort_by_key(|outcome| outcome.scenario.seed);
        summary
    }

    fn one_by_one(seeds: impl Iterator<Item = u64>, parties: &dyn Parties) -> Self {
        let mut summary = Self::default();
        for seed in seeds {
            summary.count(run(seed, parties));
        }
        summary
    }

    /// Adds one run.
    pub fn count(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.steps += outcome.steps;
        self.faults += outcome.faults.len();
        if !outcome.violations.is_empty() {
            self.failed.push(outcome);
        }
    }

    /// Adds the runs of another summary.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.faults += other.faults;
        self.failed.extend(other.failed);
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
