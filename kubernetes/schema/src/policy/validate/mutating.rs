//! What mutating policies and their bindings must look like beyond what all policies must.

use cel::admission::{Admission, Gives};
use serde_json::Value;

use super::{check_about, check_bound, check_variables, list, recheck_conditions, text};
use crate::{error::FieldError, webhook::one_of};

/// Checks a MutatingAdmissionPolicy.
#[must_use]
pub fn validate_mutating(policy: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &policy["spec"];
    check_about(spec, &mut errors);
    check_operations(&spec["matchConstraints"], "spec.matchConstraints", &mut errors);
    recheck_conditions(spec, old, &mut errors);
    let mut seen = Admission::untyped(spec["paramKind"].is_object(), true);
    check_variables(&spec["variables"], &mut seen, &mut errors);
    let mutations = list(&spec["mutations"]);
    if mutations.is_empty() {
        errors.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (number, mutation) in mutations.iter().enumerate() {
        check_mutation(mutation, &seen, &format!("spec.mutations[{number}]"), &mut errors);
    }
    match text(&spec["reinvocationPolicy"]) {
        "" => errors.push(FieldError::required("spec.reinvocationPolicy", "")),
        _ => one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], "spec", &mut errors),
    }
    errors
}

/// Checks a MutatingAdmissionPolicyBinding.
#[must_use]
pub fn validate_mutating_binding(binding: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_bound(&binding["spec"], &mut errors);
    check_operations(&binding["spec"]["matchResources"], "spec.matchResources", &mut errors);
    errors
}

/// There is nothing to change about what is deleted.
fn check_operations(constraints: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let supported = ["*", "CONNECT", "CREATE", "UPDATE"].map(str::to_owned);
    for operation in list(&constraints["resourceRules"]).iter().flat_map(|rule| list(&rule["operations"])).map(text) {
        if !supported.iter().any(|own| own == operation) {
            errors.push(FieldError::not_supported(format!("{place}.resourceRules.operations"), operation, &supported));
        }
    }
}

fn check_mutation(mutation: &Value, seen: &Admission<'_>, place: &str, errors: &mut Vec<FieldError>) {
    const KINDS: [(&str, &str, Gives); 2] =
        [("ApplyConfiguration", "applyConfiguration", Gives::Object), ("JSONPatch", "jsonPatch", Gives::Operations)];
    let kind = text(&mutation["patchType"]);
    if kind.is_empty() {
        return errors.push(FieldError::required(format!("{place}.patchType"), ""));
    }
    if !KINDS.iter().any(|(own, ..)| *own == kind) {
        let supported = KINDS.map(|(own, ..)| own.to_owned());
        return errors.push(FieldError::not_supported(format!("{place}.patchType"), kind, &supported));
    }
    let (own, other): (Vec<_>, Vec<_>) = KINDS.into_iter().partition(|(own, ..)| *own == kind);
    for (_, field, gives) in own {
        let place = format!("{place}.{field}");
        if mutation[field].is_object() {
            check_expression(&mutation[field], gives, seen, &place, errors);
        } else {
            errors.push(FieldError::required(place, format!("must be specified when patchType is {kind}")));
        }
    }
    for (_, field, _) in other.into_iter().filter(|(_, field, _)| mutation[*field].is_object()) {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid(format!("{place}.{field}"), format!("{{{field}}}"), detail));
    }
}

fn check_expression(patch: &Value, gives: Gives, seen: &Admission<'_>, place: &str, errors: &mut Vec<FieldError>) {
    let place = format!("{place}.expression");
    let expression = text(&patch["expression"]).trim();
    if expression.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else if let Some(problem) = seen.judge(expression, gives, true) {
        errors.push(FieldError::of_expression(problem, place, expression));
    }
}
