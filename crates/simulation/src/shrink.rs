//! Reduces a failing run to a small one that violates the same rule.

use crate::{Outcome, Scenario};

/// Enough for a run with some fifty faults; takes a few seconds.
const TRIES: usize = 600;

struct Shrinking<K, R> {
    run: R,
    kind: K,
    best: Outcome<K>,
    tries: usize,
}

/// Finds a smaller run (fewer steps, nodes and faults) whose first violation is of the same kind. A run without violations
/// is returned unchanged.
pub fn shrink<K: Copy + Eq>(scenario: &Scenario, run: impl Fn(&Scenario) -> Outcome<K>) -> Outcome<K> {
    let best = run(scenario);
    let Some(kind) = best.broke() else { return best };
    let mut shrinking = Shrinking { run, kind, best, tries: 0 };
    loop {
        let before = shrinking.best.scenario.clone();
        shrinking.fewer_steps();
        shrinking.fewer_nodes();
        shrinking.fewer_faults();
        shrinking.no_lag();
        if shrinking.best.scenario == before || shrinking.tries >= TRIES {
            return shrinking.best;
        }
    }
}

impl<K: Copy + Eq, R: Fn(&Scenario) -> Outcome<K>> Shrinking<K, R> {
    /// Tries a scenario and keeps it if its first violation is of the same kind.
    fn keeps(&mut self, scenario: Scenario) -> bool {
        if self.tries >= TRIES || scenario == self.best.scenario {
            return false;
        }
        self.tries += 1;
        let outcome = (self.run)(&scenario);
        let fails = outcome.broke() == Some(self.kind);
        if fails {
            self.best = outcome;
        }
        fails
    }

    fn fewer_steps(&mut self) {
        let now = self.best.scenario.clone();
        // Steps after the violation do not matter.
        self.keeps(Scenario { steps: Some(now.steps.unwrap_or(self.best.steps).min(self.best.steps)), ..now });
        let mut cut = self.best.scenario.steps.unwrap_or(200);
        while cut > 0 {
            let now = self.best.scenario.clone();
            let steps = now.steps.unwrap_or(200).saturating_sub(cut);
            if !self.keeps(Scenario { steps: Some(steps), ..now }) {
                cut /= 2;
            }
        }
    }

    fn fewer_nodes(&mut self) {
        let mut nodes = 1;
        while nodes < self.best.scenario.nodes.unwrap_or(8) {
            let now = self.best.scenario.clone();
            if self.keeps(Scenario { nodes: Some(nodes), ..now }) {
                return;
            }
            nodes += 1;
        }
    }

    /// Leaves out faults, first in large groups and then in smaller ones.
    fn fewer_faults(&mut self) {
        let mut size = self.best.faults.len();
        while size > 0 {
            let faults: Vec<usize> = self.best.faults.iter().copied().collect();
            for part in faults.chunks(size) {
                let mut now = self.best.scenario.clone();
                now.without.extend(part);
                self.keeps(now);
            }
            size /= 2;
        }
        // Faults after the last step need not be listed.
        let now = self.best.scenario.clone();
        let last = 2 * now.steps.unwrap_or(usize::MAX / 2);
        let without = now.without.iter().copied().filter(|fault| *fault < last).collect();
        self.keeps(Scenario { without, ..now });
    }

    fn no_lag(&mut self) {
        let now = self.best.scenario.clone();
        self.keeps(Scenario { fresh: true, ..now });
    }
}
