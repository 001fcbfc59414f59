//! Questions about access: who am I, may I, may they. Nothing is stored.

use http::Response;
use serde_json::{Value, json};

use super::{Action, User};
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
    let api = request.api;
    let user = &request.call.user;
    review["status"] = match request.resource.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user.value()}),
        "SelfSubjectAccessReview" => {
            let allowed = allows(request, user, &review["spec"]);
            verdict(allowed)
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let spec = &review["spec"];
            let list: Vec<&str> = spec["groups"].as_array().into_iter().flatten().map(text).collect();
            let groups: Vec<String> = list.iter().map(|&group| group.to_owned()).collect();
            let asked = User { name: text(&spec["user"]).to_owned(), groups, ..User::default() };
            verdict(allows(request, &asked, spec))
        }
        "SelfSubjectRulesReview" => rules(request, user, text(&review["spec"]["namespace"])),
        "TokenReview" => match api.access.tokens.user(&api.store, text(&review["spec"]["token"])) {
            Some(user) => json!({"authenticated": true, "user": user.value()}),
            None => json!({"user": {}, "error": "[invalid bearer token, token lookup failed]"}),
        },
        _ => json!({}),
    };
    if !review["metadata"].is_object() {
        review["metadata"] = json!({"creationTimestamp": null});
    }
    request.object(201, review)
}

fn verdict(allowed: bool) -> Value {
    if allowed { json!({"allowed": true, "reason": "RBAC: allowed"}) } else { json!({"allowed": false}) }
}

fn allows(request: &Request<'_>, user: &User, spec: &Value) -> bool {
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
    api.access.allows(api, user, &action)
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
    if seconds < 600 {
        let error = schema::FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration less than 10 minutes",
        );
        return Err(Failure::invalid("authentication.k8s.io", "TokenRequest", request.name, &[error]));
    }
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds.min(MAX_LIFE));
    let audiences: Vec<&str> = review["spec"]["audiences"].as_array().into_iter().flatten().map(text).collect();
    let token =
        request.api.access.tokens.issue(request.namespace, request.name, &account.uid, &audiences, end.as_second());
    review["spec"]["expirationSeconds"] = seconds.into();
    review["metadata"]["name"] = request.name.into();
    review["metadata"]["namespace"] = request.namespace.into();
    review["metadata"]["creationTimestamp"] = crate::verbs::now().into();
    review["status"] = json!({"token": token, "expirationTimestamp": crate::verbs::timestamp(end)});
    request.object(201, review)
}

/// Longer lives than a year are cut; nobody means them.
const MAX_LIFE: i64 = 366 * 86_400;
