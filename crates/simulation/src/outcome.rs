//! The result of one run, of rollouts or of the machine half. `K` is the kind of rule that a run can violate.

use std::collections::BTreeSet;

use crate::{Kind, Scenario, Violation};

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<K = Kind> {
    pub scenario: Scenario,
    pub steps: usize,
    /// The numbers of the injected faults.
    pub faults: BTreeSet<usize>,
    /// Violated rules. Later ones may be consequences of the first.
    pub violations: Vec<Violation<K>>,
}

impl<K: Copy> Outcome<K> {
    /// A run that has not begun.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        Self { scenario: scenario.clone(), steps: 0, faults: BTreeSet::new(), violations: Vec::new() }
    }

    /// The rule that was violated first, if any was.
    pub fn broke(&self) -> Option<K> {
        self.violations.first().map(|violation| violation.kind)
    }
}
