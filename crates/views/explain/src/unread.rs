//! What was not read, so that nothing is said to be missing that was only not looked at.
//!
//! Objects that may not be listed are absent from a snapshot like objects that do not exist. An explanation that would rest on
//! their absence asks here first, and says that it does not know.

use std::collections::{BTreeMap, BTreeSet};

/// A kind of objects that explanations draw conclusions from when there are none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    Pools,
    Nodes,
    /// MachineConfigNodes.
    NodeReports,
    Ledgers,
    Machines,
    MachineSets,
    HealthChecks,
    /// Pods on nodes that are being drained.
    Pods,
    Budgets,
}

/// The kinds that were not read, or not in every namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    gaps: BTreeMap<Input, Gap>,
}

/// Why a kind was not read, and where it was all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    why: String,
    except: BTreeSet<String>,
}

impl Unread {
    /// Nothing of a kind was read.
    pub fn add(&mut self, input: Input, why: impl Into<String>) {
        self.gaps.insert(input, Gap { why: why.into(), except: BTreeSet::new() });
    }

    /// A kind was read in these namespaces only. What was not read at all stays so.
    pub fn add_outside(&mut self, input: Input, namespaces: BTreeSet<String>, why: impl Into<String>) {
        self.gaps.entry(input).or_insert_with(|| Gap { why: why.into(), except: namespaces });
    }

    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Why objects of a kind may be missing somewhere.
    #[must_use]
    pub fn why(&self, input: Input) -> Option<&str> {
        self.gaps.get(&input).map(|gap| gap.why.as_str())
    }

    /// Why objects of a kind may be missing in a namespace.
    #[must_use]
    pub fn why_in(&self, input: Input, namespace: &str) -> Option<&str> {
        self.gaps.get(&input).filter(|gap| !gap.except.contains(namespace)).map(|gap| gap.why.as_str())
    }
}
