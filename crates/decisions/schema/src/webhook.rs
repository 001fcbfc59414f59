//! What configurations of webhooks must look like: where they are, what they are asked about, and how long one waits.

use serde_json::Value;

use crate::{error::FieldError, names};

const VERSIONS: &str = "v1, v1beta1";

/// Checks the webhooks of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
#[must_use]
pub fn validate(configuration: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = Vec::new();
    for (at, webhook) in list(&configuration["webhooks"]).iter().enumerate() {
        let place = format!("webhooks[{at}]");
        check(webhook, &place, &mut errors);
        let name = text(&webhook["name"]);
        if known.contains(&name) {
            errors.push(FieldError::duplicate(format!("{place}.name"), name));
        }
        known.push(name);
    }
    errors
}

fn check(webhook: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{place}.{field}");
    check_name(text(&webhook["name"]), &at("name"), errors);
    for (number, rule) in list(&webhook["rules"]).iter().enumerate() {
        check_rule(rule, &format!("{place}.rules[{number}]"), errors);
    }
    one_of(webhook, "failurePolicy", &["Fail", "Ignore"], place, errors);
    one_of(webhook, "matchPolicy", &["Equivalent", "Exact"], place, errors);
    match webhook["sideEffects"].as_str() {
        None => errors.push(FieldError::required(at("sideEffects"), "must specify one of None, NoneOnDryRun")),
        Some(_) => one_of(webhook, "sideEffects", &["None", "NoneOnDryRun"], place, errors),
    }
    if let Some(seconds) = webhook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(at("timeoutSeconds"), seconds, detail));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        check_selector(&webhook[selector], &at(selector), errors);
    }
    client_config(&webhook["clientConfig"], &at("clientConfig"), errors);
    review_versions(&webhook["admissionReviewVersions"], &at("admissionReviewVersions"), true, errors);
    one_of(webhook, "reinvocationPolicy", &["IfNeeded", "Never"], place, errors);
    check_conditions(&webhook["matchConditions"], &at("matchConditions"), errors);
}

fn check_name(name: &str, place: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else if let Some(problem) = names::is_subdomain(name).into_iter().next() {
        errors.push(FieldError::invalid(place, name, problem));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(place, name, detail));
    }
}

fn check_rule(rule: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{place}.{field}");
    let all = |field: &str| list(&rule[field]).iter().any(|item| item == "*");
    let alone = |field: &str, what: &str, errors: &mut Vec<FieldError>| {
        if all(field) && list(&rule[field]).len() > 1 {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(at(field), rule[field].clone(), detail));
        }
    };
    if list(&rule["operations"]).is_empty() {
        errors.push(FieldError::required(at("operations"), ""));
    }
    alone("operations", "operations", errors);
    let operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"].map(str::to_owned);
    for (number, operation) in list(&rule["operations"]).iter().enumerate() {
        if !operations.iter().any(|known| operation == known) {
            let place = format!("{}[{number}]", at("operations"));
            errors.push(FieldError::not_supported(place, operation.clone(), &operations));
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if list(&rule[field]).is_empty() {
            errors.push(FieldError::required(at(field), ""));
        }
        alone(field, what, errors);
    }
    if list(&rule["resources"]).is_empty() {
        errors.push(FieldError::required(at("resources"), ""));
    }
    let plain = list(&rule["resources"]).iter().filter(|item| !text(item).contains('/')).count();
    if all("resources") && plain > 1 {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(at("resources"), rule["resources"].clone(), detail));
    }
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], place, errors);
}

fn check_selector(selector: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        let operator = text(&expression["operator"]);
        if !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist") {
            let place = format!("{place}.matchExpressions[{at}].operator");
            errors.push(FieldError::invalid(place, operator, "not a valid selector operator"));
        }
    }
}

fn check_conditions(conditions: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut known = Vec::new();
    for (at, condition) in list(conditions).iter().enumerate() {
        let at = |field: &str| format!("{place}[{at}].{field}");
        let (name, expression) = (text(&condition["name"]), text(&condition["expression"]).trim());
        if expression.is_empty() {
            errors.push(FieldError::required(at("expression"), ""));
        } else if let Some(error) = crate::cel::syntax_error(expression) {
            errors.push(FieldError::invalid(at("expression"), expression, format!("compilation failed: {error}")));
        }
        if name.is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        } else if known.contains(&name) {
            errors.push(FieldError::duplicate(at("name"), name));
        } else if let Some(problem) = names::is_qualified_name(name).into_iter().next() {
            errors.push(FieldError::invalid(at("name"), name, problem));
        }
        known.push(name);
    }
}

/// Checks the versions of reviews that a webhook understands.
pub(crate) fn review_versions(versions: &Value, place: &str, explained: bool, errors: &mut Vec<FieldError>) {
    if list(versions).is_empty() {
        let detail = format!("must specify one of {VERSIONS}");
        errors.push(FieldError::required(place, if explained { &detail } else { "" }));
    } else if !list(versions).iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.push(FieldError::invalid(place, versions.clone(), format!("must include at least one of {VERSIONS}")));
    }
}

/// Checks where a webhook is: a URL or a service.
pub(crate) fn client_config(config: &Value, place: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(url), false) => check_url(url, &format!("{place}.url"), errors),
        (None, true) => check_service(&config["service"], &format!("{place}.service"), errors),
        _ => errors.push(FieldError::required(place, "exactly one of url or service is required")),
    }
}

fn check_url(url: &str, place: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(place, scheme, detail));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.push(FieldError::invalid(place, host, format!("host must be specified{FORM}")));
    }
    let parts = [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ];
    for (part, detail) in parts.into_iter().filter(|(part, _)| !part.is_empty()) {
        errors.push(FieldError::invalid(place, part, detail));
    }
}

fn check_service(service: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{place}.{field}");
    // The real server looks at one of the two twice; what it says of the other is this.
    if text(&service["name"]).is_empty() || text(&service["namespace"]).is_empty() {
        errors.push(FieldError::required(at("name"), ""));
    }
    if let Some(port) = service["port"].as_i64().filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(at("port"), port, detail));
    }
    let Some(path) = service["path"].as_str().filter(|path| !path.is_empty() && *path != "/") else { return };
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(at("path"), path, "must start with a '/'"));
    }
    let inner = path.strip_suffix('/').unwrap_or(path);
    for (number, segment) in inner.split('/').skip(1).enumerate() {
        if segment.is_empty() {
            errors.push(FieldError::invalid(at("path"), path, format!("segment[{number}] may not be empty")));
        }
    }
    if !inner.contains('/') {
        errors.push(FieldError::invalid(at("path"), path, "segment[0] may not be empty"));
    }
}

fn one_of(object: &Value, field: &str, known: &[&str], place: &str, errors: &mut Vec<FieldError>) {
    if let Some(value) = object[field].as_str().filter(|value| !known.contains(value)) {
        let known: Vec<String> = known.iter().map(|known| (*known).to_owned()).collect();
        errors.push(FieldError::not_supported(format!("{place}.{field}"), value, &known));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(change: Value, expected: &[&str]) {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]});
        let mut webhook = json!({"name": "a.example.com", "clientConfig": {"url": "https://localhost/x"}, "rules": [rule],
            "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        for (field, value) in change.as_object().unwrap() {
            webhook[field] = value.clone();
        }
        let errors = validate(&json!({"webhooks": [webhook]}));
        assert_eq!(errors.iter().map(FieldError::message).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        check(json!({}), &[]);
        check(
            json!({"name": "short", "sideEffects": null}),
            &[
                "webhooks[0].name: Invalid value: \"short\": should be a domain with at least three segments separated by dots",
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
            ],
        );
        check(
            json!({"clientConfig": {"url": "http://u@x/?a#b"}}),
            &[
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
                "webhooks[0].clientConfig.url: Invalid value: \"b\": fragments are not permitted in the URL",
                "webhooks[0].clientConfig.url: Invalid value: \"a\": query parameters are not permitted in the URL",
            ],
        );
        check(
            json!({"clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/x//y/"}}}),
            &["webhooks[0].clientConfig.service.path: Invalid value: \"/x//y/\": segment[1] may not be empty"],
        );
    }
}
