//! Admission policies: those in the store, and which of them are bound to a write; the validating ones are asked about
//! every write that nothing else refused.

use std::{collections::BTreeMap, sync::Arc};

use builtin::{BINDINGS, POLICIES};
use schema::policy::{Access, Decision, Denial, Review};
use serde_json::{Value, json};

use super::webhooks::{self, Write};
use crate::{
    auth::{Action, User},
    object::{Name, text},
    registry::Resource,
    status::{Answer, Failure},
    verbs::{Request, convert},
};

const NONE: Value = Value::Null;

/// A policy that a binding turns on for a write.
pub(super) struct Bound {
    pub(super) policy: Arc<Value>,
    pub(super) binding: Value,
    /// The parameters it is asked with, one after another; null if it has none.
    pub(super) params: Vec<Value>,
    /// What the parameters are, if it has any.
    pub(super) of_params: Option<Arc<Resource>>,
    /// The version of the resource that it is about.
    pub(super) resource: Arc<Resource>,
}

/// A policy that cannot be asked.
pub(super) struct Broken {
    pub(super) policy: Arc<Value>,
    /// None if it is broken for all its bindings.
    pub(super) binding: Option<Value>,
    pub(super) why: String,
}

/// Refuses a write that a bound policy denies; a policy that only warns adds warnings.
pub(crate) async fn check(request: &Request<'_>, write: Write<'_>, new: Option<&Value>) -> Answer<()> {
    let (bound, broken) = bound(request, write, new, (POLICIES, BINDINGS));
    let mut refusal = None;
    for Broken { policy, binding, why } in broken {
        if policy["spec"]["failurePolicy"] != "Ignore" && refusal.is_none() {
            let denial = Denial { message: why, reason: "Invalid".to_owned() };
            refusal = Some(refuse(request, write.name, &policy, binding.as_ref(), &denial));
        }
    }
    let namespace = namespace(request);
    for Bound { policy, binding, params, resource, .. } in bound {
        let about = asked(request, &resource, write);
        let old = versioned(request, &resource, write.old).await?;
        let new = versioned(request, &resource, new).await?;
        for params in &params {
            let review = Review {
                object: &new,
                old: &old,
                request: &about,
                namespace: &namespace,
                params,
                decide: &|access| decide(request, access),
            };
            let denials = crate::verbs::patiently(|| schema::policy::judge(&policy, &review));
            let denied = apply(request, write.name, &policy, &binding, &denials);
            refusal = refusal.or(denied);
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// The policies that are bound to a write, and those of them that cannot be asked.
pub(super) fn bound(
    request: &Request<'_>,
    write: Write<'_>,
    new: Option<&Value>,
    (policies, bindings): (&str, &str),
) -> (Vec<Bound>, Vec<Broken>) {
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    // Policies are never asked about policies: whoever locks themselves out must find the way back.
    if request.resource.group == "admissionregistration.k8s.io" {
        return (found, broken);
    }
    let mut by_policy: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for binding in all(request, bindings) {
        by_policy.entry(text(&binding["spec"]["policyName"]).to_owned()).or_default().push(binding);
    }
    if by_policy.is_empty() {
        return (found, broken);
    }
    let labels = webhooks::namespace(request, write, new);
    for (name, bindings) in by_policy {
        let Some(policy) = request.api.store.get(policies, &Name::new("", &name)) else { continue };
        let policy = Arc::new(policy.value());
        let select = |constraints: &Value| selected(request, write, new, labels.as_ref(), constraints);
        let Some(resource) = select(&policy["spec"]["matchConstraints"]) else { continue };
        let of_params = match param_resource(request, &policy["spec"]["paramKind"]) {
            Ok(of_params) => of_params,
            Err(why) => {
                let why = format!("failed to configure policy: {why}");
                broken.push(Broken { policy, binding: None, why });
                continue;
            }
        };
        for binding in bindings {
            if select(&binding["spec"]["matchResources"]).is_none() {
                continue;
            }
            let (policy, resource) = (Arc::clone(&policy), Arc::clone(&resource));
            match params(request, write, of_params.as_deref(), &binding["spec"]["paramRef"]) {
                Ok(params) => {
                    let of_params = of_params.clone();
                    found.push(Bound { policy, binding, params, of_params, resource });
                }
                Err(why) => {
                    let why = format!("failed to configure binding: {why}");
                    broken.push(Broken { policy, binding: Some(binding), why });
                }
            }
        }
    }
    (found, broken)
}

/// The version of the resource in which constraints select the write. None selects everything as it is.
fn selected(
    request: &Request<'_>,
    write: Write<'_>,
    new: Option<&Value>,
    namespace: Option<&Value>,
    constraints: &Value,
) -> Option<Arc<Resource>> {
    let registry = request.api.registry.load();
    // Rules that name another version of the resource mean it as well, unless they are meant exactly.
    let exact = constraints["matchPolicy"] == "Exact";
    let others = registry.versions_of(&request.resource.collection).filter(|_| !exact);
    let mut versions = std::iter::once(request.resource).chain(others);
    let found = versions.find(|resource| {
        let review = Review {
            object: new.unwrap_or(&NONE),
            old: write.old.unwrap_or(&NONE),
            request: &webhooks::about(request, resource, write),
            namespace: namespace.unwrap_or(&NONE),
            params: &NONE,
            decide: &|_| Decision::default(),
        };
        schema::policy::selects(constraints, &review)
    });
    found.map(Arc::clone)
}

/// An object in the version that a policy is about; null if there is none.
pub(super) async fn versioned(
    request: &Request<'_>,
    resource: &Arc<Resource>,
    object: Option<&Value>,
) -> Answer<Value> {
    match object {
        None => Ok(Value::Null),
        Some(object) if super::other_kind(request.subresource).is_some() => Ok(object.clone()),
        Some(object) => convert::between(request.api, request.resource, resource, object.clone()).await,
    }
}

/// The namespace that expressions see; null if the object is in none.
pub(super) fn namespace(request: &Request<'_>) -> Value {
    let found = match request.namespace {
        "" => None,
        namespace => request.api.store.get("/namespaces", &Name::new("", namespace)),
    };
    found.map_or(Value::Null, |found| found.value())
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
pub(super) fn asked(request: &Request<'_>, resource: &Resource, write: Write<'_>) -> Value {
    let mut asked = webhooks::about(request, resource, write);
    asked["options"] = webhooks::options(request, write.operation);
    asked
}

/// The resource of a policy's parameters; none if it has no parameters.
fn param_resource(request: &Request<'_>, kind: &Value) -> Result<Option<Arc<Resource>>, String> {
    if !kind.is_object() {
        return Ok(None);
    }
    let api_version = text(&kind["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = request.api.registry.load();
    let kind = text(&kind["kind"]);
    let found = registry.by_kind(group, version, kind).filter(|found| found.version == version);
    match found {
        Some(found) => Ok(Some(Arc::clone(found))),
        None => Err(format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")),
    }
}

/// The objects that a binding names or selects as its policy's parameters; null alone if there are none to be had.
fn params(
    request: &Request<'_>,
    write: Write<'_>,
    resource: Option<&Resource>,
    reference: &Value,
) -> Result<Vec<Value>, String> {
    let Some(resource) = resource.filter(|_| reference.is_object()) else { return Ok(vec![Value::Null]) };
    let named = text(&reference["namespace"]);
    // A namespace is taken for one of its own objects.
    let own = if request.resource.is("/namespaces") { write.name } else { request.namespace };
    let namespace = match (resource.namespaced, named, own) {
        (false, "", _) => "",
        (false, ..) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "", "") => {
            let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "", own) => own,
        (true, named, _) => named,
    };
    let found: Vec<Value> = match reference["selector"].is_object() {
        false => {
            let name = Name::new(namespace, text(&reference["name"]));
            request.api.store.get(&resource.collection, &name).map(|found| found.value()).into_iter().collect()
        }
        true => {
            let selector = schema::selector::from_object(&reference["selector"]).map_err(|error| error.to_string())?;
            let index = request.api.store.read();
            let within = Some(namespace).filter(|_| resource.namespaced);
            let all = index.collection(&resource.collection).into_iter().flat_map(|found| found.iter(within, None));
            all.filter(|object| selector.matches_by(|key| object.labels.get(key)))
                .map(|object| object.value())
                .collect()
        }
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

/// Warns of denials if the binding says so, and gives the first as a refusal if it says that.
fn apply(
    request: &Request<'_>,
    name: &str,
    policy: &Value,
    binding: &Value,
    denials: &[Denial],
) -> Option<Box<Failure>> {
    let does = |action: &str| {
        binding["spec"]["validationActions"].as_array().is_some_and(|actions| actions.iter().any(|own| own == action))
    };
    if does("Warn") {
        let (policy, binding) = (text(&policy["metadata"]["name"]), text(&binding["metadata"]["name"]));
        for denial in denials {
            request.call.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                denial.message
            ));
        }
    }
    let denial = denials.first().filter(|_| does("Deny"))?;
    Some(refuse(request, name, policy, Some(binding), denial))
}

fn refuse(request: &Request<'_>, name: &str, policy: &Value, binding: Option<&Value>, denial: &Denial) -> Box<Failure> {
    let policy = text(&policy["metadata"]["name"]);
    let bound =
        binding.map_or_else(String::new, |binding| format!(" with binding '{}'", text(&binding["metadata"]["name"])));
    let message = format!("ValidatingAdmissionPolicy '{policy}'{bound} denied request: {}", denial.message);
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
    failure
}
