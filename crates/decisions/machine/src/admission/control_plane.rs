//! What of a ControlPlaneMachineSet is let in. What the schema says by itself (values, what may not change) is not repeated.

use api::machine::ControlPlaneMachineSet;
use api::selector::Selector;

use super::Review;
use crate::control_plane_set::{self, NAME};
use crate::set::{labels_do_not_match, selector_problem};

const TEMPLATE: &str = "spec.template.machines_v1beta1_machine_openshift_io";

/// Reviews a ControlPlaneMachineSet: what would leave it degraded, or without the machines that it is for, is refused.
pub fn review_control_plane_set(new: &ControlPlaneMachineSet) -> Review {
    let mut errors = Vec::new();
    let name = new.metadata.name.as_deref().unwrap_or_default();
    if name != NAME {
        errors.push(format!(
            "metadata.name: Invalid value: {name:?}: a control plane has one set, and it is called {NAME:?}"
        ));
    }
    let Some(template) = &new.spec.template.machines else {
        errors.push(format!("{TEMPLATE}: Required value: without it no machine can be made"));
        return Review { errors, warnings: Vec::new() };
    };
    match Selector::parse(&new.spec.selector) {
        Err(problem) => errors.push(selector_problem(&new.spec.selector, &problem)),
        Ok(parsed) if parsed.is_empty() => {
            errors.push("spec.selector: Invalid value: {}: an empty selector would select every machine".to_owned());
        }
        Ok(parsed) if !parsed.matches(&template.metadata.labels) => {
            let problem = labels_do_not_match(&template.metadata.labels);
            errors.push(problem.replacen("spec.template", TEMPLATE, 1));
        }
        Ok(_) => {}
    }
    errors.extend(control_plane_set::provider_specs(new).err().map(|problem| problem.to_string()));
    let named = template.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty());
    let warning = named
        .map(|id| format!("{TEMPLATE}.spec.providerID {id} is ignored: every machine gets an instance of its own"));
    Review { errors, warnings: warning.into_iter().collect() }
}
