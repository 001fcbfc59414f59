//! What keeps a check from making things worse.

use std::collections::{BTreeMap, BTreeSet};

use super::replacements::has_joined;
use super::verdict::is_healthy;
use super::{Check, Target, Verdict};

/// One sick machine on a new config is a sick machine; two are a sick config.
const SUSPICIOUS: usize = 2;

/// Something that machines may share.
type Trait = fn(&Target) -> Option<&str>;

/// How many machines may be put under remediation.
#[derive(Clone, Debug, Default)]
pub(super) struct Brake<'a> {
    /// `None` means as many as there are.
    pub(super) limit: Option<usize>,
    /// Machines that are under remediation now.
    pub(super) leaving: usize,
    /// The same, and places of sets in which no replacement has joined yet.
    pub(super) busy: usize,
    /// Of these places, those that nobody leaves, by set.
    pub(super) empty: BTreeMap<&'a str, usize>,
    /// Sets that get no replacements for what they lost.
    pub(super) stuck: BTreeSet<&'a str>,
}

impl Brake<'_> {
    /// Whether a machine stays because its set would get nothing in its place. One that never joined leaves a place that is
    /// empty anyway.
    pub(super) fn keeps(&self, target: &Target) -> bool {
        let is_stuck = target.set.as_deref().is_some_and(|set| self.stuck.contains(set));
        self.limit.is_some() && is_stuck && has_joined(target)
    }

    /// Takes a share of the brake for a machine. Says whether there was one.
    pub(super) fn take(&mut self, target: &Target) -> bool {
        let Some(limit) = self.limit else { return true };
        if self.leaving >= limit {
            return false;
        }
        // A replacement that failed before it joined stands in a place that counts already.
        let place = target.set.as_deref().filter(|_| !has_joined(target)).and_then(|set| self.empty.get_mut(set));
        match place.filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None if self.busy >= limit => return false,
            None => self.busy += 1,
        }
        self.leaving += 1;
        true
    }
}

/// The limit of a check with so many machines.
pub(super) fn limit(check: &Check, total: usize) -> Option<usize> {
    let limit = check.at_once.as_ref()?.of(total).max(1);
    Some(usize::try_from(limit).unwrap_or(0))
}

/// Sick machines that share something which healthy ones do not have.
pub(super) struct Shared {
    pub(super) what: String,
    pub(super) machines: BTreeSet<String>,
}

/// What sick machines share and healthy ones do not have, if there is such a thing.
///
/// At least two sick machines must have it, most of those that have it must be sick, and some healthy machine of the same
/// pool or set must have something else: otherwise there is nothing to compare with. Two pools, and the sets of two zones,
/// always differ, so the one that lost its power is not held because the other is well.
pub(super) fn shared_change(check: &Check, judged: &[(&Target, Verdict)]) -> Option<Shared> {
    check.at_once.as_ref()?;
    let sick: Vec<_> =
        judged.iter().filter(|(_, verdict)| verdict.needs_remediation()).map(|(target, _)| *target).collect();
    if sick.len() < SUSPICIOUS {
        return None;
    }
    let well: Vec<_> =
        judged.iter().filter(|(target, verdict)| is_healthy(target, verdict)).map(|(target, _)| *target).collect();
    let traits: [(&str, Trait, Trait); 3] = [
        ("config", |target| target.node()?.config.as_deref(), pool),
        ("OS image", |target| target.node()?.image.as_deref(), pool),
        ("provider spec", |target| Some(target.spec.as_str()), |target| Some(target.group.as_str())),
    ];
    let mut shared = Shared { what: String::new(), machines: BTreeSet::new() };
    for (what, of, among) in traits {
        for ((group, value), holders) in holders(&sick, of, among) {
            let also_well = well.iter().filter(|target| of(target) == Some(value)).count();
            let differs = |target: &&&Target| among(target) == group && of(target).is_some_and(|other| other != value);
            if holders.len() < SUSPICIOUS || also_well >= holders.len() || !well.iter().any(|it| differs(&it)) {
                continue;
            }
            if shared.what.is_empty() {
                shared.what =
                    if what == "provider spec" { "a provider spec".to_owned() } else { format!("{what} {value}") };
            }
            shared.machines.extend(holders.iter().map(|target| target.name.clone()));
        }
    }
    (!shared.machines.is_empty()).then_some(shared)
}

/// The machines by what they have and by what they are compared among.
fn holders<'a>(
    targets: &[&'a Target],
    of: Trait,
    among: Trait,
) -> BTreeMap<(Option<&'a str>, &'a str), Vec<&'a Target>> {
    let mut holders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for target in targets {
        if let Some(value) = of(target) {
            holders.entry((among(target), value)).or_default().push(*target);
        }
    }
    holders
}

/// The pool of a node: the name of its rendered config without the hash at its end.
fn pool(target: &Target) -> Option<&str> {
    let config = target.node()?.config.as_deref()?;
    Some(config.rsplit_once('-').map_or(config, |(pool, _)| pool))
}
