//! Revisions: which template came after which, and the way back.

use std::collections::BTreeMap;

use api::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY};
use api::machine::{MachineDeployment, MachineSet, MachineTemplateSpec, annotation};

use super::facts::Family;
use crate::{capacity, template};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why there is no way back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    #[error("no rollout history found for MachineDeployment {0:?}: no older MachineSet is left")]
    NoHistory(String),
    #[error("unable to find revision {revision} of MachineDeployment {deployment:?}; there are {known:?}")]
    NoRevision { deployment: String, revision: i64, known: Vec<i64> },
}

/// The template of a revision, or of the one before the present: putting it into the deployment rolls back.
pub fn rollback(
    deployment: &MachineDeployment,
    sets: &[MachineSet],
    to: Option<i64>,
) -> Result<MachineTemplateSpec, RollbackError> {
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let uid = deployment.metadata.uid.as_deref();
    let owned = sets.iter().filter(|set| {
        let owners = set.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid)
    });
    let present = &deployment.spec.template;
    let older = owned.filter(|set| !template::is_same(&set.spec.template.clone().unwrap_or_default(), present));
    let by_revision: BTreeMap<i64, &MachineSet> = older.map(|set| (revision(set), set)).collect();
    let found = match to {
        None => by_revision.last_key_value().map(|(_, set)| *set).ok_or(RollbackError::NoHistory(name))?,
        Some(revision) => by_revision.get(&revision).copied().ok_or_else(|| {
            let known = by_revision.keys().copied().collect();
            RollbackError::NoRevision { deployment: name, revision, known }
        })?,
    };
    Ok(template::without_hash(&found.spec.template.clone().unwrap_or_default()))
}

/// The number of a set, 0 if it has none.
fn revision(set: &MachineSet) -> i64 {
    let annotation = set.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
    annotation.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The number that the new set has, or gets: one more than any old one.
pub(super) fn of_new(family: &Family) -> i64 {
    let highest = family.old.iter().map(|child| revision(&child.set)).max().unwrap_or(0);
    family.new.as_ref().map_or(0, |new| revision(&new.set)).max(highest.saturating_add(1))
}

/// The annotations with which a set gets its number. A set that had another one before remembers it.
pub(super) fn annotations(set: &MachineSet, number: i64) -> Vec<(String, Option<String>)> {
    let old = revision(set);
    let mut annotations = vec![(REVISION.to_owned(), Some(number.to_string()))];
    if old != 0 && old != number {
        let history = set.metadata.annotations.as_ref().and_then(|all| all.get(REVISION_HISTORY));
        let history = history.filter(|history| !history.is_empty());
        let text = history.map_or_else(|| old.to_string(), |history| format!("{history},{old}"));
        annotations.push((REVISION_HISTORY.to_owned(), Some(text)));
    }
    annotations
}

/// What a set takes over from its deployment: everything but bookkeeping. What is announced to the autoscaler is copied to a
/// new set only; afterwards it is brought up to date on the set itself, and the two must not write over each other.
pub(super) fn copied(deployment: &MachineDeployment, set: &MachineSet) -> impl Iterator<Item = (String, String)> {
    let own = [
        LAST_APPLIED,
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        annotation::UPDATE_STRATEGY,
        annotation::CONDITIONS,
    ];
    let annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    let present = set.metadata.annotations.clone().unwrap_or_default();
    let is_announced = move |key: &str| capacity::KEYS.contains(&key) && present.contains_key(key);
    annotations.into_iter().filter(move |(key, _)| !own.contains(&key.as_str()) && !is_announced(key))
}
