//! Mutating policies on the real server and on the embedded one: what is refused, and what becomes of objects.
//!
//! Every line of `patches.txt` is a kind of object, a kind of patch (`A` merges an object, `J` is a JSON patch) and an
//! expression. All policies are written first, each for the objects of its own label, and then one object for each.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ADMISSION, DEFINITIONS, Server, changed, lines, stories, told};
use crate::waiting::{Look, eventually};

const PATCHES: &str = include_str!("mutations/patches.txt");
const POLICIES: &str = include_str!("mutations/policies.txt");
const BINDINGS: &str = include_str!("mutations/bindings.txt");

pub(super) async fn answers(server: &Server, answers: &mut BTreeMap<String, Value>) {
    for line in lines(POLICIES) {
        let path = format!("{ADMISSION}/mutatingadmissionpolicies?dryRun=All");
        let (code, answer) = server.send("POST", &path, &changed(policy("tried", "A", "Object{}"), line)).await;
        answers.insert(format!("mutating policy {line}"), told(code, &answer));
    }
    for line in lines(BINDINGS) {
        let path = format!("{ADMISSION}/mutatingadmissionpolicybindings?dryRun=All");
        let (code, answer) = server.send("POST", &path, &changed(binding("tried"), line)).await;
        answers.insert(format!("mutating binding {line}"), told(code, &answer));
    }
    server.send("POST", DEFINITIONS, &definition()).await;
    let mut tries = Vec::new();
    for (number, line) in lines(PATCHES).enumerate() {
        let name = format!("case-{number}");
        let [kind, patch, expression] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (code, answer) = server.install(&name, policy(&name, patch, expression), binding(&name)).await;
        match code {
            201 => tries.push((line, object(kind, &name))),
            _ => drop(answers.insert(format!("patch {line}"), told(code, &answer))),
        }
    }
    let stories = stories::all();
    for story in &stories {
        story.begin(server).await;
    }
    // What was written last takes effect last, and the types of custom kinds are known a while after them.
    server.install("last", policy("last", "A", "Object{spec: Object.spec{text: 'last'}}"), binding("last")).await;
    eventually("the last policy", || async {
        let (path, object) = object("sample", "last");
        let (_, answer) = server.send("POST", &format!("{path}?dryRun=All"), &object).await;
        let there = answer["spec"]["text"] == "last";
        Ok(if there { Look::There(()) } else { Look::NotYet(answer.to_string()) })
    })
    .await
    .unwrap();
    for (line, (path, object)) in tries {
        let (code, answer) = server.send("POST", &format!("{path}?dryRun=All"), &object).await;
        answers.insert(format!("patch {line}"), outcome(code, &answer));
    }
    for story in &stories {
        story.tell(server, answers).await;
    }
}

impl Server {
    /// Writes a policy and its binding.
    pub(super) async fn install(&self, name: &str, policy: Value, binding: Value) -> (u16, Value) {
        let (code, answer) = self.send("POST", &format!("{ADMISSION}/mutatingadmissionpolicies"), &policy).await;
        if code != 201 {
            return (code, answer);
        }
        let (code, answer) = self.send("POST", &format!("{ADMISSION}/mutatingadmissionpolicybindings"), &binding).await;
        assert_eq!(code, 201, "{name}: {answer}");
        (code, answer)
    }
}

/// What came back: a refusal, or the object without what differs from one write to the next.
pub(super) fn outcome(code: u16, answer: &Value) -> Value {
    if answer["kind"] == "Status" {
        let mut answer = answer.clone();
        if let Some(details) = answer["details"].as_object_mut() {
            details.remove("uid");
        }
        let told = json!({"code": code, "reason": answer["reason"], "message": answer["message"],
            "details": answer["details"]});
        // Some texts of the real server have spaces of another kind, depending on how it was built.
        return serde_json::from_str(&told.to_string().replace('\u{a0}', " ")).unwrap();
    }
    let mut object = answer.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp", "resourceVersion"] {
            metadata.remove(field);
        }
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            entry["time"].take();
        }
    }
    json!({"code": code, "object": object})
}

pub(super) fn mutation(patch: &str, expression: &str) -> Value {
    let (kind, field) = match patch {
        "J" => ("JSONPatch", "jsonPatch"),
        _ => ("ApplyConfiguration", "applyConfiguration"),
    };
    json!({"patchType": kind, field: {"expression": expression}})
}

/// A policy for new objects whose label `case` is its name.
pub(super) fn policy(name: &str, patch: &str, expression: &str) -> Value {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"],
        "resources": ["configmaps", "pods", "deployments", "services", "patches"]});
    let variables = json!([{"name": "one", "expression": "'1'"}, {"name": "two", "expression": "2"},
        {"name": "bad", "expression": "object.none"}]);
    let spec = json!({"reinvocationPolicy": "Never", "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": variables, "mutations": [mutation(patch, expression)],
        "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": {"case": name}}}});
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec})
}

pub(super) fn binding(name: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name}})
}

/// An object with the label of a case, and where it is created.
pub(super) fn object(kind: &str, name: &str) -> (&'static str, Value) {
    let metadata = json!({"name": name, "labels": {"case": name}, "annotations": {"x": "y"}});
    let env = json!([{"name": "E", "value": "1"}]);
    let containers = json!([{"name": "a", "image": "i", "env": env, "command": ["c"]}, {"name": "b", "image": "j"}]);
    let (path, version, own, rest) = match kind {
        "cm" => ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap", json!({"data": {"a": "1", "b": "2"}})),
        "pod" => {
            let spec = json!({"automountServiceAccountToken": false, "containers": containers});
            ("/api/v1/namespaces/default/pods", "v1", "Pod", json!({"spec": spec}))
        }
        "deploy" => {
            let template = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"containers": containers}});
            let spec = json!({"replicas": 2, "selector": {"matchLabels": {"x": "y"}}, "template": template});
            ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment", json!({"spec": spec}))
        }
        "svc" => {
            let spec = json!({"clusterIP": "None", "ports": [{"port": 80, "name": "http"}], "selector": {"x": "y"}});
            ("/api/v1/namespaces/default/services", "v1", "Service", json!({"spec": spec}))
        }
        _ => {
            let spec = json!({"number": 7, "text": "t", "list": ["a"], "set": ["a", "b"], "m": {"k": "v"},
                "keyed": [{"name": "a", "v": 1}, {"name": "b", "v": 2}], "atom": {"x": "1", "y": "2"}, "o": {"a": "A"},
                "free": {"f": 1}});
            let path = "/apis/mutations.dev/v1/namespaces/default/patches";
            (path, "mutations.dev/v1", "Patch", json!({"spec": spec}))
        }
    };
    let object = json!({"apiVersion": version, "kind": own, "metadata": metadata});
    (path, schema::patch::merge(&object, &rest))
}

fn definition() -> Value {
    let text = json!({"type": "string"});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": text, "v": {"type": "integer"}}}});
    let spec = json!({"type": "object", "properties": {
        "number": {"type": "integer", "maximum": 100}, "text": text, "list": {"type": "array", "items": text},
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"}, "keyed": keyed,
        "m": {"type": "object", "additionalProperties": text},
        "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": text, "y": text}},
        "o": {"type": "object", "properties": {"a": text, "b": {"type": "string", "default": "B"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "ios": {"x-kubernetes-int-or-string": true}, "d": {"type": "number"},
        "t": {"type": "string", "format": "date-time"}, "nullable": {"type": "string", "nullable": true},
        "namespace": text, "a-b": text,
    }});
    let status = json!({"type": "object", "properties": {"a": text}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    let version =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "patches.mutations.dev"},
        "spec": {"group": "mutations.dev", "scope": "Namespaced",
            "names": {"plural": "patches", "singular": "patch", "kind": "Patch", "listKind": "PatchList"},
            "versions": [version("v1", true), version("v2", false)]}})
}
