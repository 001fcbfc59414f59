//! What configurations of webhooks must look like: where they are, what they are asked about, and how long one waits.

use cel::admission::{Admission, Gives};
use serde_json::Value;

use crate::{error::FieldError, names};

const VERSIONS: &str = "v1, v1beta1";

/// Checks the webhooks of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
#[must_use]
pub fn validate(configuration: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = Vec::new();
    let conditions = |of: &Value| -> Vec<Value> {
        list(&of["webhooks"]).iter().map(|webhook| webhook["matchConditions"].clone()).collect()
    };
    // Conditions that passed once are not looked at again while none of them changes.
    let unchanged = old.is_some_and(|old| conditions(old) == conditions(configuration));
    for (at, webhook) in list(&configuration["webhooks"]).iter().enumerate() {
        let place = format!("webhooks[{at}]");
        check(webhook, &place, &mut errors);
        if !unchanged {
            check_conditions(&webhook["matchConditions"], false, &format!("{place}.matchConditions"), &mut errors);
        }
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

/// Checks a rule about requests: which operations on which resources.
pub(crate) fn check_rule(rule: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{place}.{field}");
    let alone = |field: &str, what: &str, errors: &mut Vec<FieldError>| {
        let items = list(&rule[field]);
        if items.len() > 1 && items.iter().any(|item| item == "*") {
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
    for (number, _) in list(&rule["apiVersions"]).iter().enumerate().filter(|(_, version)| *version == "") {
        errors.push(FieldError::required(format!("{}[{number}]", at("apiVersions")), ""));
    }
    check_resources(&rule["resources"], &at("resources"), errors);
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], place, errors);
}

fn check_resources(resources: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if list(resources).is_empty() {
        errors.push(FieldError::required(place, ""));
    }
    let (mut all_below, mut everywhere) = (Vec::new(), Vec::new());
    // As in the real server, only the last one without a subresource counts.
    let mut plain = false;
    for (number, resource) in list(resources).iter().map(text).enumerate() {
        let at = || format!("{place}[{number}]");
        if resource.is_empty() {
            errors.push(FieldError::required(at(), ""));
            continue;
        }
        let Some((own, sub)) = resource.split_once('/') else {
            plain = resource != "*";
            continue;
        };
        let mut covered = |by: String| {
            let detail = format!("if '{by}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(at(), resource, detail));
        };
        if all_below.contains(&own) {
            covered(format!("{own}/*"));
        }
        if everywhere.contains(&sub) {
            covered(format!("*/{sub}"));
        }
        if sub == "*" {
            all_below.push(own);
        }
        if own == "*" {
            everywhere.push(sub);
        }
    }
    let has = |wanted: &str| list(resources).iter().any(|resource| resource == wanted);
    if list(resources).len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(place, resources.clone(), detail));
    }
    if has("*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(place, resources.clone(), detail));
    }
}

/// Checks a selector of labels.
pub(crate) fn check_selector(selector: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let labels = format!("{place}.matchLabels");
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        for problem in names::is_qualified_name(key) {
            errors.push(FieldError::invalid(labels.as_str(), key.as_str(), problem));
        }
        for problem in names::is_label_value(text(value)) {
            errors.push(FieldError::invalid(labels.as_str(), text(value), problem));
        }
    }
    for (number, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        let at = |field: &str| format!("{place}.matchExpressions[{number}].{field}");
        let values = list(&expression["values"]);
        match text(&expression["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(at("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(at("operator"), other, "not a valid selector operator")),
        }
        let key = text(&expression["key"]);
        for problem in names::is_qualified_name(key) {
            errors.push(FieldError::invalid(at("key"), key, problem));
        }
        for (position, value) in values.iter().map(text).enumerate() {
            for problem in names::is_label_value(value) {
                errors.push(FieldError::invalid(format!("{}[{position}]", at("values")), value, problem));
            }
        }
    }
}

/// Checks the conditions under which a webhook or a policy is asked.
pub(crate) fn check_conditions(conditions: &Value, has_params: bool, place: &str, errors: &mut Vec<FieldError>) {
    const MOST: usize = 64;
    if list(conditions).len() > MOST {
        errors.push(FieldError::too_many(place, list(conditions).len(), MOST as u64));
    }
    let seen = Admission::untyped(has_params, false);
    let mut known = Vec::new();
    for (at, condition) in list(conditions).iter().enumerate() {
        let at = |field: &str| format!("{place}[{at}].{field}");
        let (name, expression) = (text(&condition["name"]), text(&condition["expression"]).trim());
        if expression.is_empty() {
            errors.push(FieldError::required(at("expression"), ""));
        } else if let Some(problem) = seen.judge(expression, Gives::Truth, true) {
            errors.push(FieldError::of_expression(problem, at("expression"), expression));
        }
        if name.is_empty() {
            errors.push(FieldError::required(at("name"), ""));
            continue;
        }
        for problem in names::is_qualified_name(name) {
            errors.push(FieldError::invalid(at("name"), name, problem));
        }
        if known.contains(&name) {
            errors.push(FieldError::duplicate(at("name"), name));
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

pub(crate) fn one_of(object: &Value, field: &str, known: &[&str], place: &str, errors: &mut Vec<FieldError>) {
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
        let errors = validate(&json!({"webhooks": [webhook]}), None);
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
