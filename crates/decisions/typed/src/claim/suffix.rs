//! Which suffix the MachineConfigs of an object have.
//!
//! A suffix once given is kept: whoever has a MachineConfig keeps its name, whatever annotations say.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::machineconfiguration::MachineConfigPool;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Claim, Subject, is_owner};
use crate::names::{self, Claimant};
use crate::plan::Existing;
use crate::pools::name_of;

/// An object that has a suffix, and the names of its pools.
struct Named {
    claimant: Claimant,
    pools: BTreeSet<String>,
}

/// Gives every object its suffix: the one it has, or a new one that is free on all of its pools.
pub(super) fn give<S: Clone + DeserializeOwned + Serialize>(
    subject: Subject,
    claims: &mut [Claim<'_, S>],
    existing: &Existing<'_>,
) {
    let names = existing.names();
    let owners = owners(claims, existing);
    let mut given: Vec<Named> = Vec::new();
    // Those that have a suffix come first, so that nobody is given it a second time.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let has_suffix = |claim: &Claim<'_, S>| {
        Claimant::new(claim.metadata, None).suffix.is_some() || owned(subject, claim, existing).is_some()
    };
    order.sort_by_cached_key(|index| !has_suffix(&claims[*index]));
    for index in order {
        let claim = &mut claims[index];
        if claim.pools.is_empty() {
            continue;
        }
        let has = owned(subject, claim, existing);
        let mut claimant = Claimant::new(claim.metadata, claim.selector);
        claimant.suffix = claimant.suffix.or_else(|| has.clone());
        let found = suffix(subject, &claim.pools, &claimant, &given, &owners, &names);
        claim.suffix = match found {
            Ok(suffix) => Some(suffix),
            // An annotation that cannot be takes no MachineConfig away.
            Err(why) => {
                claim.fail(format!("{}: {why}", subject.no_name));
                has
            }
        };
        if claim.suffix.is_some() {
            claimant.suffix.clone_from(&claim.suffix);
            given.push(Named { claimant, pools: claim.pools.iter().map(|pool| name_of(pool)).collect() });
        }
    }
}

/// The suffix of the MachineConfigs that an object has, whatever its annotation says.
fn owned<S: Clone + DeserializeOwned + Serialize>(
    subject: Subject,
    claim: &Claim<'_, S>,
    existing: &Existing<'_>,
) -> Option<String> {
    let is_its = |suffix: &&str| {
        claim.pools.iter().any(|pool| {
            let live = existing.get(&subject.names.suffixed(&name_of(pool), suffix));
            live.is_some_and(|live| is_owner(live, claim.metadata))
        })
    };
    names::SUFFIXES.into_iter().find(is_its).map(str::to_owned)
}

/// Whose the MachineConfigs of present objects are, where the object is still on the pool.
fn owners<S: Clone + DeserializeOwned + Serialize>(
    claims: &[Claim<'_, S>],
    existing: &Existing<'_>,
) -> BTreeMap<String, String> {
    let mut owners = BTreeMap::new();
    for claim in claims {
        for pool in &claim.pools {
            for suffix in names::SUFFIXES {
                let name = claim.subject.names.suffixed(&name_of(pool), suffix);
                if existing.get(&name).is_some_and(|live| is_owner(live, claim.metadata)) {
                    owners.insert(name, claim.name().to_owned());
                }
            }
        }
    }
    owners
}

fn suffix(
    subject: Subject,
    pools: &[&MachineConfigPool],
    claimant: &Claimant,
    given: &[Named],
    owners: &BTreeMap<String, String>,
    existing: &BTreeSet<String>,
) -> Result<String, String> {
    if let Some(suffix) = &claimant.suffix {
        if !names::SUFFIXES.contains(&suffix.as_str()) {
            let error = names::Error::Suffix { of: claimant.name.clone(), suffix: suffix.clone() };
            return Err(error.to_string());
        }
        let rival = pools.iter().map(|pool| name_of(pool)).find_map(|pool| {
            let is_same = |one: &&Named| one.pools.contains(&pool) && one.claimant.suffix.as_ref() == Some(suffix);
            let given = given.iter().find(is_same).map(|one| one.claimant.name.clone());
            let owner = owners.get(&subject.names.suffixed(&pool, suffix)).filter(|owner| **owner != claimant.name);
            given.or_else(|| owner.cloned()).map(|rival| (rival, pool))
        });
        return match rival {
            None => Ok(suffix.clone()),
            Some((rival, pool)) => Err(format!(
                "annotation {} is {suffix:?}, which {} {rival} has on pool {pool:?} already; remove the annotation to get a free one",
                annotations::MC_NAME_SUFFIX,
                subject.kind,
            )),
        };
    }
    // A suffix is for all of its pools, so whoever shares any of them is a rival.
    let shares = |one: &&Named| pools.iter().any(|pool| one.pools.contains(&name_of(pool)));
    let as_rival = |one: &Claimant| Claimant { pools: claimant.pools.clone(), ..one.clone() };
    let rivals = given.iter().filter(shares).map(|one| &one.claimant).chain([claimant]);
    let rivals: Vec<Claimant> = rivals.map(as_rival).collect();
    let Some(first) = pools.first() else { return Ok(String::new()) };
    let labels = labels(first);
    let pool = names::Pool {
        name: first.metadata.name.as_deref().unwrap_or_default(),
        uid: first.metadata.uid.as_deref().unwrap_or_default(),
        labels: &labels,
    };
    let found = names::name_for(subject.names, pool, claimant, &rivals, existing).map_err(|error| error.to_string())?;
    let rest = found.name.strip_prefix(&subject.names.plain(pool.name)).unwrap_or_default();
    Ok(rest.trim_start_matches('-').to_owned())
}

fn labels(pool: &MachineConfigPool) -> BTreeMap<String, String> {
    pool.metadata.labels.clone().unwrap_or_default()
}
