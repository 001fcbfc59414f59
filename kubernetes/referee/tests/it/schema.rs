//! The recorded answers of the `schema` crate, asked again: of a real server, so that no recording goes stale, and of the
//! embedded API, which must answer the same.

use std::time::Duration;

use referee::{Kind, control_plane, wait_until};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

const CUSTOM: &str = include_str!("../../../schema/tests/it/custom.json");
const BUILT_IN: &str = include_str!("../../../schema/tests/it/builtin.json");
const DEFINITIONS: &str = include_str!("../../../schema/tests/it/definitions.json");
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TIME: &str = "2020-01-01T00:00:00Z";

#[tokio::test]
async fn a_real_server_still_answers_as_recorded() {
    check(Kind::Real).await;
}

#[tokio::test]
async fn the_embedded_api_answers_as_recorded() {
    check(Kind::Embedded).await;
}

async fn check(kind: Kind) {
    let Some(plane) = control_plane(kind).await else { return };
    let known: &[(&str, &str)] = if kind == Kind::Embedded { &KNOWN } else { &[] };
    let http =
        Client::builder().tls_danger_accept_invalid_certs(true).timeout(Duration::from_secs(30)).build().unwrap();
    let server = Server { http, base: plane.server().to_string(), token: plane.token() };
    let mut differences = Vec::new();
    let mut compared = 0;
    compared += definitions(&server, &mut differences).await;
    compared += custom(&server, &mut differences).await;
    compared += built_in(&server, &mut differences).await;
    differences.retain(|text| !known.iter().any(|(case, _)| text.contains(&format!("\"{case}\":"))));
    assert!(compared > 400, "only {compared} answers were compared");
    assert!(
        differences.is_empty(),
        "{} of {compared} answers differ from the recording:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

async fn definitions(server: &Server, differences: &mut Vec<String>) -> usize {
    let cases: Vec<Value> = serde_json::from_str(DEFINITIONS).unwrap();
    for case in &cases {
        let (code, answer) =
            server.call(Method::POST, &format!("{CRDS}?dryRun=All&fieldValidation=Ignore"), &case["crd"], "json").await;
        let mut seen = json!({ "code": code, "causes": answer["details"]["causes"] });
        let mut wanted = json!({ "code": case["answer"]["code"], "causes": case["answer"]["causes"] });
        for side in [&mut seen, &mut wanted] {
            let causes = side["causes"].as_array().into_iter().flatten();
            let mut texts: Vec<String> = causes
                .map(|c| format!("{}: {}", c["field"].as_str().unwrap_or(""), c["message"].as_str().unwrap_or("")))
                // This text prints an internal type of the real server, field by field.
                .map(|text| match text.starts_with("spec.versions: Invalid value: [") {
                    true => text.rsplit(": ").next().unwrap_or_default().to_string(),
                    false => text,
                })
                .collect();
            texts.sort();
            texts.dedup();
            side["causes"] = json!(texts);
        }
        if seen != wanted {
            differences.push(format!("definition {}:\n  recorded {wanted}\n  answered {seen}", case["name"]));
        }
    }
    cases.len()
}

async fn custom(server: &Server, differences: &mut Vec<String>) -> usize {
    let cases: Vec<Value> = serde_json::from_str(CUSTOM).unwrap();
    for (at, case) in cases.iter().enumerate() {
        let group = format!("c{at}.example.test");
        let mut version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": case["schema"]}});
        if case["status"] == true {
            version["subresources"] = json!({ "status": {} });
        }
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{group}")},
            "spec": {"group": group, "scope": "Cluster", "versions": [version],
                "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}},
        });
        let (code, answer) = server.call(Method::POST, CRDS, &crd, "json").await;
        assert_eq!(code, 201, "{answer}");
    }
    let mut compared = 0;
    for (at, case) in cases.iter().enumerate() {
        let group = format!("c{at}.example.test");
        let root = format!("/apis/{group}/v1/things");
        wait_until("the kind is served", || async {
            (server.call(Method::GET, &root, &Value::Null, "json").await.0 == 200).then_some(())
        })
        .await;
        compared += steps(server, case, &root, &format!("{group}/v1"), "Thing", differences).await;
    }
    compared
}

async fn built_in(server: &Server, differences: &mut Vec<String>) -> usize {
    let cases: Vec<Value> = serde_json::from_str(BUILT_IN).unwrap();
    let mut compared = 0;
    for case in &cases {
        let text = |key: &str| case[key].as_str().unwrap();
        compared += steps(server, case, text("resource"), text("version"), text("kind"), differences).await;
    }
    compared
}

/// Carries out a case's steps and compares each answer.
async fn steps(
    server: &Server,
    case: &Value,
    root: &str,
    version: &str,
    kind: &str,
    differences: &mut Vec<String>,
) -> usize {
    server.remove(&format!("{root}/one")).await;
    let steps = case["steps"].as_array().unwrap();
    for (step, expected) in steps.iter().zip(case["answers"].as_array().unwrap()) {
        let answer = comparable(&server.step(step, root, version, kind).await);
        let expected = comparable(expected);
        if answer != expected {
            let mut lines = Vec::new();
            differing(&expected, &answer, "", &mut lines);
            differences.push(format!("{}: {step}\n{}", case["name"], lines.join("\n")));
        }
    }
    steps.len()
}

struct Server {
    http: Client,
    base: String,
    token: &'static str,
}

impl Server {
    async fn call(&self, method: Method, path: &str, body: &Value, kind: &str) -> (u16, Value) {
        let (code, answer, _) = self.ask(method, path, body, kind).await;
        (code, answer)
    }

    async fn ask(&self, method: Method, path: &str, body: &Value, kind: &str) -> (u16, Value, Vec<String>) {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(self.token);
        if !body.is_null() {
            request = request.header("Content-Type", format!("application/{kind}")).body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let code = answer.status();
        let warnings = answer.headers().get_all("Warning").iter().filter_map(|w| w.to_str().ok());
        // `299 - "text"`, with quotes escaped.
        let warnings = warnings.filter_map(|w| Some(w.split_once('"')?.1.strip_suffix('"')?.replace("\\\"", "\"")));
        let warnings: Vec<String> = warnings.collect();
        let text = answer.text().await.unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|_| json!({ "message": text }));
        (code.as_u16(), value, warnings)
    }

    /// Deletes an object and waits until it is gone.
    async fn remove(&self, path: &str) {
        let (code, _) = self.call(Method::DELETE, path, &json!({"gracePeriodSeconds": 0}), "json").await;
        if code == StatusCode::NOT_FOUND.as_u16() {
            return;
        }
        wait_until("the object is gone", || async {
            (self.call(Method::GET, path, &Value::Null, "json").await.0 == 404).then_some(())
        })
        .await;
    }

    async fn step(&self, step: &Value, root: &str, version: &str, kind: &str) -> Value {
        let what = step["do"].as_str().unwrap();
        let mut object = step["object"].clone();
        if matches!(what, "create" | "update" | "apply") {
            let map = object.as_object_mut().unwrap();
            map.entry("apiVersion").or_insert(json!(version));
            map.entry("kind").or_insert(json!(kind));
            let metadata = map.entry("metadata").or_insert(json!({}));
            metadata.as_object_mut().unwrap().entry("name").or_insert(json!("one"));
        }
        let manager = step["manager"].as_str().unwrap_or("m");
        let validation = step["fieldValidation"].as_str().unwrap_or("Ignore");
        let mut query = format!("?fieldManager={manager}&fieldValidation={validation}");
        if step["force"] == true {
            query.push_str("&force=true");
        }
        let item = format!("{root}/one{}{query}", if step["status"] == true { "/status" } else { "" });
        let (code, answer, warnings) = match what {
            "create" => {
                self.remove(&format!("{root}/one")).await;
                self.ask(Method::POST, &format!("{root}{query}"), &object, "json").await
            }
            "update" => {
                let (_, live) = self.call(Method::GET, &format!("{root}/one"), &Value::Null, "json").await;
                object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
                self.ask(Method::PUT, &item, &object, "json").await
            }
            "merge" => self.ask(Method::PATCH, &item, &object, "merge-patch+json").await,
            "strategic" => self.ask(Method::PATCH, &item, &object, "strategic-merge-patch+json").await,
            "json" => self.ask(Method::PATCH, &item, &object, "json-patch+json").await,
            _ => self.ask(Method::PATCH, &item, &object, "apply-patch+yaml").await,
        };
        let mut seen = match code {
            200..300 => json!({ "code": code, "object": without_volatile(answer) }),
            _ => {
                let mut refusal = json!({ "code": code, "message": answer["message"], "reason": answer["reason"] });
                if let Some(causes) = answer["details"].get("causes") {
                    refusal["causes"] = causes.clone();
                }
                refusal
            }
        };
        if !warnings.is_empty() {
            seen["warnings"] = json!(warnings);
        }
        seen
    }
}

/// The object without what no two runs share: identities, times, addresses, and what controllers write behind our back.
fn without_volatile(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_string();
    let controlled = matches!(kind.as_str(), "Deployment" | "PodDisruptionBudget");
    if let Some(map) = object.as_object_mut().filter(|_| controlled) {
        map.remove("status");
    }
    if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut).filter(|_| kind == "Service") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) else { return object };
    for key in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
        metadata.remove(key);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(managed) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        managed.retain(|entry| !controlled || entry["subresource"] != "status");
        managed.retain(|entry| entry["manager"] != "kube-controller-manager");
        for entry in managed.iter_mut().filter(|entry| entry.get("time").is_some()) {
            entry["time"] = TIME.into();
        }
    }
    object
}

/// Where the embedded API is known to answer otherwise, and why that is so.
const KNOWN: [(&str, &str); 5] = [
    ("two storage versions", "the embedded API sets storedVersions before it validates"),
    ("what does not fit cannot be applied", "the embedded API decodes a configuration before it merges it"),
    ("node by strategic merge", "admission of the real server taints new nodes, and its conversion fills in podCIDRs"),
    ("deployment by apply", "the embedded API decodes a configuration before it merges it"),
    ("deployment by strategic merge", "the embedded API does not default requests from limits"),
];

/// Two answers are the same whatever the order of causes and of entries with one time.
fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(object) = answer.get_mut("object") {
        *object = without_volatile(object.take());
    }
    if let Some(managed) = answer.pointer_mut("/object/metadata/managedFields").and_then(Value::as_array_mut) {
        managed.sort_by_key(Value::to_string);
    }
    // A patch that does not decode is answered with the whole object as text, times and all.
    if answer["causes"][0]["field"] == "patch" {
        return json!({ "code": answer["code"], "reason": answer["reason"] });
    }
    let Some(causes) = answer.get_mut("causes").and_then(Value::as_array_mut) else { return answer };
    causes.sort_by_key(Value::to_string);
    if causes.len() > 1 {
        let message = answer["message"].as_str().unwrap_or("");
        let mut parts: Vec<&str> = message.split([',', '[', ']', '\n']).map(str::trim).collect();
        parts.sort_unstable();
        answer["message"] = json!(parts);
    }
    answer
}

/// Where two answers differ, one line per place.
fn differing(recorded: &Value, answered: &Value, path: &str, lines: &mut Vec<String>) {
    match (recorded, answered) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let none = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none));
                differing(a, b, &format!("{path}/{key}"), lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differing(a, b, &format!("{path}/{at}"), lines);
            }
        }
        (a, b) if a != b => lines.push(format!("  {path}: recorded {a}, answered {b}")),
        _ => {}
    }
}
