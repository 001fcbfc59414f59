//! Validating admission policies: those in the store, asked about every write that nothing else refused.

use schema::policy::{Access, Decision};
use serde_json::{Value, json};

use crate::{
    auth::{Action, User},
    builtin::POLICIES,
    object::{Name, text},
    status::{Answer, Failure},
    verbs::Request,
};

const BINDINGS: &str = "admissionregistration.k8s.io/validatingadmissionpolicybindings";
const NONE: Value = Value::Null;

/// Refuses a write that a bound policy denies; a policy that only warns adds warnings.
pub(crate) fn check(
    request: &Request<'_>,
    operation: &str,
    name: &str,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Answer<()> {
    // Policies are never asked about policies: whoever locks themselves out must find the way back.
    if request.resource.group == "admissionregistration.k8s.io" {
        return Ok(());
    }
    let bindings = all(request, BINDINGS);
    if bindings.is_empty() {
        return Ok(());
    }
    let namespace = match request.namespace {
        "" => None,
        namespace => request.api.store.get("/namespaces", &Name::new("", namespace)).map(|found| found.value()),
    };
    let asked = asked(request, operation, name);
    for binding in &bindings {
        let wanted = Name::new("", text(&binding["spec"]["policyName"]));
        let Some(policy) = request.api.store.get(POLICIES, &wanted) else { continue };
        let policy = policy.value();
        let review = schema::policy::Review {
            object: new.unwrap_or(&NONE),
            old: old.unwrap_or(&NONE),
            request: &asked,
            namespace: namespace.as_ref().unwrap_or(&NONE),
            params: &NONE,
            decide: &|access| decide(request, access),
        };
        let selected = schema::policy::selects(&policy["spec"]["matchConstraints"], &review)
            && schema::policy::selects(&binding["spec"]["matchResources"], &review);
        if !selected {
            continue;
        }
        let params = params(request, &policy, binding);
        if params.is_empty() && binding["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow" {
            continue;
        }
        if params.is_empty() {
            let denial = schema::policy::Denial {
                message: "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
                reason: "Invalid".to_owned(),
            };
            apply(request, name, &policy, binding, &[denial])?;
        }
        for params in &params {
            let review = schema::policy::Review { params, ..review };
            let denials = crate::verbs::patiently(|| schema::policy::judge(&policy, &review));
            apply(request, name, &policy, binding, &denials)?;
        }
    }
    Ok(())
}

/// Answers what expressions ask about rights: those of the writer, or of a service account.
pub(super) fn decide(request: &Request<'_>, access: &Access) -> Decision {
    let account = access.account.as_ref().map(|(namespace, name)| User::service_account(namespace, name));
    let selected = access.selectors.iter().find(|(kind, _)| *kind == "field");
    let action = Action {
        verb: &access.verb,
        group: access.group.as_deref().unwrap_or_default(),
        resource: access.resource.as_deref().unwrap_or_default(),
        subresource: &access.subresource,
        namespace: &access.namespace,
        name: &access.name,
        path: access.path.as_deref().unwrap_or_default(),
        field_selector: selected.map_or("", |(_, text)| text),
    };
    let user = account.as_ref().unwrap_or(&request.call.user);
    let reason = request.api.access.reason(request.api, user, &action);
    Decision { allowed: reason.is_some(), reason: reason.unwrap_or_default(), error: String::new() }
}

fn all(request: &Request<'_>, collection: &str) -> Vec<Value> {
    let index = request.api.store.read();
    index
        .collection(collection)
        .map(|found| found.iter(None, None).map(|object| object.value()).collect())
        .unwrap_or_default()
}

/// The `request` that expressions see.
fn asked(request: &Request<'_>, operation: &str, name: &str) -> Value {
    let resource = request.resource;
    let kind = super::kind(request, resource);
    let place = json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let dry_run = request.call.query.all("dryRun").any(|run| run == "All");
    let mut asked = json!({
        "kind": kind, "requestKind": kind, "resource": place, "requestResource": place, "operation": operation,
        "userInfo": request.call.user.value(), "dryRun": dry_run, "options": super::webhooks::options(request, operation),
    });
    // What is empty is not there.
    for (field, text) in [
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
        ("name", name),
        ("namespace", request.namespace),
    ] {
        if !text.is_empty() {
            asked[field] = text.into();
        }
    }
    asked
}

/// The objects that a binding names or selects as its policy's parameters; null alone if the policy has none.
fn params(request: &Request<'_>, policy: &Value, binding: &Value) -> Vec<Value> {
    let (kind, reference) = (&policy["spec"]["paramKind"], &binding["spec"]["paramRef"]);
    if !kind.is_object() || !reference.is_object() {
        return vec![Value::Null];
    }
    let api_version = text(&kind["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = request.api.registry.load();
    let Some(resource) = registry.by_kind(group, version, text(&kind["kind"])) else { return Vec::new() };
    let namespace = match (resource.namespaced, text(&reference["namespace"])) {
        (false, _) => "",
        (true, "") => request.namespace,
        (true, named) => named,
    };
    if !reference["selector"].is_object() {
        let name = Name::new(namespace, text(&reference["name"]));
        return request.api.store.get(&resource.collection, &name).map(|found| found.value()).into_iter().collect();
    }
    let Ok(selector) = schema::selector::from_object(&reference["selector"]) else { return Vec::new() };
    let index = request.api.store.read();
    let Some(found) = index.collection(&resource.collection) else { return Vec::new() };
    let within = Some(namespace).filter(|_| resource.namespaced);
    let selected = found.iter(within, None).filter(|object| selector.matches_by(|key| object.labels.get(key)));
    selected.map(|object| object.value()).collect()
}

fn apply(
    request: &Request<'_>,
    name: &str,
    policy: &Value,
    binding: &Value,
    denials: &[schema::policy::Denial],
) -> Answer<()> {
    let does = |action: &str| {
        binding["spec"]["validationActions"].as_array().is_some_and(|actions| actions.iter().any(|own| own == action))
    };
    let (policy, binding_name) = (text(&policy["metadata"]["name"]), text(&binding["metadata"]["name"]));
    if does("Warn") {
        for denial in denials {
            request.call.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding_name}': {}",
                denial.message
            ));
        }
    }
    let Some(denial) = denials.first().filter(|_| does("Deny")) else { return Ok(()) };
    let message = format!(
        "ValidatingAdmissionPolicy '{policy}' with binding '{binding_name}' denied request: {}",
        denial.message
    );
    let mut failure = Failure::forbidden(request.resource, name, &message);
    if let Some(details) = &mut failure.details {
        details["causes"] = json!([{"message": message}]);
    }
    let (code, reason) = match denial.reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    (failure.code, failure.reason) = (code, reason.into());
    Err(failure)
}
