//! Plays sequences: steps become requests of one server, its answers become values that can be compared.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::normal::Names;
use super::plan::{KINDS, type_of};
use crate::behaviours::definitions::CRDS;
use crate::behaviours::wire::{APPLY, Answer, JSON, JSON_PATCH, MERGE, STRATEGIC, Scope, Server};

/// One server, one sequence, in a namespace of its own.
pub(super) struct Player {
    scope: Scope,
    names: Names,
    /// What the server said of each object: its versions, oldest first, and its last uid.
    known: HashMap<String, (Vec<String>, String)>,
    /// The version of each kind's list at the start.
    start: Vec<String>,
}

/// Defines the custom kind of the sequences.
pub(super) async fn prepare(server: &Arc<Server>) -> Result<()> {
    let scope = Scope::create(Arc::clone(server), "prepare".to_owned()).await?;
    let integer = json!({"type": "integer"});
    let spec = json!({"type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.size) || !has(self.color) || self.color != 'loud' || self.size > 3", "message": "loud ones are large"}],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "default": 1}, "color": {"type": "string", "enum": ["red", "blue", "loud"]}, "replicas": integer,
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "maxItems": 5,
                "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "maxLength": 3}, "count": {"type": "integer", "maximum": 9}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "order": {"type": "array", "x-kubernetes-list-type": "atomic", "items": integer},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "inner": {"type": "object", "properties": {"fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}, "extra": {"type": "string", "default": "given"}}}}});
    let condition = json!({"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}});
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": condition}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.random.example.com"},
        "spec": {"group": "random.example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}}]}});
    scope.post(CRDS, &definition).await?.expect(201)?;
    scope.until("/apis/random.example.com/v1/gadgets", "the kind", |answer| answer.code == 200).await.map(drop)
}

impl Player {
    pub(super) async fn start(server: Arc<Server>, name: &str) -> Result<Self> {
        let scope = Scope::create(server, name.to_owned()).await?;
        let mut player = Player { scope, names: Names::default(), known: HashMap::new(), start: Vec::new() };
        for kind in KINDS {
            let list = player.scope.get(&player.path(kind, "")).await?.expect(200)?;
            player.start.push(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned());
        }
        Ok(player)
    }

    fn path(&self, kind: &str, rest: &str) -> String {
        match type_of(kind).0 {
            "v1" => self.scope.core(&format!("{kind}{rest}")),
            version => self.scope.path(version, &format!("{kind}{rest}")),
        }
    }

    pub(super) async fn play(&mut self, step: &Value) -> Result<Value> {
        let text = |field: &str| step[field].as_str().unwrap_or_default();
        let (kind, name, query) = (text("kind"), text("name"), text("query"));
        let sub = if text("sub").is_empty() { String::new() } else { format!("/{}", text("sub")) };
        let path = self.path(kind, &format!("/{name}{sub}?{query}"));
        let answer = match text("do") {
            "create" => self.scope.post(&self.path(kind, &format!("?{query}")), &step["body"]).await?,
            "replace" => return self.replace(step, kind, name, &path).await,
            "patch" => {
                let media = match text("type") {
                    "merge" => MERGE,
                    "json" => JSON_PATCH,
                    "strategic" => STRATEGIC,
                    _ => APPLY,
                };
                self.scope.patch(&path, media, &step["body"]).await?
            }
            "delete" => {
                let mut options = step["options"].clone();
                let (versions, uid) = self.known.get(&format!("{kind}/{name}")).cloned().unwrap_or_default();
                match text("uid") {
                    "right" if !uid.is_empty() => options["preconditions"]["uid"] = uid.into(),
                    "wrong" => options["preconditions"]["uid"] = "wrong".into(),
                    _ => {}
                }
                if let Some(version) = chosen(&versions, text("version")) {
                    options["preconditions"]["resourceVersion"] = version.into();
                }
                self.scope.delete_with(&path, &options).await?
            }
            "get" if text("accept") == "metadata" => {
                self.scope.get_as(&path, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").await?
            }
            "get" => self.scope.get(&path).await?,
            "list" => return self.pages(kind, query).await,
            _ => {
                let path = self.path(kind, &format!("?{query}"));
                self.scope.send(Method::DELETE, &path, &[("Content-Type", JSON)], Vec::new()).await?
            }
        };
        Ok(self.told(kind, answer))
    }

    /// A PUT of what is there with a change, naming one version or another.
    async fn replace(&mut self, step: &Value, kind: &str, name: &str, path: &str) -> Result<Value> {
        let stored = self.scope.get(&self.path(kind, &format!("/{name}"))).await?;
        let (version, own) = type_of(kind);
        let mut body = match stored.code {
            200 => stored.body,
            _ => json!({"apiVersion": version, "kind": own, "metadata": {"name": name}}),
        };
        merge(&mut body, &step["change"]);
        let (versions, _) = self.known.get(&format!("{kind}/{name}")).cloned().unwrap_or_default();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            match step["version"].as_str().unwrap_or_default() {
                "current" => {}
                "garbage" => drop(metadata.insert("resourceVersion".into(), "garbage".into())),
                word => match chosen(&versions, word) {
                    Some(version) => drop(metadata.insert("resourceVersion".into(), version.into())),
                    None => drop(metadata.remove("resourceVersion")),
                },
            }
        }
        let answer = self.scope.put(path, &body).await?;
        Ok(self.told(kind, answer))
    }

    /// A list to its end, page by page.
    async fn pages(&mut self, kind: &str, query: &str) -> Result<Value> {
        let mut pages = Vec::new();
        let mut token = String::new();
        for _ in 0..5 {
            let answer = self.scope.get(&self.path(kind, &format!("?{query}&continue={token}"))).await?;
            token = answer.body["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            pages.push(self.told(kind, answer));
            if token.is_empty() {
                break;
            }
        }
        Ok(pages.into())
    }

    /// Everything that happened to each kind, as a watch from the start tells it.
    pub(super) async fn watches(&mut self, steps: &[Value]) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for (kind, start) in KINDS.into_iter().zip(self.start.clone()) {
            if !steps.iter().any(|step| step["kind"] == kind) {
                continue;
            }
            let path = self.path(kind, &format!("?watch=true&timeoutSeconds=1&resourceVersion={start}"));
            let mut watch = self.scope.watch(&path).await?;
            let mut events = Vec::new();
            while let Some(event) = watch.next().await? {
                events.push(self.names.normal(event));
            }
            all.push(telling(events).into());
        }
        Ok(all)
    }

    /// An answer that can be compared; what it says of versions and uids is remembered.
    fn told(&mut self, kind: &str, answer: Answer) -> Value {
        let metadata = &answer.body["metadata"];
        if let (Some(name), Some(version)) = (metadata["name"].as_str(), metadata["resourceVersion"].as_str()) {
            let known = self.known.entry(format!("{kind}/{name}")).or_default();
            if known.0.last().is_none_or(|last| last != version) {
                known.0.push(version.to_owned());
            }
            known.1 = metadata["uid"].as_str().unwrap_or_default().to_owned();
        }
        let warnings: Vec<Value> =
            answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).map(Value::from).collect();
        let body = if answer.body.is_null() { answer.text.into() } else { answer.body };
        json!({"code": answer.code, "warnings": self.names.normal(warnings.into()), "body": self.names.normal(body)})
    }
}

/// Events without those that tell nothing new of a custom object.
///
/// The real server stores what was applied as it came, a null annotation or an empty list of finalizers for instance, and reads
/// it as if it had been left out. So the first write that changes nothing still changes what is stored, and nobody can see by
/// what. Built-in kinds are stored as they are read, and every event of them counts.
fn telling(events: Vec<Value>) -> Vec<Value> {
    let mut last: HashMap<String, Value> = HashMap::new();
    let mut kept = Vec::new();
    for event in events {
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let before = last.insert(name, object.clone());
        if event["type"] == "MODIFIED" && object["kind"] == "Gadget" && before.as_ref() == Some(object) {
            continue;
        }
        kept.push(event);
    }
    kept
}

fn chosen(versions: &[String], word: &str) -> Option<String> {
    match word {
        "current" => versions.last().cloned(),
        "stale" => versions.first().cloned(),
        _ => None,
    }
}

fn merge(target: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else { return };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in change {
        match value {
            Value::Null => drop(target.as_object_mut().context("an object").map(|map| map.remove(key))),
            Value::Object(_) => merge(&mut target[key], value),
            other => target[key] = other.clone(),
        }
    }
}
