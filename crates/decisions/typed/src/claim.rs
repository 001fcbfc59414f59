//! Which KubeletConfigs or ContainerRuntimeConfigs are on which pools, under which suffix, and with which settings.
//!
//! Both kinds are selected, named, finalized and given up by the same rules; what they mean is up to their planners.

mod suffix;

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::labels::ROLE;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::names::POOL_WORKER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conditions::Outcome;
use crate::names;
use crate::plan::{Existing, Object, Plan, Standing, Update, is_edited, note, standing};
use crate::pools::{inherits, name_of, takes_its_own};
use crate::selection;

/// The kind that claims are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) kind: &'static str,
    pub(crate) names: names::Kind,
    /// Begins the refusal of one that gets no name.
    pub(crate) no_name: &'static str,
}

/// An object of the kind, as far as claims go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configuration<'a> {
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) selector: Option<&'a LabelSelector>,
}

/// What one object asks for, and what becomes of it.
pub(crate) struct Claim<'a, S> {
    subject: Subject,
    pub(crate) metadata: &'a ObjectMeta,
    selector: Option<&'a LabelSelector>,
    /// What is applied on each pool: the present settings, or those that were accepted there last.
    settings: BTreeMap<String, S>,
    pub(crate) pools: Vec<&'a MachineConfigPool>,
    pub(crate) suffix: Option<String>,
    pub(crate) outcome: Outcome,
    /// The MachineConfigs that are generated for it.
    pub(crate) names: BTreeSet<String>,
}

impl<S: Clone + DeserializeOwned + Serialize> Claim<'_, S> {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_on(&self, pool: &MachineConfigPool) -> bool {
        self.pools.iter().any(|one| one.metadata.name == pool.metadata.name)
    }

    /// The first thing that is wrong is what is told.
    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        if self.outcome.is_ok() {
            self.outcome = Err(why.into());
        }
    }

    /// [`fail`](Self::fail) for a reason that is one pool's, which has to be named where there are several.
    pub(crate) fn fail_on(&mut self, pool: &str, why: impl Into<String>) {
        match self.pools.len() {
            0 | 1 => self.fail(why),
            _ => self.fail(format!("pool {pool:?}: {}", why.into())),
        }
    }

    /// What is applied on a pool.
    pub(crate) fn settings(&self, pool: &str) -> Option<&S> {
        self.settings.get(pool)
    }

    /// Changes what is applied on a pool, and returns what was applied until now.
    pub(crate) fn set(&mut self, pool: &str, settings: Option<S>) -> Option<S> {
        match settings {
            Some(settings) => self.settings.insert(pool.to_owned(), settings),
            None => self.settings.remove(pool),
        }
    }

    /// What was accepted on a pool last. Pools differ: what one of them refused may be in force on another.
    pub(crate) fn accepted(&self, pool: &str, existing: &Existing<'_>) -> Option<S> {
        let live = existing.get(&self.config_name(pool)?)?;
        let noted = note(live, annotations::ACCEPTED_SETTINGS).filter(|_| is_owner(live, self.metadata))?;
        serde_json::from_str(noted).ok()
    }

    /// The MachineConfig that is generated for it on a pool.
    pub(crate) fn config_name(&self, pool: &str) -> Option<String> {
        self.suffix.as_ref().map(|suffix| self.subject.names.suffixed(pool, suffix))
    }

    /// Whether a user wrote the MachineConfig that stands in its place on a pool. One that it owns was generated, whoever
    /// took our notes off.
    pub(crate) fn is_displaced(&self, pool: &str, existing: &Existing<'_>) -> bool {
        let live = self.config_name(pool).and_then(|name| existing.get(&name));
        live.is_some_and(|live| standing(live) == Standing::Users && !is_owner(live, self.metadata))
    }

    /// Leaves the MachineConfig that a pool has as it is.
    pub(crate) fn hold(&mut self, pool: &str, existing: &Existing<'_>, wanted: &mut BTreeMap<String, MachineConfig>) {
        // It may have one under the suffix that it had before.
        let named = self.config_name(pool).into_iter();
        let owned = names::SUFFIXES.into_iter().map(|suffix| self.subject.names.suffixed(pool, suffix));
        let owned = owned.filter(|name| existing.get(name).is_some_and(|live| is_owner(live, self.metadata)));
        for name in named.chain(owned).collect::<BTreeSet<_>>() {
            let Some(live) = existing.get(&name) else { continue };
            if let Err(why) = &mut self.outcome
                && is_edited(live)
            {
                why.push_str(&format!(
                    "; MachineConfig {name} was changed by somebody and is put back once this is mended"
                ));
            }
            self.names.insert(name.clone());
            // One of another controller is kept as it was seen first, so that an edit of it is taken back.
            if standing(live) != Standing::Foreign {
                wanted.insert(name, live.clone());
            }
        }
    }

    /// The settings of a pool as they are noted on its MachineConfig.
    pub(crate) fn accepted_settings(&self, pool: &str) -> String {
        self.settings(pool).and_then(|settings| serde_json::to_string(settings).ok()).unwrap_or_default()
    }

    /// The MachineConfig's owner.
    pub(crate) fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: "machineconfiguration.openshift.io/v1".to_owned(),
            kind: self.subject.kind.to_owned(),
            name: self.name().to_owned(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// All objects that are not being deleted, oldest first. `check` reads one by itself, for the pools it is on.
pub(crate) fn claim<'a, S: Clone + DeserializeOwned + Serialize>(
    subject: Subject,
    configurations: impl Iterator<Item = Configuration<'a>>,
    pools: &'a [MachineConfigPool],
    existing: &Existing<'_>,
    check: impl Fn(&ObjectMeta, &[&MachineConfigPool]) -> Result<S, String>,
) -> Vec<Claim<'a, S>> {
    let mut live: Vec<_> = configurations.filter(|one| one.metadata.deletion_timestamp.is_none()).collect();
    live.sort_by_key(|one| (one.metadata.creation_timestamp.as_ref().map(|time| time.0), &one.metadata.name));
    let mut claims: Vec<Claim<'a, S>> = live.into_iter().map(|one| select(subject, one, pools, existing)).collect();
    suffix::give(subject, &mut claims, existing);
    for claim in &mut claims {
        let checked = check(claim.metadata, &claim.pools);
        for pool in claim.pools.iter().map(|pool| name_of(pool)).collect::<Vec<_>>() {
            let settings = checked.as_ref().ok().cloned().or_else(|| claim.accepted(&pool, existing));
            claim.set(&pool, settings);
        }
        if let Err(why) = checked {
            claim.fail(why);
        }
        // A pool that inherits has it through the workers' where the workers' pool is selected too.
        let of_workers = claim.pools.iter().any(|pool| name_of(pool) == POOL_WORKER);
        let reaches = |pool: &MachineConfigPool| takes_its_own(pool) || (of_workers && inherits(pool));
        for pool in claim.pools.clone().into_iter().filter(|pool| !reaches(pool)) {
            let name = name_of(pool);
            let why = format!(
                "it reaches no node of pool {name}, because spec.machineConfigSelector of MachineConfigPool {name} does not take MachineConfigs with label {ROLE}: {name}; add {name} to the values that the selector takes for this label"
            );
            claim.fail(why);
        }
    }
    claims
}

/// Finds the pools of one object.
fn select<'a, S: Clone + DeserializeOwned + Serialize>(
    subject: Subject,
    one: Configuration<'a>,
    pools: &'a [MachineConfigPool],
    existing: &Existing<'_>,
) -> Claim<'a, S> {
    let Configuration { metadata, selector } = one;
    let mut claim = Claim {
        subject,
        metadata,
        selector,
        settings: BTreeMap::new(),
        pools: Vec::new(),
        suffix: None,
        outcome: Ok(()),
        names: BTreeSet::new(),
    };
    match selection::select(subject.kind, selector, pools) {
        Ok(pools) => claim.pools = pools,
        Err(error) => {
            // A selector that cannot be read says nothing; one that chooses no pool does.
            if matches!(error, selection::Error::Invalid(_)) {
                claim.pools = pools.iter().filter(|pool| is_served(subject, metadata, pool, existing)).collect();
            }
            claim.fail(error.to_string());
        }
    }
    claim
}

/// Whether a pool has a MachineConfig of this object.
fn is_served(subject: Subject, metadata: &ObjectMeta, pool: &MachineConfigPool, existing: &Existing<'_>) -> bool {
    let plain = subject.names.plain(pool.metadata.name.as_deref().unwrap_or_default());
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|name| {
        let rest = name.strip_prefix(&plain);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) && existing.get(name).is_some()
    })
}

/// MachineConfigs that their objects gave up: by being deleted, or by selecting other pools.
pub(crate) fn released<'a, S>(
    configurations: impl Iterator<Item = Configuration<'a>>,
    claims: &[Claim<'_, S>],
    existing: &Existing<'_>,
) -> BTreeSet<String> {
    let mut released = BTreeSet::new();
    for Configuration { metadata, .. } in configurations {
        let claim = claims.iter().find(|claim| claim.metadata.name == metadata.name);
        for name in metadata.finalizers.iter().flatten() {
            let is_held = claim.is_some_and(|claim| claim.names.contains(name));
            let is_its = |live: &MachineConfig| {
                live.metadata.owner_references.iter().flatten().count() == 0 || is_owner(live, metadata)
            };
            if !is_held && existing.get(name).is_some_and(is_its) {
                released.insert(name.clone());
            }
        }
    }
    released
}

/// Annotation, finalizers and status of one object.
pub(crate) fn update<S: Clone + DeserializeOwned + Serialize>(
    subject: Subject,
    claim: &Claim<'_, S>,
    existing: &Existing<'_>,
    status: Option<Value>,
    plan: &mut Plan,
) {
    let notes = claim.metadata.annotations.as_ref();
    let known = notes.and_then(|notes| notes.get(annotations::MC_NAME_SUFFIX));
    // One that cannot be is the user's to correct; it stays until then.
    let suffix = claim.suffix.iter().filter(|_| known.is_none());
    let finalizers = claim.metadata.finalizers.clone().unwrap_or_default();
    let (_, mut wanted) = partition(subject, &finalizers, existing);
    wanted.extend(claim.names.iter().cloned());
    let changes = wanted.iter().collect::<BTreeSet<_>>() != finalizers.iter().collect();
    plan.update(Update {
        object: Object::new(subject.kind, claim.name()),
        annotations: suffix.map(|suffix| (annotations::MC_NAME_SUFFIX.to_owned(), suffix.clone())).collect(),
        finalizers: changes.then_some(wanted),
        status,
    });
}

/// An object that is being deleted loses the finalizers that are ours; those of others stay.
pub(crate) fn release(subject: Subject, metadata: &ObjectMeta, existing: &Existing<'_>, plan: &mut Plan) {
    let finalizers = metadata.finalizers.clone().unwrap_or_default();
    let (ours, others) = partition(subject, &finalizers, existing);
    plan.update(Update {
        object: Object::new(subject.kind, metadata.name.clone().unwrap_or_default()),
        annotations: BTreeMap::new(),
        finalizers: (!ours.is_empty()).then_some(others),
        status: None,
    });
}

/// Finalizers that name a generated MachineConfig, in today's or in an older form, and others.
fn partition(subject: Subject, finalizers: &[String], existing: &Existing<'_>) -> (Vec<String>, Vec<String>) {
    let older = subject.names.older();
    let is_ours = |finalizer: &String| {
        subject.names.is_name(finalizer)
            || finalizer.starts_with("99-") && finalizer.ends_with(&older)
            || existing.get(finalizer).is_some()
    };
    finalizers.iter().cloned().partition(is_ours)
}

fn is_owner(live: &MachineConfig, metadata: &ObjectMeta) -> bool {
    let mut owners = live.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == metadata.uid.as_ref())
}
