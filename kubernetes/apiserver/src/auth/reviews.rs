//! Questions about access: who am I, may I, may they. Nothing is stored.

use http::Response;
use schema::FieldError;
use serde_json::{Value, json};

use super::{Action, User, bound, tokens};
use crate::{
    http::Body,
    object::{Name, text},
    registry::Resource,
    status::{Answer, Failure},
    verbs::Request,
};

pub(crate) fn is_review(resource: &Resource) -> bool {
    matches!(resource.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

pub(crate) async fn review(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("CreateOptions")?;
    let mut review = request.decode(options.validation)?;
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    let api = request.api;
    let user = &request.call.user;
    let kind = request.resource.kind.as_str();
    if kind == "SelfSubjectReview" {
        review["metadata"]["creationTimestamp"] = crate::verbs::now().into();
    } else {
        crate::ownership::update(request, &request.manager(&options), None, &mut review);
    }
    review["status"] = match kind {
        "SelfSubjectReview" => json!({"userInfo": user.value()}),
        "SelfSubjectAccessReview" => {
            check(request, &review["spec"], false)?;
            verdict(request, user, &review["spec"])
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let spec = &review["spec"];
            check(request, spec, true)?;
            let groups = spec["groups"].as_array().into_iter().flatten().map(|group| text(group).to_owned()).collect();
            let asked = User { name: text(&spec["user"]).to_owned(), groups, ..User::default() };
            verdict(request, &asked, spec)
        }
        "SelfSubjectRulesReview" => match text(&review["spec"]["namespace"]) {
            "" => return Err(Failure::bad_request("no namespace on request")),
            namespace => rules(request, user, namespace),
        },
        "TokenReview" => match text(&review["spec"]["token"]) {
            "" => return Err(Failure::bad_request("token is required for TokenReview in authentication")),
            token => match api.access.tokens.user(&api.store, token) {
                Some(user) => json!({"authenticated": true, "user": user.value(), "audiences": [tokens::ISSUER]}),
                None => json!({"user": {}, "error": "invalid bearer token"}),
            },
        },
        _ => json!({}),
    };
    request.object(201, review)
}

/// A question must say what is asked, and about whom if not about oneself.
fn check(request: &Request<'_>, spec: &Value, about_others: bool) -> Answer<()> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if resource.is_object() == path.is_object() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let (field, value) = match resource.is_object() {
            true => ("spec.nonResourceAttributes", "cannot be specified in combination with resourceAttributes"),
            false => ("spec.resourceAttributes", detail),
        };
        errors.push(FieldError::invalid(field, Value::Null, value));
    }
    let groups = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    if about_others && text(&spec["user"]).is_empty() && !groups {
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    let local = request.resource.kind == "LocalSubjectAccessReview";
    if local && resource.is_object() && text(&resource["namespace"]) != request.namespace {
        let field = "spec.resourceAttributes.namespace";
        errors.push(FieldError::invalid(field, resource["namespace"].clone(), "must match metadata.namespace"));
    }
    // The real server names no kind here.
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(&request.resource.group, "", "", &errors)) }
}

fn verdict(request: &Request<'_>, user: &User, spec: &Value) -> Value {
    let api = request.api;
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let action = if resource.is_object() {
        Action {
            verb: text(&resource["verb"]),
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
            path: "",
            field_selector: text(&resource["fieldSelector"]["rawSelector"]),
        }
    } else {
        Action { verb: text(&path["verb"]), path: text(&path["path"]), ..Action::default() }
    };
    match api.access.reason(api, user, &action) {
        None => json!({"allowed": false}),
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
    }
}

fn rules(request: &Request<'_>, user: &User, namespace: &str) -> Value {
    let api = request.api;
    let known = api.access.rules(api);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    if user.is_in("system:masters") {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    for rule in known.of(user, namespace) {
        if rule.paths.is_empty() {
            let mut entry = json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
            if !rule.names.is_empty() {
                entry["resourceNames"] = rule.names.clone().into();
            }
            resources.push(entry);
        } else {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}));
        }
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// A bearer token for a service account.
pub(crate) async fn token(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("CreateOptions")?;
    let mut review = request.decode(options.validation)?;
    let name = Name::new(request.namespace, request.name);
    let account = request.api.store.get("/serviceaccounts", &name).ok_or_else(|| request.not_found())?;
    let seconds = review["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let problem = match seconds {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        4_294_967_297.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(detail) = problem {
        let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
        return Err(Failure::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
    }
    review["spec"]["expirationSeconds"] = seconds.into();
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    crate::ownership::update(request, &request.manager(&options), None, &mut review);
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds.min(MAX_LIFE));
    let audiences = review["spec"]["audiences"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = audiences.iter().map(text).collect();
    let mut own = json!({"namespace": request.namespace, "serviceaccount": {"name": request.name, "uid": account.uid}});
    for (key, claim) in bound::claims(request, &review["spec"]["boundObjectRef"])? {
        own[key] = claim;
    }
    let token = request.api.access.tokens.issue(&own, &names, end.as_second());
    review["spec"]["audiences"] = if audiences.is_empty() { json!([tokens::ISSUER]) } else { json!(audiences) };
    if review["spec"]["boundObjectRef"].is_null() {
        review["spec"]["boundObjectRef"] = Value::Null;
    }
    review["metadata"]["uid"] = account.uid.to_string().into();
    review["metadata"]["name"] = request.name.into();
    review["metadata"]["namespace"] = request.namespace.into();
    review["metadata"]["creationTimestamp"] = crate::verbs::now().into();
    review["status"] = json!({"token": token, "expirationTimestamp": crate::verbs::timestamp(end)});
    request.object(201, review)
}

/// Longer lives than a year are cut; nobody means them.
const MAX_LIFE: i64 = 366 * 86_400;
