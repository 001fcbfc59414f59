//! The results of many runs.

use std::collections::BTreeMap;

use crate::{Kind, Outcome};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<K = Kind> {
    pub runs: usize,
    pub steps: usize,
    pub faults: usize,
    /// Runs with violations.
    pub failed: Vec<Outcome<K>>,
}

impl<K> Default for Summary<K> {
    fn default() -> Self {
        Self { runs: 0, steps: 0, faults: 0, failed: Vec::new() }
    }
}

impl<K: Copy + Ord + Send> Summary<K> {
    /// Runs these seeds on all processors.
    pub fn of(seeds: impl Iterator<Item = u64>, run: impl Fn(u64) -> Outcome<K> + Sync) -> Self {
        let seeds: Vec<u64> = seeds.collect();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut summary = std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|part| {
                    let (seeds, run) = (seeds.iter().skip(part).step_by(threads), &run);
                    scope.spawn(move || {
                        let mut summary = Self::default();
                        seeds.for_each(|seed| summary.count(run(*seed)));
                        summary
                    })
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

    /// Adds one run.
    pub fn count(&mut self, outcome: Outcome<K>) {
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
    pub fn by_kind(&self) -> BTreeMap<K, Vec<&Outcome<K>>> {
        let mut kinds: BTreeMap<K, Vec<&Outcome<K>>> = BTreeMap::new();
        for outcome in &self.failed {
            if let Some(kind) = outcome.broke() {
                kinds.entry(kind).or_default().push(outcome);
            }
        }
        kinds
    }
}
