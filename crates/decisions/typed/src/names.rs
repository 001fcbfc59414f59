//! Names of generated MachineConfigs, and which suffix a KubeletConfig or ContainerRuntimeConfig gets on a pool.
//!
//! The first configuration of a pool makes `99-<pool>-generated-kubelet`, the next ones `…-1` to `…-9`. A suffix once given
//! stands in an annotation of the configuration and is kept; when the highest is taken, freed ones are given again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::selection::PoolSelector;

/// The highest suffix; with the plain name that makes ten on a pool.
const MOST: i64 = 9;

/// Every suffix that there is.
pub(crate) const SUFFIXES: [&str; 10] = ["", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// What a configuration is about, which is in the name of its MachineConfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Kubelet,
    Runtime,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Runtime => "containerruntime",
        }
    }

    /// The plain name on a pool.
    pub fn plain(self, pool: &str) -> String {
        format!("99-{pool}-generated-{}", self.word())
    }

    /// The name on a pool with a suffix, which may be empty.
    pub fn suffixed(self, pool: &str, suffix: &str) -> String {
        match suffix {
            "" => self.plain(pool),
            suffix => format!("{}-{suffix}", self.plain(pool)),
        }
    }

    /// The name that early releases gave, with the pool's uid in it.
    pub fn with_uid(self, pool: &str, uid: &str) -> String {
        format!("99-{pool}-{uid}{}", self.older())
    }

    /// How such a name ends.
    pub(crate) fn older(self) -> String {
        format!("-{}", self.word())
    }

    /// Whether a MachineConfig of this name was generated for a configuration of this kind.
    pub fn is_name(self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix("99-") else { return false };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let plain = rest.rsplit_once('-').filter(|(_, suffix)| is_number(suffix)).map_or(rest, |(plain, _)| plain);
        // The word stands at the end: a pool may be called anything, also like one of our names.
        plain.strip_suffix(&format!("-generated-{}", self.word())).is_some_and(|pool| !pool.is_empty())
    }
}

/// Feature gates of a pool's kubelets.
pub fn features(pool: &str) -> String {
    format!("98-{pool}-generated-kubelet")
}

/// The Node config of a pool.
pub fn node_config(pool: &str) -> String {
    format!("97-{pool}-generated-kubelet")
}

/// Registries, mirrors and image policies of a pool.
pub fn registries(pool: &str) -> String {
    format!("99-{pool}-generated-registries")
}

/// What naming has to know of a configuration.
#[derive(Clone, Debug)]
pub struct Claimant {
    pub name: String,
    /// The suffix it was given before, if any.
    pub suffix: Option<String>,
    /// `None` when the selector cannot be read: then it is on no pool.
    pub pools: Option<PoolSelector>,
    pub created: Option<Timestamp>,
    pub finalizers: Vec<String>,
}

impl Claimant {
    pub fn new(metadata: &ObjectMeta, selector: Option<&LabelSelector>) -> Self {
        let annotations = metadata.annotations.as_ref();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            suffix: annotations.and_then(|all| all.get(api::annotations::MC_NAME_SUFFIX)).cloned(),
            pools: PoolSelector::parse(selector).ok(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
        }
    }

    fn is_on(&self, pool: &Pool<'_>) -> bool {
        self.pools.as_ref().is_some_and(|selector| selector.matches(pool.labels))
    }
}

/// What naming has to know of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

/// The name of a generated MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub name: String,
    /// The MachineConfig of an early release that carries the content under another name; it goes once the new one exists.
    pub replaces: Option<String>,
}

/// Why a configuration gets no name on a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "max number of supported {} (10) has been reached. Please delete old {} before retrying",
        plural(*.0),
        plural_old(*.0)
    )]
    Limit(Kind),
    #[error(
        "error converting {suffix} to int: annotation machineconfiguration.openshift.io/mc-name-suffix of {of} must be empty or a number from 1 to 9, for example 1"
    )]
    Suffix { of: String, suffix: String },
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Kubelet => "kubelet config",
        Kind::Runtime => "ctrcfgs",
    }
}

fn plural_old(kind: Kind) -> &'static str {
    match kind {
        Kind::Kubelet => "kubelet configs",
        Kind::Runtime => "ctrcfgs",
    }
}

/// The name of the MachineConfig that `me` makes for `pool`, among all configurations of its kind and the MachineConfigs that
/// exist.
pub fn name_for(
    kind: Kind,
    pool: Pool<'_>,
    me: &Claimant,
    all: &[Claimant],
    existing: &BTreeSet<String>,
) -> Result<Name, Error> {
    let rivals: Vec<&Claimant> = all.iter().filter(|one| one.is_on(&pool)).collect();
    let plain = || plain_name(kind, pool, existing);
    let known = rivals.iter().find(|one| one.name == me.name).and_then(|one| one.suffix.as_deref());
    match known {
        Some("") => return Ok(plain()),
        Some(suffix) => return Ok(Name { name: kind.suffixed(pool.name, suffix), replaces: None }),
        None => {}
    }
    if all.is_empty() || rivals.len() == 1 {
        return Ok(plain());
    }
    if rivals.iter().any(|one| one.created > me.created)
        && let Some(name) = name_by_finalizer(kind, pool.name, &me.finalizers, existing)
    {
        return Ok(Name { name, replaces: None });
    }
    let suffix = next_suffix(kind, &rivals)?;
    Ok(Name { name: kind.suffixed(pool.name, &suffix), replaces: None })
}

fn plain_name(kind: Kind, pool: Pool<'_>, existing: &BTreeSet<String>) -> Name {
    let name = kind.plain(pool.name);
    let older = kind.with_uid(pool.name, pool.uid);
    let replaces = (!existing.contains(&name) && existing.contains(&older)).then_some(older);
    Name { name, replaces }
}

/// A configuration of before the annotation keeps the MachineConfig it already has: its finalizers name it.
fn name_by_finalizer(kind: Kind, pool: &str, finalizers: &[String], existing: &BTreeSet<String>) -> Option<String> {
    let plain = kind.plain(pool);
    let rank = |finalizer: &&String| -> Option<i64> {
        match finalizer.strip_prefix(&plain)? {
            "" => Some(0),
            rest => rest.strip_prefix('-')?.parse().ok(),
        }
    };
    let ours = finalizers.iter().filter(|finalizer| existing.contains(*finalizer));
    // The first of equal ones, as upstream finds it.
    let ranked = ours.filter_map(|finalizer| Some((rank(&finalizer)?, finalizer)));
    ranked.rev().max_by_key(|(rank, _)| *rank).map(|(_, finalizer)| finalizer.clone())
}

/// One above the highest, or the lowest free one when the highest is taken.
fn next_suffix(kind: Kind, rivals: &[&Claimant]) -> Result<String, Error> {
    let mut taken = BTreeSet::new();
    let has_plain = rivals.iter().any(|one| one.suffix.as_deref() == Some(""));
    for one in rivals {
        match one.suffix.as_deref() {
            None | Some("") => {}
            Some(suffix) => {
                let number: i64 =
                    suffix.parse().map_err(|_| Error::Suffix { of: one.name.clone(), suffix: suffix.to_owned() })?;
                taken.insert(number);
            }
        }
    }
    let next = taken.last().copied().unwrap_or_default().max(0).saturating_add(1);
    let free = || (1..=MOST).find(|number| !taken.contains(number));
    match Some(next).filter(|next| *next <= MOST).or_else(free) {
        Some(number) => Ok(number.to_string()),
        None if !has_plain => Ok(String::new()),
        None => Err(Error::Limit(kind)),
    }
}
