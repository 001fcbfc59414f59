//! Limit ranges and quotas on both servers: the same requests in the same order, and every answer compared, and what
//! quotas say is used once it has settled.
//!
//! A scenario has a namespace of its own, so all of them run at once. The real server decides from caches that follow its
//! store by a moment: a request is first made without effect until it is answered as by ours, and only then in earnest.
//! One that it never answers so is a difference.

mod claims;
mod counts;
mod limits;
mod order;
mod pods;
mod services;

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    builtins::{Server, both, differing},
    waiting::{Look, eventually},
};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// How long the caches of the real server may be behind.
const BEHIND: Duration = Duration::from_secs(5);

/// How long what is used may take to be counted.
const SETTLING: Duration = Duration::from_secs(20);

/// Requests in one namespace, `…` in their paths.
struct Scenario {
    name: &'static str,
    steps: Vec<Step>,
}

enum Step {
    /// A request whose answers are compared.
    Ask(Method, String, &'static str, Value),
    /// What a quota says once it says that this is used; compared.
    Settled(&'static str, Value),
}

#[tokio::test]
async fn limit_ranges_and_quotas_are_enforced_in_the_same_words() {
    let Some((real, embedded)) = both().await else { return };
    for (path, object) in [
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}),
        ),
        ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", order::policy()),
        ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", order::binding()),
    ] {
        for server in [&real, &embedded] {
            let made = server.send(Method::POST, path, JSON, &object).await.1;
            assert_eq!(made["metadata"]["name"], object["metadata"]["name"], "{made}");
        }
    }
    let mut scenarios = limits::scenarios();
    scenarios.extend(pods::scenarios());
    scenarios.extend(services::scenarios());
    scenarios.extend(claims::scenarios());
    scenarios.extend(counts::scenarios());
    scenarios.push(order::scenario());
    let told = join_all(scenarios.iter().map(|scenario| play(&real, &embedded, scenario))).await;
    let mut differences = Vec::new();
    let mut compared = 0;
    for (count, found) in told {
        compared += count;
        differences.extend(found);
    }
    println!("quotas: {} scenarios, {compared} answers compared, {} places differ", scenarios.len(), differences.len());
    assert!(compared > 150, "only {compared} answers were compared");
    assert!(differences.is_empty(), "{} places differ:\n{}", differences.len(), differences.join("\n"));
}

/// Counts of kinds that came after the start are the one thing that the real server takes half a minute for.
#[tokio::test]
async fn custom_kinds_are_counted() {
    let Some((real, embedded)) = both().await else { return };
    for server in [&real, &embedded] {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        server.send(Method::POST, path, JSON, &counts::definition()).await;
    }
    let scenario = counts::custom();
    // A quota is counted when it is made, so that it is made again until its kind is known.
    let path = format!("/api/v1/namespaces/{}/resourcequotas", scenario.name);
    let quota = quota("first", json!({"count/widgets.example.com": "1"}));
    for server in [&real, &embedded] {
        prepare(server, scenario.name).await;
        eventually("a quota that knows the kind", || async {
            server.send(Method::DELETE, &format!("{path}/first"), JSON, &json!({})).await;
            server.send(Method::POST, &path, JSON, &quota).await;
            let told = |object: &Value| object["status"]["hard"].is_object();
            let found = server.until(&format!("{path}/first"), told).await;
            let known = found["status"]["used"].get("count/widgets.example.com").is_some();
            Ok(if known { Look::There(()) } else { Look::NotYet(found.to_string()) })
        })
        .await
        .unwrap();
    }
    let (compared, differences) = play(&real, &embedded, &scenario).await;
    println!("quotas: {compared} answers about custom kinds compared, {} places differ", differences.len());
    assert!(differences.is_empty(), "{} places differ:\n{}", differences.len(), differences.join("\n"));
}

async fn prepare(server: &Server, namespace: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    server.send(Method::POST, "/api/v1/namespaces", JSON, &object).await;
    for first in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{namespace}/{first}");
        server.until(&path, |object| object["metadata"]["name"].is_string() && object["kind"] != "Status").await;
    }
}

/// How many answers were compared, and where they differ.
async fn play(real: &Server, embedded: &Server, scenario: &Scenario) -> (usize, Vec<String>) {
    prepare(real, scenario.name).await;
    prepare(embedded, scenario.name).await;
    let mut differences = Vec::new();
    for (at, step) in scenario.steps.iter().enumerate() {
        let (title, theirs, ours) = match step {
            Step::Ask(method, path, media, body) => {
                let path = path.replace('…', scenario.name);
                let ours = shown(embedded.send(method.clone(), &path, media, body).await);
                rehearse(real, (method, &path, media, body), &ours).await;
                let theirs = shown(real.send(method.clone(), &path, media, body).await);
                (format!("{method} {path}"), theirs, ours)
            }
            Step::Settled(quota, used) => {
                let path = format!("/api/v1/namespaces/{}/resourcequotas/{quota}", scenario.name);
                let (theirs, ours) = (settled(real, &path, used).await, settled(embedded, &path, used).await);
                for (whose, found) in [("real", &theirs), ("ours", &ours)] {
                    if found["status"]["used"] != *used {
                        let (name, used) = (scenario.name, &found["status"]["used"]);
                        differences.push(format!("{name} {at}: {whose} never came to what is expected: {used}"));
                    }
                }
                (format!("settled {quota}"), masked(theirs), masked(ours))
            }
        };
        let mut found = Vec::new();
        differing(&theirs, &ours, "", &mut found);
        let title = format!("{} {at} {title}", scenario.name);
        differences.extend(found.into_iter().map(|place| format!("{title}: {place}")));
    }
    (scenario.steps.len(), differences)
}

/// An answer with its code and warnings, and with every amount in it.
fn shown((told, came): (Value, Value)) -> Value {
    json!({"code": told["code"], "warnings": told["warnings"], "body": masked(came)})
}

/// Without what no two servers share. What others call an age may be an amount here, so it stays.
fn masked(mut value: Value) -> Value {
    fn mask(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, field) in map.iter_mut() {
                    match key.as_str() {
                        "uid" | "resourceVersion" | "creationTimestamp" | "deletionTimestamp" | "time" => {
                            *field = "X".into();
                        }
                        "lastTransitionTime" | "nodePort" | "healthCheckNodePort" => *field = "X".into(),
                        "clusterIP" | "clusterIPs" => *field = "ADDRESS".into(),
                        _ => mask(field),
                    }
                }
                // Entries are ordered by time, which has seconds only.
                if let Some(list) = map.get_mut("managedFields").and_then(Value::as_array_mut) {
                    list.sort_by_key(Value::to_string);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(mask),
            Value::String(text) if text.starts_with("kube-api-access-") => *text = "TOKEN".to_owned(),
            _ => {}
        }
    }
    mask(&mut value);
    value
}

/// A quota once it says that this is used, or after all patience.
async fn settled(server: &Server, path: &str, used: &Value) -> Value {
    let start = Instant::now();
    loop {
        let found = server.get(path, JSON).await;
        if found["status"]["used"] == *used || start.elapsed() > SETTLING {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Makes a request without effect until the real server answers it as ours did, or its caches have had their time.
async fn rehearse(real: &Server, (method, path, media, body): (&Method, &str, &str, &Value), ours: &Value) {
    if *method == Method::DELETE {
        return;
    }
    let mark = if path.contains('?') { '&' } else { '?' };
    let dry = format!("{path}{mark}dryRun=All");
    let start = Instant::now();
    loop {
        let theirs = shown(real.send(method.clone(), &dry, media, body).await);
        let same = ["/code", "/body/message"].iter().all(|place| theirs.pointer(place) == ours.pointer(place));
        if same || start.elapsed() > BEHIND {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn core(plural: &str) -> String {
    format!("/api/v1/namespaces/…/{plural}")
}

fn post(path: &str, object: Value) -> Step {
    Step::Ask(Method::POST, path.to_owned(), JSON, object)
}

fn patch(path: &str, change: Value) -> Step {
    Step::Ask(Method::PATCH, path.to_owned(), MERGE, change)
}

fn delete(path: &str) -> Step {
    Step::Ask(Method::DELETE, path.to_owned(), JSON, json!({"gracePeriodSeconds": 0}))
}

fn quota(name: &str, hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

/// A quota in scopes, or with a selector of scopes.
fn scoped(name: &str, hard: Value, spec: Value) -> Value {
    with(quota(name, hard), spec)
}

fn range(name: &str, limits: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": limits}})
}

/// A pod with one container for each of these.
fn pod(name: &str, resources: &[Value]) -> Value {
    let containers: Vec<Value> =
        resources.iter().enumerate().map(|(at, own)| container(&format!("c{at}"), own.clone())).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}})
}

fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "example.com/image:1", "resources": resources})
}

/// The object with more in its spec.
fn with(mut object: Value, spec: Value) -> Value {
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn requests(amounts: Value) -> Value {
    json!({"requests": amounts})
}
