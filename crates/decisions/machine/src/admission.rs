//! Decides what of a Machine, MachineSet or MachineHealthCheck is let in, and what is filled in before.
//!
//! This is the half that does not depend on a provider: hooks, selectors, numbers, claims. What a provider's own spec must
//! look like is asked of its rules; [`skips_provider_checks`] says when that is left out.

mod control_plane;
mod copies;

use api::machine::{LifecycleHook, Machine, MachineHealthCheck, MachineSet};
use api::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::health::Check;
use crate::lifecycle::hook_list;
use crate::set::{labels_do_not_match, selector_problem, template_labels};

pub use control_plane::review_control_plane_set;
pub use copies::{Change, adoption_warning, export, settle_copy};

/// What is said about an object. It is let in if there is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// Each begins with the path of its field.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

impl Review {
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Reviews a Machine. `holder` is the Machine that holds the provider ID, if another one does.
pub fn review_machine(old: Option<&Machine>, new: &Machine, holder: Option<&str>) -> Review {
    let mut review = Review::default();
    let Some(old) = old else { return review };
    if new.metadata.deletion_timestamp.is_some() {
        let [before, after] = [old, new].map(|machine| machine.spec.lifecycle_hooks.clone().unwrap_or_default());
        review.errors.extend(changed_hooks("preDrain", "pre-drain", &before.pre_drain, &after.pre_drain));
        review.errors.extend(changed_hooks(
            "preTerminate",
            "pre-terminate",
            &before.pre_terminate,
            &after.pre_terminate,
        ));
    }
    if let Some(holder) = holder
        && old.spec.provider_id != new.spec.provider_id
    {
        let id = new.spec.provider_id.as_deref().unwrap_or_default();
        review.errors.push(format!("spec.providerID: Invalid value: {id:?}: machine {holder} holds this instance"));
    }
    review
}

/// Hooks of a Machine that is being deleted may go, but not come or change.
fn changed_hooks(field: &str, word: &str, before: &[LifecycleHook], after: &[LifecycleHook]) -> Option<String> {
    let changed: Vec<_> = after.iter().filter(|hook| !before.contains(hook)).cloned().collect();
    (!changed.is_empty()).then(|| {
        format!(
            "spec.lifecycleHooks.{field}: Forbidden: {word} hooks are immutable when machine is marked for deletion: the following hooks are new or changed: {}",
            hook_list(&changed)
        )
    })
}

/// Whether an update only takes the finalizers off a Machine that is being deleted. Its spec is then no longer looked at:
/// a Machine with a broken spec must be able to go.
pub fn skips_provider_checks(old: Option<&Machine>, new: &Machine) -> bool {
    let Some(old) = old else { return false };
    let finalizers = |machine: &Machine| machine.metadata.finalizers.clone().unwrap_or_default();
    new.metadata.deletion_timestamp.is_some()
        && !finalizers(old).is_empty()
        && finalizers(new).is_empty()
        && old.spec == new.spec
}

/// Reviews a MachineSet.
pub fn review_set(old: Option<&MachineSet>, new: &MachineSet) -> Review {
    let mut errors = Vec::new();
    let spec = &new.spec;
    let selector_of = |set: &MachineSet| normalized(set.spec.selector.clone().unwrap_or_default());
    if old.is_some_and(|old| selector_of(old) != selector_of(new)) {
        errors.push("spec.selector: Forbidden: selector is immutable".to_owned());
    }
    let selector = spec.selector.clone().unwrap_or_default();
    match Selector::parse(&selector) {
        Err(problem) => errors.push(selector_problem(&selector, &problem)),
        Ok(parsed) if parsed.is_empty() => {
            errors.push("spec.selector: Invalid value: {}: empty selector is not valid for MachineSet.".to_owned());
        }
        Ok(parsed) => {
            let labels = template_labels(new);
            if !parsed.matches(labels) {
                errors.push(labels_do_not_match(labels));
            }
        }
    }
    if let Some(replicas) = spec.replicas.filter(|replicas| *replicas < 0) {
        errors.push(format!("spec.replicas: Invalid value: {replicas}: must not be negative"));
    }
    let named = spec.template.as_ref().and_then(|template| template.spec.as_ref()?.provider_id.as_ref());
    let warning = named.filter(|id| !id.is_empty()).map(|id| {
        format!("spec.template.spec.providerID {id} is ignored: every machine of the set gets an instance of its own")
    });
    Review { errors, warnings: warning.into_iter().collect() }
}

/// A selector in which nothing and an empty list are the same.
fn normalized(mut selector: LabelSelector) -> LabelSelector {
    selector.match_labels = selector.match_labels.filter(|labels| !labels.is_empty());
    selector.match_expressions = selector.match_expressions.filter(|expressions| !expressions.is_empty());
    for expression in selector.match_expressions.iter_mut().flatten() {
        expression.values = expression.values.take().filter(|values| !values.is_empty());
    }
    selector
}

/// Reviews a MachineHealthCheck.
pub fn review_health_check(check: &MachineHealthCheck) -> Review {
    let errors = Check::from_object(check).err().map(|problem| problem.to_string());
    let empty = check.spec.unhealthy_conditions.is_empty() && check.spec.node_startup_timeout.as_deref() == Some("0");
    let warnings = empty.then(|| {
        "spec.unhealthyConditions: without conditions and with nodeStartupTimeout 0 only failed machines are replaced"
            .to_owned()
    });
    Review { errors: errors.into_iter().collect(), warnings: warnings.into_iter().collect() }
}
