//! Every built-in kind on both servers: what discovery says of it, and one life of an object of it.
//!
//! `builtins/objects.jsonl` has an object for each kind that can be written, with a change to make to it and a status to
//! give it. It is created, shown as a table, replaced by itself, changed, applied, read in every version, and deleted; after
//! each step both servers must have answered the same. A kind that the real server has and that list lacks is a failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use referee::{ControlPlane, Kind, control_plane};
use reqwest::Method;
use serde_json::{Value, json};

use super::behaviours::wire::{self, AGGREGATED, APPLY, JSON, MERGE, Scope, TABLE};

const OBJECTS: &str = include_str!("builtins/objects.jsonl");

/// Kinds whose objects other objects have to carry, and that are made by the server itself.
const NOT_WRITTEN: [&str; 1] = ["ComponentStatus"];

#[tokio::test]
async fn discovery_is_the_same_word_for_word() {
    let Some((real, embedded)) = both().await else { return };
    let groups = real.get("/apis", JSON).await;
    let mut paths: Vec<(String, &str)> = ["/api", "/apis"].map(|path| (path.to_owned(), AGGREGATED)).to_vec();
    paths.extend(["/apis", "/api/v1"].map(|path| (path.to_owned(), JSON)));
    for group in groups["groups"].as_array().unwrap() {
        paths.push((format!("/apis/{}", group["name"].as_str().unwrap()), JSON));
        for version in group["versions"].as_array().unwrap() {
            paths.push((format!("/apis/{}", version["groupVersion"].as_str().unwrap()), JSON));
        }
    }
    let mut differences = Vec::new();
    for (path, accept) in &paths {
        let (theirs, ours) = (real.get(path, accept).await, embedded.get(path, accept).await);
        differing(&theirs, &ours, path, &mut differences);
    }
    assert!(paths.len() > 40, "{paths:?}");
    assert!(differences.is_empty(), "{} places differ:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test]
async fn an_object_of_each_kind_lives_the_same_life() {
    let Some((real, embedded)) = both().await else { return };
    let known = real.kinds().await;
    let (mut differences, mut steps, mut seen) = (Vec::new(), 0, Vec::new());
    for line in OBJECTS.lines().filter(|line| !line.is_empty()) {
        let plan: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        let kind = (text(&plan["object"]["apiVersion"]), text(&plan["object"]["kind"]));
        let served = known.get(&kind).unwrap_or_else(|| panic!("the real server has no {kind:?}"));
        let (theirs, ours) = (life(&real, served, &known, &plan).await, life(&embedded, served, &known, &plan).await);
        assert_eq!(theirs.len(), ours.len(), "{kind:?} lived differently");
        for ((step, theirs), (_, ours)) in theirs.iter().zip(&ours) {
            steps += 1;
            differing(theirs, ours, &format!("{} {step}:", kind.1), &mut differences);
        }
        seen.push(kind);
    }
    println!("builtins: {} objects, {steps} answers compared, {} places differ", seen.len(), differences.len());
    let missing: Vec<_> = known
        .iter()
        .filter(|(kind, served)| served.is_kept && !NOT_WRITTEN.contains(&kind.1.as_str()) && !seen.contains(kind))
        .map(|(kind, _)| kind)
        .collect();
    assert!(missing.is_empty(), "objects.jsonl has nothing of {missing:?}");
    assert!(differences.is_empty(), "{} places differ:\n{}", differences.len(), differences.join("\n"));
}

/// What the server makes by itself at its start, where a user looks for it.
#[tokio::test]
async fn the_objects_of_the_server_itself_are_the_same() {
    let Some((real, embedded)) = both().await else { return };
    let mut differences = Vec::new();
    for path in [
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
    ] {
        for accept in [JSON, TABLE] {
            let (mut theirs, mut ours) = (real.get(path, accept).await, embedded.get(path, accept).await);
            for list in [&mut theirs, &mut ours] {
                list["metadata"]["resourceVersion"].take();
                without_managers(list);
            }
            differing(&normal(theirs), &normal(ours), path, &mut differences);
        }
    }
    assert!(differences.is_empty(), "{} places differ:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test]
async fn services_are_given_what_nobody_has() {
    let Some((real, embedded)) = both().await else { return };
    let (theirs, ours) = (taken(&real).await, taken(&embedded).await);
    assert_eq!(theirs, ours);
}

/// What is said to those who ask for the address or the port of another, and the address as an object.
async fn taken(server: &Server) -> Vec<String> {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
    let service = |name: &str, extra: Value| {
        let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        for (key, value) in extra.as_object().unwrap() {
            service["spec"][key] = value.clone();
        }
        service
    };
    let first = server.send(Method::POST, SERVICES, JSON, &service("first", json!({}))).await.1;
    let address = text(&first["spec"]["clusterIP"]);
    let port = first["spec"]["ports"][0]["nodePort"].as_i64().expect("it was given a port");
    assert!((30000..=32767).contains(&port), "{port}");
    let mut said = Vec::new();
    for extra in [json!({"clusterIP": address}), json!({"ports": [{"port": 80, "nodePort": port}]})] {
        let refused = server.send(Method::POST, SERVICES, JSON, &service("second", extra)).await.1;
        said.push(text(&refused["message"]).replace(&address, "ADDRESS").replace(&port.to_string(), "PORT"));
    }
    // A change of its own takes nothing from anybody.
    let kept = server.send(Method::PUT, &format!("{SERVICES}/first"), JSON, &first).await.1;
    said.push(format!("kept {}", kept["spec"] == first["spec"]));
    let path = format!("{ADDRESSES}/{address}");
    let known = server.until(&path, |object| object["kind"] == "IPAddress").await;
    said.push(format!("{} {}", known["spec"], known["metadata"]["labels"]));
    let also = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": address},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "x"}}});
    let refused = server.send(Method::POST, ADDRESSES, JSON, &also).await.1;
    said.push(text(&refused["message"]).replace(&address, "ADDRESS"));
    server.send(Method::DELETE, &format!("{SERVICES}/first"), JSON, &json!({})).await;
    said.push(text(&server.until(&path, |object| object["kind"] == "Status").await["reason"]));
    let again = server.send(Method::POST, SERVICES, JSON, &service("third", json!({"clusterIP": address}))).await.1;
    said.push(format!("{} {}", again["kind"], again["spec"]["clusterIP"] == address));
    // What one type has no use for goes, and comes again with another.
    let third = format!("{SERVICES}/third");
    for spec in [
        json!({"type": "ExternalName", "externalName": "a.example.com"}),
        json!({"type": "LoadBalancer", "externalName": null, "externalTrafficPolicy": "Local"}),
        json!({"type": "ClusterIP"}),
    ] {
        let changed = server.send(Method::PATCH, &third, MERGE, &json!({"spec": spec})).await.0;
        said.push(changed["body"]["spec"].to_string());
    }
    server.send(Method::DELETE, &third, JSON, &json!({})).await;
    said
}

/// The steps of an object's life, each with the answer.
async fn life(server: &Server, served: &Served, known: &Kinds, plan: &Value) -> Vec<(String, Value)> {
    let object = &plan["object"];
    let (version, name) = (text(&object["apiVersion"]), text(&object["metadata"]["name"]));
    let collection = served.path(&version);
    let path = format!("{collection}/{name}");
    let mut steps = Vec::new();
    let mut took = |step: &str, answer: Value| steps.push((step.to_owned(), answer));
    let (made, _) = server.send(Method::POST, &collection, JSON, object).await;
    took("create", made);
    took("create again", server.send(Method::POST, &collection, JSON, object).await.0);
    server.settled(&path, served).await;
    took("table", normal(server.get(&path, TABLE).await));
    let current = server.settled(&path, served).await;
    took("replace by itself", server.send(Method::PUT, &path, JSON, &current).await.0);
    let labels = json!({"metadata": {"labels": {"tier": "web"}, "annotations": {"note": "hello"}}});
    took("label", server.send(Method::PATCH, &path, MERGE, &labels).await.0);
    server.settled(&path, served).await;
    if !plan["change"].is_null() {
        took("change", server.send(Method::PATCH, &path, MERGE, &plan["change"]).await.0);
        server.settled(&path, served).await;
    }
    let forced = format!("{path}?fieldManager=other&force=true");
    took("apply", server.send(Method::PATCH, &forced, APPLY, object).await.0);
    server.settled(&path, served).await;
    if !plan["status"].is_null() {
        let status = json!({"status": plan["status"]});
        took("status", server.send(Method::PATCH, &format!("{path}/status"), MERGE, &status).await.0);
        server.settled(&path, served).await;
        took("table with a status", normal(server.get(&path, TABLE).await));
    }
    for ((other, _), also) in known.iter().filter(|((_, kind), also)| {
        *kind == text(&object["kind"]) && also.plural == served.plural && also.group == served.group
    }) {
        let path = format!("{}/{name}", also.path(other));
        took(&format!("as {other}"), normal(server.get(&path, JSON).await));
        // Whoever reads it in one version and writes it back must not lose what another knows.
        let current = server.settled(&path, also).await;
        took(&format!("replace as {other}"), server.send(Method::PUT, &path, JSON, &current).await.0);
        took(&format!("then as {version}"), normal(server.get(&format!("{collection}/{name}"), JSON).await));
    }
    took("delete", server.send(Method::DELETE, &path, JSON, &json!({})).await.0);
    steps
}

/// A kind in one version.
#[derive(Debug)]
struct Served {
    group: String,
    plural: String,
    namespaced: bool,
    /// Its objects can be written and read again.
    is_kept: bool,
}

/// By `apiVersion` and kind.
type Kinds = BTreeMap<(String, String), Served>;

impl Served {
    fn path(&self, version: &str) -> String {
        let prefix = if version.contains('/') { "/apis" } else { "/api" };
        let namespace = if self.namespaced { "/namespaces/default" } else { "" };
        format!("{prefix}/{version}{namespace}/{}", self.plural)
    }
}

pub(super) struct Server(Scope);

pub(super) async fn both() -> Option<(Server, Server)> {
    let (real, embedded) = (control_plane(Kind::Real).await?, control_plane(Kind::Embedded).await?);
    let both = (Server::new(real).await, Server::new(embedded).await);
    for server in [&both.0, &both.1] {
        // Pods run as this account, which comes a moment after the start.
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        server.until(path, |object| object["kind"] == "ServiceAccount").await;
    }
    Some(both)
}

impl Server {
    async fn new(control_plane: ControlPlane) -> Self {
        Server(Scope::of(Arc::new(wire::Server::new(control_plane).await), "default".to_owned()))
    }

    pub(super) async fn get(&self, path: &str, accept: &str) -> Value {
        self.0.get_as(path, accept).await.unwrap().body
    }

    /// What is at a path, once it is as it should be.
    pub(super) async fn until(&self, path: &str, done: impl Fn(&Value) -> bool) -> Value {
        self.0.until(path, "as it should be", |answer| done(&answer.body)).await.unwrap().body
    }

    /// The object once those who watch over its kind have looked at it.
    async fn settled(&self, path: &str, served: &Served) -> Value {
        let done = |object: &Value| {
            let status = &object["status"];
            let seen = status["observedGeneration"] == object["metadata"]["generation"];
            let has =
                |kind: &str| status["conditions"].as_array().is_some_and(|list| list.iter().any(|c| c["type"] == kind));
            match served.plural.as_str() {
                "poddisruptionbudgets" | "validatingadmissionpolicies" => seen,
                "customresourcedefinitions" => has("Established"),
                "apiservices" => has("Available"),
                "flowschemas" => has("Dangling"),
                "resourcequotas" => status["hard"] == object["spec"]["hard"],
                _ => true,
            }
        };
        self.until(path, done).await
    }

    /// The answer with its code, and without what no two servers share; and as it came.
    pub(super) async fn send(&self, method: Method, path: &str, media: &str, body: &Value) -> (Value, Value) {
        let headers = [("Content-Type", media), ("User-Agent", "life")];
        let answer = self.0.send(method, path, &headers, body.to_string().into_bytes()).await.unwrap();
        let warnings: Vec<String> =
            answer.headers.get_all("warning").iter().map(|w| w.to_str().unwrap_or_default().to_owned()).collect();
        (json!({"code": answer.code, "warnings": warnings, "body": normal(answer.body.clone())}), answer.body)
    }

    async fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::new();
        let mut versions = vec![("/api/v1".to_owned(), String::new(), "v1".to_owned())];
        for group in self.get("/apis", JSON).await["groups"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                let version = text(&version["groupVersion"]);
                versions.push((format!("/apis/{version}"), text(&group["name"]), version));
            }
        }
        for (path, group, version) in versions {
            for resource in self.get(&path, JSON).await["resources"].as_array().unwrap() {
                let plural = text(&resource["name"]);
                if plural.contains('/') {
                    continue;
                }
                let verbs: Vec<String> = resource["verbs"].as_array().unwrap().iter().map(text).collect();
                let is_kept = ["create", "get"].iter().all(|verb| verbs.iter().any(|own| own == verb));
                let namespaced = resource["namespaced"] == true;
                let served = Served { group: group.clone(), plural, namespaced, is_kept };
                kinds.insert((version.clone(), text(&resource["kind"])), served);
            }
        }
        kinds
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Without identities, versions, times and ages.
fn normal(mut value: Value) -> Value {
    mask(&mut value);
    value
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(list) = map.get_mut("managedFields").and_then(Value::as_array_mut) {
                // Entries are ordered by time, which has seconds only.
                list.iter_mut().for_each(mask);
                list.sort_by_key(Value::to_string);
            }
            // Who asks for a signature has a uid on one of the servers only.
            if map.contains_key("signerName") {
                map.remove("uid");
            }
            for (key, field) in map.iter_mut() {
                match key.as_str() {
                    "uid"
                    | "resourceVersion"
                    | "creationTimestamp"
                    | "deletionTimestamp"
                    | "time"
                    | "lastTransitionTime"
                    | "lastUpdateTime"
                    | "timeAdded"
                    | "lastPhaseTransitionTime"
                        if field.is_string() =>
                    {
                        *field = "X".into();
                    }
                    "clusterIP" if field != "None" => *field = "ADDRESS".into(),
                    "clusterIPs" if field[0] != "None" => *field = "ADDRESS".into(),
                    "nodePort" | "healthCheckNodePort" => *field = "PORT".into(),
                    // What columns mean is prose.
                    "description" => *field = "".into(),
                    _ => mask(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => {
            let digits = text.trim_end_matches(['s', 'm']);
            if text.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.octets()[..2] != [10, 9]) {
                *text = "ADDRESS".to_owned();
            } else if text.starts_with("80:3") || text.starts_with("53:3") {
                *text = "PORTS".to_owned();
            } else if text.starts_with("kube-api-access-") {
                *text = "TOKEN".to_owned();
            } else if text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' {
                *text = "TIME".to_owned();
            } else if digits.len() + 1 == text.len() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                *text = "AGE".to_owned();
            } else if let Ok(parsed @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                // In which order the fields stand that an annotation holds means nothing.
                *text = parsed.to_string();
            }
        }
        _ => {}
    }
}

fn without_managers(list: &mut Value) {
    for field in ["items", "rows"] {
        for item in list.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            for path in ["/metadata", "/object/metadata"] {
                if let Some(metadata) = item.pointer_mut(path).and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
            }
        }
    }
}

/// Where two answers differ, one line per place.
pub(super) fn differing(theirs: &Value, ours: &Value, path: &str, lines: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let place = format!("{path}/{key}");
                match (a.get(key), b.get(key)) {
                    (Some(theirs), Some(ours)) => differing(theirs, ours, &place, lines),
                    (Some(theirs), None) => lines.push(format!("{place}: ours lacks {theirs}")),
                    (_, ours) => lines.push(format!("{place}: only ours has {}", ours.unwrap_or(&Value::Null))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (theirs, ours)) in a.iter().zip(b).enumerate() {
                differing(theirs, ours, &format!("{path}/{at}"), lines);
            }
        }
        (theirs, ours) if theirs != ours => lines.push(format!("{path}: real {theirs}, ours {ours}")),
        _ => {}
    }
}
