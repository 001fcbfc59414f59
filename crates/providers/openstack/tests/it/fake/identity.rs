//! Keystone.

use axum::http::Method;
use serde_json::{Value, json};

use super::{Answer, Call, PROJECT, Project, Result, answer};

pub(crate) const PASSWORD: &str = "a-password-that-nobody-may-print";
pub(crate) const APPLICATION_SECRET: &str = "an-application-secret-that-nobody-may-print";

fn unauthorized() -> Answer {
    let words = "The request you have made requires authentication.";
    answer(401, &json!({"error": {"code": 401, "message": words, "title": "Unauthorized"}}))
}

/// Only the newest token is good.
pub(super) fn check(project: &Project, call: &Call) -> Result<()> {
    let token = call.headers.get("x-auth-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
    if token == format!("token-{}", project.tokens) { Ok(()) } else { Err(unauthorized()) }
}

pub(super) fn respond(project: &mut Project, url: &str, call: &Call, path: &str) -> Result {
    if (call.method.clone(), path) != (Method::POST, "/auth/tokens") {
        return Err(answer(
            404,
            &json!({"error": {"code": 404, "message": "Could not find it.", "title": "Not Found"}}),
        ));
    }
    let auth = &call.body["auth"];
    let identity = &auth["identity"];
    let is_good = match identity["methods"].as_array().map(Vec::as_slice) {
        Some([method]) if method == "password" => {
            let user = &identity["password"]["user"];
            let domain = json!({"name": "Default"});
            *user == json!({"name": "ops", "domain": domain, "password": PASSWORD})
                && auth["scope"] == json!({"project": {"name": "machines", "domain": domain}})
        }
        // A scope is refused: the credential has one.
        Some([method]) if method == "application_credential" => {
            let credential = json!({"id": "credential-1", "secret": APPLICATION_SECRET});
            identity["application_credential"] == credential && auth["scope"].is_null()
        }
        _ => false,
    };
    if !is_good {
        return Err(unauthorized());
    }
    project.tokens += 1;
    let mut answer = answer(
        201,
        &json!({"token": {
            "expires_at": "2999-01-01T00:00:00.000000Z", "project": {"id": PROJECT}, "catalog": catalogue(project, url),
        }}),
    );
    answer.headers.push(("x-subject-token", format!("token-{}", project.tokens)));
    Ok(answer)
}

fn catalogue(project: &Project, url: &str) -> Vec<Value> {
    let volume = format!("/volume/v3/{PROJECT}");
    let services = [("compute", "/compute/v2.1"), ("network", "/network"), ("image", "/image"), ("volumev3", &volume)];
    let services = services.into_iter().filter(|(kind, _)| *kind != "volumev3" || project.has_cinder);
    let entry = |(kind, path): (&str, &str)| {
        let endpoint = |interface: &str, region: &str, url: String| json!({"interface": interface, "region": region, "region_id": region, "url": url});
        // The others lead nowhere.
        let nowhere = || "http://127.0.0.1:1".to_owned();
        json!({"type": kind, "name": kind, "endpoints": [
            endpoint("internal", "one", nowhere()), endpoint("public", "two", nowhere()),
            endpoint("public", "one", format!("{url}{path}")),
        ]})
    };
    services.map(entry).collect()
}
