//! Admission policies: which writes a policy is about, what its expressions say of one, and what they make of it.
//!
//! Which policies and bindings there are, and what happens to a denied write, is the caller's to know.

mod mutate;
mod types;
mod validate;

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

pub use cel::value::{Access, Decision};
use cel::{
    Around, Expression, budget, untyped,
    value::{Fault, Outcome, Value as Cel},
};
use serde_json::Value;

use crate::selector;

pub use mutate::{Change, mutate};
pub use types::{Kind, warnings};
pub use validate::{
    default, default_binding, validate, validate_binding, validate_mutating, validate_mutating_binding,
};

/// One write, as policies see it.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    /// Null for a deletion.
    pub object: &'a Value,
    /// Null for a creation.
    pub old: &'a Value,
    /// The `request` of expressions: operation, kind, resource, name, namespace, userInfo and the like.
    pub request: &'a Value,
    /// The namespace of the object; null for cluster-wide kinds.
    pub namespace: &'a Value,
    /// What the binding's parameters are; null if it has none.
    pub params: &'a Value,
    /// Answers what the writer, or a service account, may do.
    pub decide: &'a dyn Fn(&Access) -> Decision,
}

/// Why a policy does not let a write pass.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    pub message: String,
    /// The reason of the answer; `Invalid` unless the policy says otherwise.
    pub reason: String,
}

/// Whether `matchConstraints` (of a policy) or `matchResources` (of a binding) select the write. None selects all.
#[must_use]
pub fn selects(constraints: &Value, review: &Review<'_>) -> bool {
    if constraints.is_null() {
        return true;
    }
    let rules = |key: &str| constraints[key].as_array().map_or(&[][..], Vec::as_slice);
    let included = rules("resourceRules").is_empty() || rules("resourceRules").iter().any(|rule| about(rule, review));
    let excluded = rules("excludeResourceRules").iter().any(|rule| about(rule, review));
    let labelled = |selector: &Value, objects: &[&Value]| {
        if selector.is_null() {
            return true;
        }
        let Ok(selector) = selector::from_object(selector) else { return false };
        objects.iter().any(|object| selector.matches(object["metadata"]["labels"].as_object()))
    };
    let objects: Vec<&Value> = [review.object, review.old].into_iter().filter(|object| object.is_object()).collect();
    let in_namespace = review.namespace.is_null() || labelled(&constraints["namespaceSelector"], &[review.namespace]);
    included && !excluded && in_namespace && labelled(&constraints["objectSelector"], &objects)
}

fn about(rule: &Value, review: &Review<'_>) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or("").to_string();
    let has = |key: &str, wanted: &str| {
        let list = rule[key].as_array().map_or(&[][..], Vec::as_slice);
        list.iter().any(|own| own == "*" || own == wanted)
    };
    let (request, resource) = (review.request, &review.request["resource"]);
    let (plural, sub) = (text(&resource["resource"]), text(&request["subResource"]));
    let named =
        rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str).any(|pattern| {
            match pattern.split_once('/') {
                None => sub.is_empty() && (pattern == "*" || pattern == plural),
                Some((own, own_sub)) => (own == "*" || own == plural) && (own_sub == "*" || own_sub == sub),
            }
        });
    let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => review.namespace.is_object() && plural != "namespaces",
        Some("Cluster") => review.namespace.is_null() || plural == "namespaces",
        _ => true,
    };
    has("operations", &text(&request["operation"]))
        && has("apiGroups", &text(&resource["group"]))
        && has("apiVersions", &text(&resource["version"]))
        && named
        && names.is_none_or(|names| names.contains(&request["name"]))
        && scope
}

/// Whether a write meets all the conditions of a webhook or policy. One that is not met outweighs one that cannot be
/// evaluated.
///
/// # Errors
/// A condition cannot be evaluated, and none says no.
pub fn conditions(conditions: &Value, review: &Review<'_>) -> Result<bool, String> {
    // Conditions never see the namespace.
    let review = Review { namespace: &Value::Null, ..*review };
    let run = Run::new(&review, &Value::Null);
    let mut failed: Vec<String> = Vec::new();
    budget::begin_object();
    for condition in conditions.as_array().into_iter().flatten() {
        match run.evaluate(&condition["expression"]) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(error) => {
                let expression = plain(&condition["expression"]);
                let text = format!("expression '{expression}' resulted in error: {error}");
                if !failed.contains(&text) {
                    failed.push(text);
                }
            }
        }
    }
    match failed.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        _ => Err(format!("[{}]", failed.join(", "))),
    }
}

/// What a policy has against a write that it selects.
#[must_use]
pub fn judge(policy: &Value, review: &Review<'_>) -> Vec<Denial> {
    let spec = &policy["spec"];
    let lenient = spec["failurePolicy"] == "Ignore";
    match conditions(&spec["matchConditions"], review) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(_) if lenient => return Vec::new(),
        Err(message) => return vec![Denial { message, reason: "Invalid".to_string() }],
    }
    budget::begin_object();
    let run = Run::new(review, &spec["variables"]);
    let mut denials = Vec::new();
    for validation in spec["validations"].as_array().into_iter().flatten() {
        let expression = plain(&validation["expression"]);
        let message = match run.evaluate(&validation["expression"]) {
            Ok(Cel::Bool(true)) => continue,
            Ok(_) => run.message(validation).unwrap_or_else(|| format!("failed expression: {}", expression.trim())),
            Err(_) if lenient => continue,
            Err(error) => format!("expression '{expression}' resulted in error: {error}"),
        };
        let reason = validation["reason"].as_str().filter(|reason| !reason.is_empty()).unwrap_or("Invalid");
        denials.push(Denial { message, reason: reason.to_string() });
    }
    denials
}

/// How many expressions are kept for the next write; reading one takes longer than most take to run.
const KEPT: usize = 512;

thread_local! {
    static PARSED: RefCell<HashMap<String, Rc<Expression>>> = RefCell::default();
}

fn parsed(expression: &Value) -> Result<Rc<Expression>, Fault> {
    let text = plain(expression);
    if let Some(known) = PARSED.with(|known| known.borrow().get(text).cloned()) {
        return Ok(known);
    }
    let read = Rc::new(Expression::parse(text).map_err(Fault::Said)?);
    PARSED.with(|known| {
        let mut known = known.borrow_mut();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(text.to_owned(), Rc::clone(&read));
    });
    Ok(read)
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

struct Run<'a> {
    review: &'a Review<'a>,
    object: Cel,
    old: Cel,
    request: Cel,
    namespace: Cel,
    params: Cel,
    known: &'a Value,
    /// Messages are made without asking for rights.
    asks: bool,
    /// Variables evaluated so far; each is evaluated when an expression first needs it.
    variables: RefCell<HashMap<String, Outcome>>,
}

impl Run<'_> {
    fn new<'a>(review: &'a Review<'a>, known: &'a Value) -> Run<'a> {
        Run {
            review,
            object: untyped(review.object),
            old: untyped(review.old),
            request: untyped(review.request),
            namespace: untyped(review.namespace),
            params: untyped(review.params),
            known,
            asks: true,
            variables: RefCell::default(),
        }
    }

    /// What expressions of messages see: nothing that was found out before.
    fn for_messages(&self) -> Run<'_> {
        Run {
            review: self.review,
            object: self.object.clone(),
            old: self.old.clone(),
            request: self.request.clone(),
            namespace: self.namespace.clone(),
            params: self.params.clone(),
            known: self.known,
            asks: false,
            variables: RefCell::default(),
        }
    }

    fn message(&self, validation: &Value) -> Option<String> {
        let spoken = match &validation["messageExpression"] {
            Value::String(_) => match self.for_messages().evaluate(&validation["messageExpression"]) {
                Ok(Cel::Text(text)) => Some(text.trim().to_string()),
                _ => None,
            },
            _ => None,
        };
        let spoken = spoken.filter(|text| !text.is_empty() && !text.contains('\n'));
        spoken.or_else(|| validation["message"].as_str().map(|text| text.trim().to_string()))
    }

    fn evaluate(&self, expression: &Value) -> Outcome {
        if !budget::begin_rule() {
            return Err(Fault::Spent);
        }
        let outcome = parsed(expression).and_then(|parsed| parsed.run(self));
        budget::end_rule();
        outcome
    }

    fn access(&self) -> Access {
        let request = self.review.request;
        let resource = &request["resource"];
        let text = |value: &Value| plain(value).to_owned();
        Access {
            group: Some(text(&resource["group"])),
            resource: Some(text(&resource["resource"])),
            subresource: text(&request["subResource"]),
            namespace: text(&request["namespace"]),
            name: text(&request["name"]),
            ..Access::default()
        }
    }
}

impl Around for Run<'_> {
    fn variable(&self, name: &str) -> Option<Outcome> {
        Some(Ok(match name {
            "object" => self.object.clone(),
            "oldObject" => self.old.clone(),
            "request" => self.request.clone(),
            "namespaceObject" => self.namespace.clone(),
            "params" => self.params.clone(),
            "authorizer" if self.asks => Cel::Access(Arc::new(Access::default())),
            "authorizer.requestResource" if self.asks => Cel::Access(Arc::new(self.access())),
            _ => return None,
        }))
    }

    fn composed(&self, name: &str) -> Option<Outcome> {
        if let Some(known) = self.variables.borrow().get(name) {
            return Some(known.clone());
        }
        let variable = self.known.as_array()?.iter().find(|variable| variable["name"] == name)?;
        // One that needs itself finds this.
        let unknown = Fault::Said(format!("no such key: {name}"));
        self.variables.borrow_mut().insert(name.to_owned(), Err(unknown));
        let outcome =
            parsed(&variable["expression"]).and_then(|parsed| parsed.run(self)).map_err(|fault| match fault {
                Fault::Said(why) => Fault::Said(format!("composited variable {name:?} fails to evaluate: {why}")),
                Fault::Spent => Fault::Spent,
            });
        self.variables.borrow_mut().insert(name.to_owned(), outcome.clone());
        Some(outcome)
    }

    fn decide(&self, access: &Access) -> Decision {
        (self.review.decide)(access)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(operation: &str, resource: &str) -> Value {
        json!({"operation": operation, "name": "a", "subResource": "",
            "resource": {"group": "", "version": "v1", "resource": resource}, "userInfo": {"groups": ["system:nodes"]}})
    }

    #[track_caller]
    fn check(spec: Value, object: Value, expected: &[(&str, &str)]) {
        let request = request("CREATE", "configmaps");
        let review = Review {
            object: &object,
            old: &Value::Null,
            request: &request,
            namespace: &Value::Null,
            params: &Value::Null,
            decide: &|_| Decision::default(),
        };
        let denials = judge(&json!({"spec": spec}), &review);
        let shown: Vec<_> = denials.iter().map(|denial| (denial.message.as_str(), denial.reason.as_str())).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_policy_says_what_it_has_against_a_write() {
        let spec = json!({"variables": [{"name": "d", "expression": "has(object.data) ? object.data : {}"}], "validations": [
            {"expression": "!('bad' in variables.d)", "message": "no bad", "reason": "Forbidden"},
            {"expression": "!('odd' in variables.d)"},
            {"expression": "'x' in variables.d", "messageExpression": "'said ' + object.name"},
        ]});
        check(spec.clone(), json!({"name": "n", "data": {"x": "1"}}), &[]);
        check(
            spec,
            json!({"name": "n", "data": {"bad": "1", "odd": "1"}}),
            &[
                ("no bad", "Forbidden"),
                ("failed expression: !('odd' in variables.d)", "Invalid"),
                ("said n", "Invalid"),
            ],
        );
    }

    #[test]
    fn errors_count_as_the_policy_says() {
        let mut spec = json!({"validations": [{"expression": "object.none == 'x'"}]});
        let error = "expression 'object.none == 'x'' resulted in error: no such key: none";
        check(spec.clone(), json!({}), &[(error, "Invalid")]);
        spec["failurePolicy"] = "Ignore".into();
        check(spec, json!({}), &[]);
    }

    #[test]
    fn conditions_come_first() {
        let spec = json!({"matchConditions": [{"name": "c", "expression": "'system:nodes' in request.userInfo.groups && has(object.x)"}],
            "validations": [{"expression": "false"}]});
        check(spec.clone(), json!({}), &[]);
        check(spec, json!({"x": 1}), &[("failed expression: false", "Invalid")]);
    }

    #[test]
    fn rules_select_by_operation_resource_and_labels() {
        let rule = json!({"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps", "pods/*"]});
        let constraints = json!({"resourceRules": [rule], "objectSelector": {"matchLabels": {"a": "b"}}});
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let selected = |operation: &str, resource: &str, object: &Value| {
            let request = request(operation, resource);
            let none = Value::Null;
            let review = Review {
                object,
                old: &none,
                request: &request,
                namespace: &none,
                params: &none,
                decide: &|_| Decision::default(),
            };
            selects(&constraints, &review)
        };
        assert!(selected("CREATE", "configmaps", &object));
        assert!(!selected("UPDATE", "configmaps", &object));
        assert!(!selected("CREATE", "secrets", &object));
        assert!(selected("CREATE", "pods", &object), "with its subresources");
        assert!(!selected("CREATE", "configmaps", &json!({"metadata": {}})));
    }
}
