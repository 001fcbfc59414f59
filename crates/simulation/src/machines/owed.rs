//! Machines that checks took away and that sets have not replaced: an account of its own, by what happens to Machines.
//!
//! A machine that had a node is owed by its set until another one of the set gets a node for the first time, or the set
//! wants no more than it has.

use std::collections::{BTreeMap, BTreeSet};

use api::machine::{Machine, MachineSet};
use jiff::{SignedDuration, Timestamp};

use super::api::{Api, Kept};

/// How long a process may go by what a set wanted before.
const STALE: SignedDuration = SignedDuration::from_secs(180);

#[derive(Default)]
pub(crate) struct Owed {
    /// Checks that took a machine of a set away, by the set's uid.
    debts: BTreeMap<String, Vec<String>>,
    /// Machines that have had a node.
    joined: BTreeSet<String>,
    /// What each set wants, and since when.
    wanted: BTreeMap<String, (usize, Timestamp)>,
}

impl Owed {
    /// Looks at the Machines and sets as they are.
    pub(crate) fn look(&mut self, api: &Api) {
        let mut in_place: BTreeMap<&str, usize> = BTreeMap::new();
        for machine in api.all::<Machine>() {
            let Some(set) = machine.owner() else { continue };
            let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
            if has_node
                && self.joined.insert(machine.uid().to_owned())
                && let Some(debts) = self.debts.get_mut(set)
            {
                debts.pop();
            }
            if has_node && !machine.is_leaving() {
                *in_place.entry(set).or_default() += 1;
            }
        }
        for set in api.all::<MachineSet>() {
            let wants = usize::try_from(set.spec.replicas.unwrap_or(0)).unwrap_or(0);
            let known = self.wanted.entry(set.uid().to_owned()).or_insert((wants, api.now));
            if known.0 != wants {
                *known = (wants, api.now);
            }
            if let Some(debts) = self.debts.get_mut(set.uid()) {
                debts.truncate(wants.saturating_sub(in_place.get(set.uid()).copied().unwrap_or(0)));
            }
        }
        let sets: BTreeSet<&str> = api.all::<MachineSet>().map(|set| set.uid()).collect();
        self.debts.retain(|set, _| sets.contains(set.as_str()));
    }

    /// How many machines are owed to a check that takes another one away now.
    pub(crate) fn take(&mut self, api: &Api, check: &str, machine: &Machine) -> usize {
        let Some(set) = machine.owner().map(str::to_owned) else { return 0 };
        // One that never was a node leaves nothing that another could replace.
        if !self.joined.contains(machine.uid()) {
            return 0;
        }
        self.debts.entry(set).or_default().push(check.to_owned());
        let counts = |set: &&String| {
            let is_stale = |(_, since): &(usize, Timestamp)| api.now.duration_since(*since) < STALE;
            !self.wanted.get(*set).is_some_and(is_stale) && !is_starved(api, set)
        };
        self.debts.iter().filter(|(set, _)| counts(set)).flat_map(|(_, debts)| debts).filter(|by| *by == check).count()
    }
}

/// Whether the cloud has nothing to give to a set. A process that starts anew then cannot tell what the set had.
fn is_starved(api: &Api, set: &str) -> bool {
    let own = api.all::<Machine>().filter(|machine| machine.owner() == Some(set));
    own.filter_map(|machine| machine.status.as_ref()).any(|status| machine::lifecycle::is_starved(&status.conditions))
}
