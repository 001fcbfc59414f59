//! Which KubeletConfigs or ContainerRuntimeConfigs are on which pools, under which suffix, and with which settings.
//!
//! Both kinds are selected, named, finalized and given up by the same rules; what they mean is up to their planners.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conditions::Outcome;
use crate::names::{self, Claimant};
use crate::plan::{Existing, Object, Plan, Update, note};
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
    pub(crate) metadata: &'a ObjectMeta,
    selector: Option<&'a LabelSelector>,
    /// What is applied: the present settings, or those that were accepted last.
    pub(crate) settings: Option<S>,
    pub(crate) pools: Vec<&'a MachineConfigPool>,
    pub(crate) suffix: Option<String>,
    pub(crate) outcome: Outcome,
    /// The MachineConfigs that are generated for it.
    pub(crate) names: BTreeSet<String>,
}

impl<S: DeserializeOwned + Serialize> Claim<'_, S> {
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

    /// Falls back to what was accepted before, if anything was.
    pub(crate) fn refuse(&mut self, why: impl Into<String>, existing: &Existing<'_>) {
        self.fail(why);
        let live = self.metadata.finalizers.iter().flatten().filter_map(|name| existing.get(name));
        let mut owned = live.filter(|live| is_owner(live, self.metadata));
        self.settings = owned.find_map(|live| serde_json::from_str(note(live, annotations::ACCEPTED_SETTINGS)?).ok());
    }

    /// The settings as they are noted on the MachineConfig.
    pub(crate) fn accepted_settings(&self) -> String {
        self.settings.as_ref().and_then(|settings| serde_json::to_string(settings).ok()).unwrap_or_default()
    }

    /// The MachineConfig's owner.
    pub(crate) fn owner(&self, subject: Subject) -> OwnerReference {
        OwnerReference {
            api_version: "machineconfiguration.openshift.io/v1".to_owned(),
            kind: subject.kind.to_owned(),
            name: self.name().to_owned(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// All objects that are not being deleted, oldest first. `check` reads one by itself, for the pools it is on.
pub(crate) fn claim<'a, S: DeserializeOwned + Serialize>(
    subject: Subject,
    configurations: impl Iterator<Item = Configuration<'a>>,
    pools: &'a [MachineConfigPool],
    existing: &Existing<'_>,
    check: impl Fn(&ObjectMeta, &[&MachineConfigPool]) -> Result<S, String>,
) -> Vec<Claim<'a, S>> {
    let mut live: Vec<_> = configurations.filter(|one| one.metadata.deletion_timestamp.is_none()).collect();
    live.sort_by_key(|one| (one.metadata.creation_timestamp.as_ref().map(|time| time.0), &one.metadata.name));
    let read = |one: Configuration<'a>| {
        let mut claim = select(subject, one, pools, existing);
        match check(one.metadata, &claim.pools) {
            Ok(settings) => claim.settings = Some(settings),
            Err(why) => claim.refuse(why, existing),
        }
        claim
    };
    let mut claims: Vec<Claim<'a, S>> = live.into_iter().map(read).collect();
    name(subject, &mut claims, existing);
    claims
}

/// Finds the pools of one object.
fn select<'a, S: DeserializeOwned + Serialize>(
    subject: Subject,
    one: Configuration<'a>,
    pools: &'a [MachineConfigPool],
    existing: &Existing<'_>,
) -> Claim<'a, S> {
    let Configuration { metadata, selector } = one;
    let mut claim = Claim {
        metadata,
        selector,
        settings: None,
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

/// Gives every object its suffix: the one it has, or a new one that is free on all of its pools.
fn name<S: DeserializeOwned + Serialize>(subject: Subject, claims: &mut [Claim<'_, S>], existing: &Existing<'_>) {
    let names = existing.names();
    let mut given: Vec<Claimant> = Vec::new();
    // Those that have a suffix come first, so that nobody is given it a second time.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|index| Claimant::new(claims[*index].metadata, None).suffix.is_none());
    for index in order {
        let claim = &mut claims[index];
        if claim.pools.is_empty() {
            continue;
        }
        let mut claimant = Claimant::new(claim.metadata, claim.selector);
        match suffix(subject, &claim.pools, &claimant, &given, &names) {
            Ok(suffix) => {
                claimant.suffix = Some(suffix.clone());
                claim.suffix = Some(suffix);
                given.push(claimant);
            }
            Err(why) => claim.fail(format!("{}: {why}", subject.no_name)),
        }
    }
}

fn suffix(
    subject: Subject,
    pools: &[&MachineConfigPool],
    claimant: &Claimant,
    given: &[Claimant],
    existing: &BTreeSet<String>,
) -> Result<String, String> {
    let is_on = |one: &Claimant, pool: &MachineConfigPool| {
        one.pools.as_ref().is_some_and(|selector| selector.matches(&labels(pool)))
    };
    if let Some(suffix) = &claimant.suffix {
        if !suffix.is_empty() && suffix.parse::<u32>().is_err() {
            let error = names::Error::Suffix { of: claimant.name.clone(), suffix: suffix.clone() };
            return Err(error.to_string());
        }
        let rival = pools.iter().find_map(|pool| {
            let same = |one: &&Claimant| is_on(one, pool) && one.suffix.as_ref() == Some(suffix);
            given.iter().find(same).map(|one| (one, pool))
        });
        return match rival {
            None => Ok(suffix.clone()),
            Some((rival, pool)) => Err(format!(
                "annotation {} is {suffix:?}, which {} {} has on pool {:?} already; remove the annotation to get a free one",
                annotations::MC_NAME_SUFFIX,
                subject.kind,
                rival.name,
                pool.metadata.name.as_deref().unwrap_or_default()
            )),
        };
    }
    // A suffix is for all of its pools, so whoever shares any of them is a rival.
    let shares = |one: &&Claimant| pools.iter().any(|pool| is_on(one, pool));
    let as_rival = |one: &Claimant| Claimant { pools: claimant.pools.clone(), ..one.clone() };
    let rivals: Vec<Claimant> = given.iter().filter(shares).chain([claimant]).map(as_rival).collect();
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
pub(crate) fn update<S: DeserializeOwned + Serialize>(
    subject: Subject,
    claim: &Claim<'_, S>,
    existing: &Existing<'_>,
    status: Option<Value>,
    plan: &mut Plan,
) {
    let notes = claim.metadata.annotations.as_ref();
    let known = notes.and_then(|notes| notes.get(annotations::MC_NAME_SUFFIX));
    let suffix = claim.suffix.iter().filter(|suffix| known != Some(suffix));
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
    let (today, older) = (subject.names.plain(""), subject.names.older());
    // `99-<pool>-generated-<word>`, with anything for the pool.
    let today = today.trim_start_matches("99-");
    let is_ours = |finalizer: &String| {
        finalizer.starts_with("99-") && (finalizer.contains(today) || finalizer.ends_with(&older))
            || existing.get(finalizer).is_some()
    };
    finalizers.iter().cloned().partition(is_ours)
}

fn is_owner(live: &MachineConfig, metadata: &ObjectMeta) -> bool {
    let mut owners = live.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == metadata.uid.as_ref())
}
