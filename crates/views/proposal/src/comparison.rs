//! Two configs of one pool, compared: what differs, and what that would do to a running node.

mod causes;
mod contents;
mod lines;

use std::collections::BTreeMap;

use api::labels::RENDERED_FOR;
use api::machineconfiguration::MachineConfig;
use api::names::RENDERED_PREFIX;
use change::content::Content;
use change::diff::{Diff, Kind};
use change::disruption::{Disruption, Reason, Subject};
use change::policy::Action;
use change::reconcilable::{Obstacle, obstacles};
use kube::ResourceExt as _;

use crate::inputs::{Inputs, Source};
use crate::pools;

pub use causes::causes;
pub use contents::{Shown, describe_directory, describe_file, describe_link, describe_unit, octal, owner, shown};
pub use lines::{Entry, Line, Tag, entries};

pub struct Comparison {
    pub pool: Option<String>,
    pub old: String,
    pub new: String,
    pub diff: Diff,
    pub obstacles: Vec<Obstacle>,
    pub disruption: Disruption,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot compare")]
    Unreadable(#[from] change::content::Error),
    #[error("{0}: no MachineConfig found")]
    Empty(String),
    #[error("no pool is on both sides: {0} has {1}; {2} has {3}")]
    NothingShared(String, String, String, String),
    #[error(transparent)]
    Refused(#[from] pools::Refused),
}

/// One of the two that are compared, and the name that its user gave it.
pub struct Side<'a> {
    pub name: String,
    pub inputs: &'a Inputs,
}

impl Comparison {
    /// Compares two configs under the policies of `inputs`.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn of(pool: Option<String>, old: &MachineConfig, new: &MachineConfig, inputs: &Inputs) -> Result<Self, Error> {
        let (before, after) = Content::read_both(old, new)?;
        let diff = Diff::between(&before, &after);
        let disruption = Disruption::of(&diff, &inputs.effective_policies());
        let obstacles = obstacles(&diff, &after, &inputs.settings, &inputs.allowances);
        Ok(Self { pool, old: old.name_any(), new: new.name_any(), diff, obstacles, disruption })
    }

    /// Pairs the configs of both sides by pool; two lone configs are a pair whatever their names.
    ///
    /// # Errors
    /// When a side has no config, or no pool is on both.
    pub fn of_sides(old: &Side<'_>, new: &Side<'_>, only: Option<&str>) -> Result<Vec<Self>, Error> {
        let (before, after) = (old.configs()?, new.configs()?);
        if let ([(one, old_config)], [(two, new_config)]) = (before.as_slice(), after.as_slice()) {
            let pool = (one == two).then(|| one.clone());
            return Ok(vec![Self::of(pool, old_config, new_config, new.inputs)?]);
        }
        let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (before.into_iter().collect(), after.into_iter().collect());
        let wanted = |pool: &&String| only.is_none_or(|only| only == *pool);
        let shared: Vec<_> = before.keys().filter(|pool| after.contains_key(*pool)).filter(wanted).collect();
        if shared.is_empty() {
            let list = |side: &BTreeMap<String, MachineConfig>| side.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(Error::NothingShared(old.name.clone(), list(&before), new.name.clone(), list(&after)));
        }
        let compared =
            shared.into_iter().map(|pool| Self::of(Some(pool.clone()), &before[pool], &after[pool], new.inputs));
        compared.collect()
    }

    /// What changes, in a few words each: files, units, everything else.
    #[must_use]
    pub fn subjects(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        fn said<T: PartialEq>(kind: &str, changes: &[change::diff::Change<T>]) -> Vec<String> {
            changes.iter().map(|change| format!("{} {kind}{}", verb(change.kind()), change.name)).collect()
        }
        let diff = &self.diff;
        let mut files = said("", &diff.files);
        files.extend(said("folder ", &diff.directories));
        files.extend(said("link ", &diff.links));
        let mut other = said("user ", &diff.users);
        let settings = [
            ("kernel arguments", diff.kernel_arguments.is_some()),
            ("kernel type", diff.kernel_type.is_some()),
            ("extensions", diff.extensions.is_some()),
            ("FIPS mode", diff.fips.is_some()),
            ("OS image", diff.os_image.is_some()),
            ("extensions image", diff.extensions_image.is_some()),
        ];
        other.extend(settings.iter().filter(|(_, changed)| *changed).map(|(name, _)| format!("changed {name}")));
        other.extend(diff.first_boot.iter().map(|section| format!("changed {}", section.as_str())));
        (files, said("", &diff.units), other)
    }
}

impl Side<'_> {
    /// The configs by pool: rendered ones as they are, fragments rendered.
    fn configs(&self) -> Result<Vec<(String, MachineConfig)>, Error> {
        let configs: Vec<_> = if self.inputs.rendered.is_empty() {
            let pools = pools::render_all(self.inputs, None)?;
            pools.into_iter().map(|pool| (pool.name, pool.rendered.machine_config)).collect()
        } else {
            self.inputs.rendered.iter().map(|source| (pool_of(source), source.config.clone())).collect()
        };
        if configs.is_empty() { Err(Error::Empty(self.name.clone())) } else { Ok(configs) }
    }
}

/// How an entry differs, as a word.
#[must_use]
pub fn verb(kind: Kind) -> &'static str {
    match kind {
        Kind::Added => "added",
        Kind::Removed => "removed",
        Kind::Updated => "changed",
    }
}

/// Why a change acts on a node as it does, in a few words.
#[must_use]
pub fn because(reason: &Reason) -> String {
    let actions: Vec<String> = reason.actions.iter().map(Action::to_string).collect();
    let actions = actions.join(", ");
    let policy = match (&reason.policy, &reason.subject) {
        (Some(policy), _) => format!(" (policy on {policy})"),
        (None, Subject::Path(_) | Subject::Unit(_)) => " (no policy covers it)".to_owned(),
        (None, _) => String::new(),
    };
    let note = reason.note.as_ref().map(|note| format!(", drain: {note}")).unwrap_or_default();
    format!("{actions}{policy}{note}")
}

/// The pool a rendered config is for: by its label, else by its name, as in `rendered-worker-0a1b`.
fn pool_of(source: &Source) -> String {
    if let Some(pool) = source.config.labels().get(RENDERED_FOR) {
        return pool.clone();
    }
    let name = &source.manifest.name;
    let name = name.strip_prefix(RENDERED_PREFIX).unwrap_or(name);
    name.rsplit_once('-').map_or(name, |(pool, _)| pool).to_owned()
}
