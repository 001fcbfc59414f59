//! What admission policies and their bindings must look like.

mod mutating;

use cel::admission::{Admission, Gives};
use serde_json::Value;

use crate::{
    error::FieldError,
    names,
    webhook::{check_conditions, check_rule, check_selector, one_of},
};

pub use mutating::{validate_mutating, validate_mutating_binding};

const MOST_ANNOTATIONS: usize = 20;
/// How many bytes the expression of an annotation may have.
const LONGEST_VALUE: usize = 5 * 1024;

/// Fills in what a policy leaves out.
pub fn default(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else { return };
    set(spec, "failurePolicy", "Fail".into());
    default_match(spec.get_mut("matchConstraints"));
}

/// Fills in what a binding leaves out.
pub fn default_binding(binding: &mut Value) {
    default_match(binding.pointer_mut("/spec/matchResources"));
}

fn default_match(constraints: Option<&mut Value>) {
    let Some(constraints) = constraints.filter(|constraints| constraints.is_object()) else { return };
    set(constraints, "matchPolicy", "Equivalent".into());
    for selector in ["namespaceSelector", "objectSelector"] {
        set(constraints, selector, Value::Object(serde_json::Map::new()));
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints.get_mut(rules).and_then(Value::as_array_mut).into_iter().flatten() {
            set(rule, "scope", "*".into());
        }
    }
}

fn set(parent: &mut Value, field: &str, value: Value) {
    if let Some(object) = parent.as_object_mut()
        && object.get(field).is_none_or(Value::is_null)
    {
        object.insert(field.to_owned(), value);
    }
}

/// Checks a ValidatingAdmissionPolicy.
#[must_use]
pub fn validate(policy: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &policy["spec"];
    check_about(spec, &mut errors);
    recheck_conditions(spec, old, &mut errors);
    check_expressions(policy, &mut errors);
    errors
}

/// Checks what a policy is about, and what happens if it fails.
fn check_about(spec: &Value, errors: &mut Vec<FieldError>) {
    match spec["failurePolicy"].as_str() {
        None => errors.push(FieldError::required("spec.failurePolicy", "")),
        Some(_) => one_of(spec, "failurePolicy", &["Fail", "Ignore"], "spec", errors),
    }
    if spec["paramKind"].is_object() {
        check_param_kind(&spec["paramKind"], errors);
    }
    let constraints = &spec["matchConstraints"];
    if constraints.is_object() {
        check_match(constraints, "spec.matchConstraints", errors);
        if list(&constraints["resourceRules"]).is_empty() {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
    } else {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    }
}

/// Conditions that passed once are not looked at again while nothing changes that they see.
fn recheck_conditions(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let same = |old: &Value, field: &str| old["spec"][field] == spec[field];
    if !old.is_some_and(|old| same(old, "paramKind") && same(old, "matchConditions")) {
        check_conditions(&spec["matchConditions"], spec["paramKind"].is_object(), "spec.matchConditions", errors);
    }
}

/// Checks variables, and makes them known to what follows.
fn check_variables(variables: &Value, seen: &mut Admission<'_>, errors: &mut Vec<FieldError>) {
    for (number, variable) in list(variables).iter().enumerate() {
        let at = |field: &str| format!("spec.variables[{number}].{field}");
        let (name, expression) = (text(&variable["name"]), text(&variable["expression"]));
        if name.trim().is_empty() {
            errors.push(FieldError::required(at("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(at("name"), name, "must be a valid CEL identifier"));
        }
        if expression.trim().is_empty() {
            errors.push(FieldError::required(at("expression"), "expression is not specified"));
        } else if let Some(problem) = seen.add(name, expression) {
            errors.push(FieldError::of_expression(problem, at("expression"), expression));
        }
    }
}

fn check_expressions(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = &policy["spec"];
    let mut seen = Admission::untyped(spec["paramKind"].is_object(), !list(&spec["variables"]).is_empty());
    check_variables(&spec["variables"], &mut seen, errors);
    let (validations, annotations) = (list(&spec["validations"]), list(&spec["auditAnnotations"]));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", detail));
        errors.push(FieldError::required("spec.auditAnnotations", detail));
        return;
    }
    for (number, validation) in validations.iter().enumerate() {
        check_validation(validation, &seen, &format!("spec.validations[{number}]"), errors);
    }
    if annotations.len() > MOST_ANNOTATIONS {
        let detail = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid("spec.auditAnnotations", spec["auditAnnotations"].clone(), detail));
    }
    let mut keys = Vec::new();
    for (number, annotation) in annotations.iter().enumerate() {
        let place = format!("spec.auditAnnotations[{number}]");
        check_annotation(annotation, text(&policy["metadata"]["name"]), &seen, &place, errors);
        let key = text(&annotation["key"]);
        if keys.contains(&key) {
            errors.push(FieldError::duplicate(format!("{place}.key"), key));
        }
        keys.push(key);
    }
}

fn check_validation(validation: &Value, seen: &Admission<'_>, place: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{place}.{field}");
    let expression = text(&validation["expression"]);
    if expression.trim().is_empty() {
        errors.push(FieldError::required(at("expression"), "expression is not specified"));
    } else if let Some(problem) = seen.judge(expression, Gives::Truth, true) {
        errors.push(FieldError::of_expression(problem, at("expression"), expression));
    }
    let spoken = text(&validation["messageExpression"]);
    if !spoken.is_empty() && spoken.trim().is_empty() {
        errors.push(FieldError::invalid(at("messageExpression"), spoken, "must be non-empty if specified"));
    } else if !spoken.is_empty()
        && let Some(problem) = seen.judge(spoken, Gives::Text, false)
    {
        errors.push(FieldError::of_expression(problem, at("messageExpression"), spoken));
    }
    let message = text(&validation["message"]);
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(at("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(at("message"), message, "must not contain line breaks"));
    }
    one_of(validation, "reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"], place, errors);
}

fn check_annotation(annotation: &Value, policy: &str, seen: &Admission<'_>, place: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{place}.{field}");
    let (key, value) = (text(&annotation["key"]), text(&annotation["valueExpression"]));
    if policy.is_empty() {
        errors.push(FieldError::invalid(at("key"), key, "requires metadata.name be non-empty"));
    } else {
        let whole = format!("{policy}/{key}");
        for problem in names::is_qualified_name(&whole) {
            errors.push(FieldError::invalid(at("key"), whole.as_str(), problem));
        }
    }
    let trimmed = value.trim();
    if trimmed.is_empty() {
        errors.push(FieldError::required(at("valueExpression"), "valueExpression is not specified"));
    } else if trimmed.len() > LONGEST_VALUE {
        let detail = format!("must not exceed {LONGEST_VALUE} bytes in length");
        errors.push(FieldError::required(at("valueExpression"), detail));
    } else if let Some(problem) = seen.judge(trimmed, Gives::TextOrNull, true) {
        errors.push(FieldError::of_expression(problem, at("valueExpression"), value));
    }
}

fn check_param_kind(kind: &Value, errors: &mut Vec<FieldError>) {
    const VERSION: &str = "spec.paramKind.apiVersion";
    const KIND: &str = "spec.paramKind.kind";
    let (version, name) = (text(&kind["apiVersion"]), text(&kind["kind"]));
    if version.is_empty() {
        errors.push(FieldError::required(VERSION, ""));
    } else if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(VERSION, version, detail));
    } else {
        let (group, own) = version.split_once('/').unwrap_or(("", version));
        let problems = names::is_subdomain(group);
        if !group.is_empty() && !problems.is_empty() {
            errors.push(FieldError::invalid(VERSION, group, problems.join(",")));
        }
        let problems = names::is_label_1035(own);
        if own.is_empty() {
            errors.push(FieldError::invalid(VERSION, version, "version must be specified"));
        } else if !problems.is_empty() {
            errors.push(FieldError::invalid(VERSION, own, problems.join(",")));
        }
    }
    let problems = names::is_label_1035(&name.to_lowercase());
    if name.is_empty() {
        errors.push(FieldError::required(KIND, ""));
    } else if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.push(FieldError::invalid(KIND, name, detail));
    }
}

fn check_match(constraints: &Value, place: &str, errors: &mut Vec<FieldError>) {
    match constraints["matchPolicy"].as_str() {
        None => errors.push(FieldError::required(format!("{place}.matchPolicy"), "")),
        Some(_) => one_of(constraints, "matchPolicy", &["Equivalent", "Exact"], place, errors),
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        check_selector(&constraints[selector], &format!("{place}.{selector}"), errors);
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for (number, rule) in list(&constraints[rules]).iter().enumerate() {
            let place = format!("{place}.{rules}[{number}]");
            let mut known = Vec::new();
            for (position, name) in list(&rule["resourceNames"]).iter().map(text).enumerate() {
                let place = format!("{place}.resourceNames[{position}]");
                for problem in names::is_path_segment(name, false) {
                    errors.push(FieldError::invalid(place.as_str(), name, problem));
                }
                if known.contains(&name) {
                    errors.push(FieldError::duplicate(place, name));
                }
                known.push(name);
            }
            check_rule(rule, &place, errors);
        }
    }
}

/// Checks a ValidatingAdmissionPolicyBinding.
#[must_use]
pub fn validate_binding(binding: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_bound(&binding["spec"], &mut errors);
    check_actions(&binding["spec"]["validationActions"], &mut errors);
    errors
}

/// Checks which policy is bound, with which parameters, and to what.
fn check_bound(spec: &Value, errors: &mut Vec<FieldError>) {
    let policy = text(&spec["policyName"]);
    if policy.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        for problem in names::is_subdomain(policy) {
            errors.push(FieldError::invalid("spec.policyName", policy, problem));
        }
    }
    if spec["paramRef"].is_object() {
        check_param_ref(&spec["paramRef"], errors);
    }
    if spec["matchResources"].is_object() {
        check_match(&spec["matchResources"], "spec.matchResources", errors);
    }
}

fn check_param_ref(reference: &Value, errors: &mut Vec<FieldError>) {
    const PLACE: &str = "spec.paramRef";
    let at = |field: &str| format!("{PLACE}.{field}");
    let name = text(&reference["name"]);
    let selects = reference["selector"].is_object();
    if !name.is_empty() {
        for problem in names::is_path_segment(name, false) {
            errors.push(FieldError::invalid(at("name"), name, problem));
        }
    }
    let both = !name.is_empty() && selects;
    if both {
        errors.push(FieldError::forbidden(at("name"), "name and selector are mutually exclusive"));
    }
    if selects {
        check_selector(&reference["selector"], &at("selector"), errors);
    }
    if both {
        errors.push(FieldError::forbidden(at("selector"), "name and selector are mutually exclusive"));
    }
    if name.is_empty() && !selects {
        errors.push(FieldError::required(PLACE, "one of name or selector must be specified"));
    }
    match text(&reference["parameterNotFoundAction"]) {
        "" => errors.push(FieldError::required(at("parameterNotFoundAction"), "")),
        _ => one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], PLACE, errors),
    }
}

fn check_actions(actions: &Value, errors: &mut Vec<FieldError>) {
    const PLACE: &str = "spec.validationActions";
    let supported = ["Audit", "Deny", "Warn"].map(str::to_owned);
    let mut known = Vec::new();
    for (number, action) in list(actions).iter().map(text).enumerate() {
        let place = format!("{PLACE}[{number}]");
        if !supported.iter().any(|own| own == action) {
            errors.push(FieldError::not_supported(place.as_str(), action, &supported));
        }
        if known.contains(&action) {
            errors.push(FieldError::duplicate(place, action));
        }
        known.push(action);
    }
    if known.contains(&"Deny") && known.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(PLACE, actions.clone(), detail));
    }
    if known.is_empty() {
        errors.push(FieldError::required(PLACE, "at least one validation action is required"));
    }
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && letters.all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
        && !cel::is_reserved(name)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
