//! Requests that are wrong get the answer the real server gives, and change nothing.

use expect_test::{Expect, expect};
use serde_json::json;

use crate::wire::Wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn answer(wire: &Wire, method: &str, path: &str, content_type: &str, body: &str) -> String {
    let reply = wire.send(wire.request(method, path, content_type, body.to_owned())).await;
    format!("{} {}: {}", reply.code, reply.body["reason"].as_str().unwrap_or("-"), reply.message())
}

#[tokio::test]
async fn every_mistake_has_its_answer() {
    let wire = Wire::start().await;
    wire.post(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let json = "application/json";
    let long = format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", "x".repeat(300));
    let cases: Vec<(&str, String, &str, &str, Expect)> = vec![
        (
            "POST",
            MAPS.into(),
            json,
            "{",
            expect![
                "400 BadRequest: the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (7b)"
            ],
        ),
        (
            "POST",
            MAPS.into(),
            "text/plain",
            "{}",
            expect![
                "415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            ],
        ),
        (
            "POST",
            MAPS.into(),
            "application/vnd.kubernetes.protobuf",
            "k8s",
            expect![
                "400 BadRequest: the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (6b3873)"
            ],
        ),
        (
            "POST",
            MAPS.into(),
            json,
            r#"{"metadata":{}}"#,
            expect![[
                r#"422 Invalid: ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required"#
            ]],
        ),
        (
            "POST",
            MAPS.into(),
            json,
            r#"{"metadata":{"name":"A_b"}}"#,
            expect![[
                r#"422 Invalid: ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#
            ]],
        ),
        (
            "POST",
            MAPS.into(),
            json,
            &long,
            expect![[
                r#"422 Invalid: ConfigMap "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is invalid: metadata.name: Invalid value: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be no more than 253 characters"#
            ]],
        ),
        (
            "POST",
            MAPS.into(),
            json,
            r#"{"metadata":{"name":"b","namespace":"other"}}"#,
            expect![
                "400 BadRequest: the namespace of the provided object does not match the namespace sent on the request"
            ],
        ),
        (
            "POST",
            MAPS.into(),
            json,
            r#"{"metadata":{"name":"b","resourceVersion":"7"}}"#,
            expect!["500 -: resourceVersion should not be set on objects to be created"],
        ),
        (
            "POST",
            MAPS.into(),
            json,
            r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"b"}}"#,
            expect!["400 BadRequest: the API version in the data (v2) does not match the expected API version (v1)"],
        ),
        (
            "POST",
            format!("{MAPS}?fieldValidation=Strict"),
            json,
            r#"{"metadata":{"name":"b","nope":1},"dat":{}}"#,
            expect![[
                r#"400 BadRequest: ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "metadata.nope", unknown field "dat""#
            ]],
        ),
        (
            "POST",
            format!("{MAPS}?fieldValidation=Loud"),
            json,
            r#"{"metadata":{"name":"b"}}"#,
            expect![[
                r#"422 Invalid: CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loud": supported values: "", "Ignore", "Strict", "Warn""#
            ]],
        ),
        (
            "POST",
            "/api/v1/namespaces/none/configmaps".into(),
            json,
            r#"{"metadata":{"name":"b"}}"#,
            expect![[r#"404 NotFound: namespaces "none" not found"#]],
        ),
        (
            "POST",
            "/api/v1/configmaps".into(),
            json,
            r#"{"metadata":{"name":"b"}}"#,
            expect!["405 MethodNotAllowed: the server does not allow this method on the requested resource"],
        ),
        (
            "PUT",
            format!("{MAPS}/a"),
            json,
            r#"{"metadata":{"name":"b"}}"#,
            expect!["400 BadRequest: the name of the object (b) does not match the name on the URL (a)"],
        ),
        (
            "PUT",
            format!("{MAPS}/c"),
            json,
            r#"{"metadata":{"name":"c"}}"#,
            expect![[r#"404 NotFound: configmaps "c" not found"#]],
        ),
        ("PATCH", format!("{MAPS}/a"), json, "{}", expect!["415 UnsupportedMediaType: 415: Unsupported Media Type"]),
        (
            "PATCH",
            format!("{MAPS}/a"),
            "application/merge-patch+json",
            "[1",
            expect!["400 BadRequest: error decoding patch: unexpected end of JSON input"],
        ),
        (
            "PATCH",
            format!("{MAPS}/a"),
            "application/json-patch+json",
            r#"[{"op":"remove","path":"/no"}]"#,
            expect!["422 Invalid: the server rejected our request due to an error in our request"],
        ),
        (
            "DELETE",
            format!("{MAPS}/a"),
            json,
            r#"{"propagationPolicy":"Sideways"}"#,
            expect![[
                r#"422 Invalid: DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil""#
            ]],
        ),
        (
            "GET",
            format!("{MAPS}?labelSelector=a%20in"),
            "",
            "",
            expect!["400 BadRequest: unable to parse requirement: found '' expected: '('"],
        ),
        (
            "GET",
            format!("{MAPS}?fieldSelector=spec.x%3Dy"),
            "",
            "",
            expect![[
                r#"400 BadRequest: "spec.x" is not a known field selector: only "metadata.name", "metadata.namespace""#
            ]],
        ),
        (
            "GET",
            format!("{MAPS}?continue=%21%21"),
            "",
            "",
            expect![
                "400 BadRequest: invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
            ],
        ),
        ("GET", format!("{MAPS}/nothing"), "", "", expect![[r#"404 NotFound: configmaps "nothing" not found"#]]),
        (
            "GET",
            "/apis/no.such/v1/things".into(),
            "",
            "",
            expect![[r#"
            404 -: 404 page not found
        "#]],
        ),
        (
            "POST",
            format!("{MAPS}/a"),
            json,
            "{}",
            expect!["405 MethodNotAllowed: the server does not allow this method on the requested resource"],
        ),
    ];
    for (method, path, content_type, body, expected) in cases {
        expected.assert_eq(&answer(&wire, method, &path, content_type, body).await);
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let wire = Wire::start().await;
    let body = format!("{{\"metadata\":{{\"name\":\"b\"}},\"data\":{{\"x\":\"{}\"}}}}", "x".repeat(3 * 1024 * 1024));
    let shown = answer(&wire, "POST", MAPS, "application/json", &body).await;
    assert_eq!(shown, "413 RequestEntityTooLarge: Request entity too large: limit is 3145728");
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning_unless_told_otherwise() {
    let wire = Wire::start().await;
    let body = json!({"metadata": {"name": "w"}, "nope": 1});
    let warned = wire.post(MAPS, &body).await;
    assert_eq!(warned.code, 201);
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"nope\\\"\"");
    assert!(warned.body["nope"].is_null());
    let body = json!({"metadata": {"name": "v"}, "nope": 1});
    let silent = wire.post(&format!("{MAPS}?fieldValidation=Ignore"), &body).await;
    assert!(silent.headers.get("warning").is_none());
}

#[tokio::test]
async fn nothing_sent_makes_the_server_fall_over() {
    let wire = Wire::start().await;
    let bodies = [
        "",
        "null",
        "[]",
        "\"x\"",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"labels\":[1]}}",
        "{\"spec\":7}",
        "{\"metadata\":{\"ownerReferences\":{}}}",
    ];
    let paths = [
        "/api/v1/nodes",
        "/api/v1/namespaces/default/pods",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/api/v1/namespaces/default/secrets",
        MAPS,
    ];
    for path in paths {
        for body in bodies {
            for media in ["application/json", "application/yaml"] {
                let reply = wire.send(wire.request("POST", path, media, body)).await;
                assert!((400..500).contains(&reply.code), "{path} {body}: {} {}", reply.code, reply.text);
            }
        }
    }
    assert_eq!(wire.get("/readyz").await.text, "ok");
}

#[tokio::test]
async fn subresources_refuse_what_has_no_shape() {
    let wire = Wire::start().await;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    wire.post("/api/v1/namespaces/default/pods", &pod).await;
    let paths = ["pods/p/binding", "pods/p/eviction", "serviceaccounts/default/token"];
    for path in paths {
        for body in
            ["{\"metadata\":[]}", "{\"metadata\":\"x\",\"spec\":1}", "[]", "{\"target\":[1]}", "{\"deleteOptions\":3}"]
        {
            let reply = wire
                .send(wire.request("POST", &format!("/api/v1/namespaces/default/{path}"), "application/json", body))
                .await;
            assert!(reply.code < 500, "{path} {body}: {} {}", reply.code, reply.text);
        }
    }
    let forever = json!({"gracePeriodSeconds": i64::MAX});
    let reply = wire.delete("/api/v1/namespaces/default/pods/p", &forever).await;
    assert!(reply.code < 500, "{}", reply.text);
    assert_eq!(wire.get("/readyz").await.text, "ok");
}
