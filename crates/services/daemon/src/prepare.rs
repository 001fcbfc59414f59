//! Looks at an update before its first write: can this host do it, what does it disrupt, must the node be drained.

use api::machineconfiguration::MachineConfig;
use change::content::Content;
use change::diff::Diff;
use change::disruption::Disruption;
use change::host::Host;
use change::policy::Action;
use change::reconcilable::reconcilable;
use change::step::Step;

use crate::cluster_policy::ClusterPolicy;
use crate::engine::{self, Engine, Prepared};
use crate::journal::PostAction;
use crate::verify::{self, Mismatch};
use crate::{adoption, store, trial};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("can't reconcile config {from} with {to}: {source}")]
    Unreconcilable { from: String, to: String, source: change::reconcilable::NotReconcilable },
    #[error("{0}")]
    Content(change::content::Error),
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{0}")]
    Drift(String),
}

impl Error {
    /// The word for the node's state.
    pub fn state(&self) -> &'static str {
        match self {
            Error::Unreconcilable { .. } | Error::Engine(engine::Error::Refused { .. }) => {
                api::names::state::UNRECONCILABLE
            }
            _ => api::names::state::DEGRADED,
        }
    }
}

/// An update that may begin, after a drain where one is needed.
#[derive(Clone, Debug)]
pub struct Ready {
    pub from: String,
    pub prepared: Prepared,
    pub drain: bool,
}

pub fn prepare(host: &dyn Host, to: MachineConfig, policy: &ClusterPolicy, forced: bool) -> Result<Ready, Error> {
    let engine = Engine::new(host);
    let from = engine.store().current()?.unwrap_or_default();
    let (old, new) = Content::read_both(&from, &to).map_err(Error::Content)?;
    let diff = Diff::between(&old, &new);
    let names = (engine::name(&from), engine::name(&to));
    // A host that never had a config takes its first one as it is.
    if !names.0.is_empty() {
        let allowed = reconcilable(&diff, &new, (&names.0, &names.1), &policy.settings, &policy.allowances);
        allowed.map_err(|source| Error::Unreconcilable { from: names.0.clone(), to: names.1.clone(), source })?;
    }
    let (old, new) = (engine::check(&old, &names.0)?, engine::check(&new, &names.1)?);
    let mut steps = engine.plan(&old, &new)?;
    let diff = if names.0.is_empty() { adoption::difference(host, diff, &new) } else { diff };
    if names.0.is_empty() && !forced {
        steps = adoption::steps(steps, &diff);
    }
    let mismatches = if forced { Vec::new() } else { verify::verify(host, &old) };
    let blocking: Vec<Mismatch> = mismatches.into_iter().filter(|mismatch| !is_mended(mismatch, &steps)).collect();
    if !blocking.is_empty() && !policy.repairs_drift() {
        return Err(Error::Drift(verify::sentence(&names.0, &blocking)));
    }
    if forced || !blocking.is_empty() {
        steps = everything(&new, steps);
    }
    let disruption = if forced { Disruption::forced() } else { Disruption::of(&diff, &policy.policies) };
    let runtime = &policy.settings.runtime_service;
    let actions: Vec<PostAction> =
        disruption.actions.iter().filter_map(|action: &Action| PostAction::of(action, runtime)).collect();
    let risk = change::risk::of(&steps, &disruption.actions);
    let trial = if names.0.is_empty() { None } else { trial::plan(policy, risk, &new) };
    Ok(Ready { from: names.0, drain: disruption.drain, prepared: Prepared { from, to, steps, actions, trial } })
}

/// Whether the update itself puts this mismatch right, so that it must not stand in the update's way.
fn is_mended(mismatch: &Mismatch, steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::MakeFolder { path } | Step::WriteFile { path } | Step::WriteLink { path } | Step::PutBack { path } => {
            path.as_str() == mismatch.subject
        }
        Step::WriteUnit { unit } | Step::MaskUnit { unit } => {
            mismatch.subject == *unit || mismatch.subject.ends_with(&format!("/{unit}"))
        }
        Step::EnableUnit { unit } | Step::DisableUnit { unit } | Step::PutBackEnablement { unit } => {
            mismatch.subject == *unit
        }
        Step::WriteDropin { unit, name } => mismatch.subject.ends_with(&format!("/{unit}.d/{name}")),
        Step::SetKeys { user } | Step::SetPassword { user } => mismatch.subject == *user,
        Step::StageImage { .. } => mismatch.subject == "osImageURL",
        Step::KernelArguments { .. } => mismatch.subject == "kernelArguments",
        Step::Packages { .. } => mismatch.subject == "extensions",
        Step::Keep { .. }
        | Step::KeepEnablement { .. }
        | Step::StopUnit { .. }
        | Step::DaemonReload
        | Step::PresetUnit { .. } => false,
    })
}

/// The steps, with every entry of the config among them. What is right on disk is still not written again.
pub(crate) fn everything(target: &change::target::Target, steps: Vec<Step>) -> Vec<Step> {
    let from_nothing = change::plan::plan(&change::target::Target::default(), target);
    let is_new = |step: &Step| !steps.contains(step);
    let writes = |step: &Step| {
        !matches!(
            step,
            Step::Keep { .. }
                | Step::KeepEnablement { .. }
                | Step::StageImage { .. }
                | Step::KernelArguments { .. }
                | Step::Packages { .. }
        )
    };
    let added: Vec<Step> = from_nothing.into_iter().filter(|step| writes(step) && is_new(step)).collect();
    // Originals are kept first and the operating system comes last, as in every plan.
    let keeps = steps.iter().take_while(|step| matches!(step, Step::Keep { .. } | Step::KeepEnablement { .. })).count();
    let mut all = steps;
    let rest = all.split_off(keeps);
    all.extend(added);
    all.extend(rest);
    all
}
