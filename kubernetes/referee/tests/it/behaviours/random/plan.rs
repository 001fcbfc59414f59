//! Makes sequences up: mostly sensible requests, some that no server should accept.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

pub(super) const KINDS: [&str; 5] = ["secrets", "deployments", "leases", "roles", "gadgets"];

pub(super) fn sequence(seed: u64, steps: usize) -> Vec<Value> {
    let mut dice = Dice::new(seed);
    // Two kinds a sequence: few objects that much happens to.
    let kinds = [dice.pick(&KINDS), dice.pick(&KINDS)];
    (0..steps).map(|_| step(&mut dice, kinds)).collect()
}

fn step(dice: &mut Dice, kinds: [&str; 2]) -> Value {
    let kind = dice.pick(&kinds);
    let name = dice.pick(&["a", "b", "c"]);
    match dice.roll(20) {
        0..4 => json!({"do": "create", "kind": kind, "body": object(dice, kind, name), "query": query(dice)}),
        4..6 => {
            let version = dice.pick(&["current", "current", "stale", "none", "garbage"]);
            json!({"do": "replace", "kind": kind, "name": name, "change": change(dice, kind), "version": version, "query": query(dice)})
        }
        6..8 => {
            json!({"do": "patch", "type": "merge", "kind": kind, "name": name, "body": change(dice, kind), "query": query(dice), "sub": sub(dice, kind)})
        }
        8..10 => {
            json!({"do": "patch", "type": "json", "kind": kind, "name": name, "body": operations(dice, kind), "query": query(dice), "sub": ""})
        }
        10 => {
            json!({"do": "patch", "type": "strategic", "kind": kind, "name": name, "body": strategic(dice, kind), "query": query(dice), "sub": ""})
        }
        11..15 => {
            let mut body = object(dice, kind, name);
            if dice.one_in(4) && !matches!(kind, "secrets" | "roles") {
                body["spec"] = Value::Null;
            }
            let manager = dice.pick(&["one", "two"]);
            let force = dice.pick(&["", "", "&force=true", "&force=false"]);
            let query = format!("{}&fieldManager={manager}{force}", query(dice));
            json!({"do": "patch", "type": "apply", "kind": kind, "name": name, "body": body, "query": query, "sub": sub(dice, kind)})
        }
        15..17 => {
            let uid = dice.pick(&["none", "none", "right", "wrong"]);
            let version = dice.pick(&["none", "none", "current", "stale"]);
            let mut options = Map::new();
            if dice.one_in(3) {
                options.insert("propagationPolicy".into(), dice.pick(&["Background", "Background", "Sideways"]).into());
            }
            if dice.one_in(6) {
                options.insert("dryRun".into(), json!(["All"]));
            }
            json!({"do": "delete", "kind": kind, "name": name, "options": options, "uid": uid, "version": version})
        }
        17 => {
            json!({"do": "get", "kind": kind, "name": name, "accept": dice.pick(&["", "metadata"]), "sub": sub(dice, kind)})
        }
        18 => {
            let selector = dice.pick(&[
                "",
                "",
                "labelSelector=x%3Done",
                "labelSelector=x!%3Done,y",
                "labelSelector=x+in+(one,two)",
                "fieldSelector=metadata.name%3Db",
                "labelSelector=bad+(",
                "fieldSelector=spec.nothing%3D1",
            ]);
            let limit = dice.pick(&["", "limit=1", "limit=2", "limit=x"]);
            json!({"do": "list", "kind": kind, "query": format!("{selector}&{limit}")})
        }
        _ => {
            json!({"do": "empty", "kind": kind, "query": dice.pick(&["labelSelector=x%3Done", "labelSelector=y", "fieldSelector=metadata.name%3Dc"])})
        }
    }
}

fn query(dice: &mut Dice) -> String {
    let validation = dice.pick(&[
        "",
        "",
        "fieldValidation=Strict",
        "fieldValidation=Warn",
        "fieldValidation=Ignore",
        "fieldValidation=Odd",
    ]);
    let run = if dice.one_in(8) { dice.pick(&["&dryRun=All", "&dryRun=All", "&dryRun=Some"]) } else { "" };
    format!("{validation}{run}")
}

fn sub(dice: &mut Dice, kind: &str) -> &'static str {
    if matches!(kind, "gadgets" | "deployments") && dice.one_in(4) { "status" } else { "" }
}

fn metadata(dice: &mut Dice) -> Map<String, Value> {
    let mut metadata = Map::new();
    if dice.one_in(2) {
        let mut labels = Map::new();
        for key in ["x", "y", "example.com/z"] {
            if dice.one_in(2) {
                labels.insert(key.into(), dice.pick(&["one", "two", "three", ""]).into());
            }
        }
        if dice.one_in(15) {
            labels.insert("bad key!".into(), "v".into());
        }
        if dice.one_in(15) {
            labels.insert("x".into(), "bad value!".into());
        }
        metadata.insert("labels".into(), labels.into());
    }
    if dice.one_in(4) {
        let value = if dice.one_in(4) { Value::Null } else { dice.pick(&["note", "other", ""]).into() };
        metadata.insert("annotations".into(), json!({"note": value}));
    }
    if dice.one_in(10) {
        metadata.insert("finalizers".into(), json!([dice.pick(&["example.com/hold", "example.com/keep", "bad"])]));
    } else if dice.one_in(8) {
        metadata.insert("finalizers".into(), json!([]));
    }
    metadata
}

fn object(dice: &mut Dice, kind: &str, name: &str) -> Value {
    let mut value = content(dice, kind);
    let mut metadata = metadata(dice);
    metadata.insert("name".into(), name.into());
    value["metadata"] = metadata.into();
    let (version, kind) = type_of(kind);
    value["apiVersion"] = version.into();
    value["kind"] = kind.into();
    if dice.one_in(12) {
        value["surprise"] = small(dice).into();
    }
    if dice.one_in(30) {
        value["kind"] = "Wrong".into();
    }
    value
}

pub(super) fn type_of(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "secrets" => ("v1", "Secret"),
        "deployments" => ("apps/v1", "Deployment"),
        "leases" => ("coordination.k8s.io/v1", "Lease"),
        "roles" => ("rbac.authorization.k8s.io/v1", "Role"),
        _ => ("random.example.com/v1", "Gadget"),
    }
}

/// All of an object but its metadata.
fn content(dice: &mut Dice, kind: &str) -> Value {
    match kind {
        "secrets" => {
            let mut secret = Map::new();
            let data: Map<String, Value> = ["k", "l", "m"]
                .into_iter()
                .filter(|_| dice.one_in(2))
                .map(|key| (key.to_owned(), json!("dmFsdWU=")))
                .collect();
            secret.insert("data".into(), data.into());
            if dice.one_in(4) {
                secret.insert("stringData".into(), json!({"s": dice.pick(&["text", ""])}));
            }
            if dice.one_in(6) {
                secret.insert("type".into(), dice.pick(&["Opaque", "example.com/t"]).into());
            }
            if dice.one_in(12) {
                secret.insert("immutable".into(), dice.one_in(2).into());
            }
            if dice.one_in(12) {
                secret.insert("data".into(), json!({"k": dice.pick(&["not base64", "x"])}));
            }
            secret.into()
        }
        "deployments" => {
            let containers: Vec<Value> = ["c", "d"]
                .into_iter()
                .take(1 + usize::from(dice.one_in(3)))
                .map(|name| container(dice, name))
                .collect();
            let mut spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": if dice.one_in(15) { "z" } else { "x" }}}, "spec": {"containers": containers}}});
            if dice.one_in(2) {
                spec["replicas"] = small(dice).into();
            }
            if dice.one_in(4) {
                spec["strategy"] = json!({"type": dice.pick(&["Recreate", "RollingUpdate"])});
            }
            if dice.one_in(5) {
                spec["paused"] = dice.one_in(2).into();
            }
            json!({"spec": spec})
        }
        "leases" => {
            let mut spec = Map::new();
            if dice.one_in(2) {
                spec.insert("holderIdentity".into(), dice.pick(&["me", "you", ""]).into());
            }
            if dice.one_in(2) {
                spec.insert("leaseDurationSeconds".into(), small(dice).into());
            }
            if dice.one_in(4) {
                spec.insert("leaseTransitions".into(), small(dice).into());
            }
            if dice.one_in(5) {
                spec.insert("renewTime".into(), dice.pick(&["2026-01-02T03:04:05.000006Z", "yesterday"]).into());
            }
            json!({"spec": spec})
        }
        "roles" => {
            let rule = |dice: &mut Dice| json!({"apiGroups": [""], "resources": [dice.pick(&["pods", "secrets"])], "verbs": [dice.pick(&["get", "list"])]});
            let count = 1 + dice.roll(2);
            json!({"rules": (0..count).map(|_| rule(dice)).collect::<Vec<_>>()})
        }
        _ => gadget(dice),
    }
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let mut container = json!({"name": name, "image": dice.pick(&["image:1", "image:2", "image"])});
    if dice.one_in(3) {
        container["env"] = json!([{"name": dice.pick(&["A", "B"]), "value": dice.pick(&["1", "2", ""])}]);
    }
    if dice.one_in(4) {
        container["ports"] = json!([{"containerPort": dice.pick(&[80, 81, 99]), "name": name}]);
    }
    if dice.one_in(5) {
        container["resources"] = json!({"limits": {"cpu": dice.pick(&["1", "500m", "2"])}});
    }
    container
}

fn gadget(dice: &mut Dice) -> Value {
    let mut spec = Map::new();
    if dice.one_in(2) {
        spec.insert("size".into(), small(dice).into());
    }
    if dice.one_in(3) {
        spec.insert("color".into(), dice.pick(&["red", "blue", "loud"]).into());
    }
    if dice.one_in(2) {
        let mut parts: Vec<Value> = Vec::new();
        for id in ["p", "q", "r"] {
            if dice.one_in(2) {
                parts.push(json!({"id": id, "count": small(dice)}));
            }
        }
        spec.insert("parts".into(), parts.into());
    }
    if dice.one_in(3) {
        spec.insert("tags".into(), json!([dice.pick(&["t", "u"]), dice.pick(&["v", "u"])]));
    }
    if dice.one_in(3) {
        spec.insert("order".into(), json!([small(dice), small(dice)]));
    }
    if dice.one_in(3) {
        spec.insert("free".into(), json!({"a": {"b": small(dice)}}));
    }
    if dice.one_in(6) {
        spec.insert("inner".into(), json!({"fixed": dice.pick(&["one", "two"])}));
    }
    if dice.one_in(10) {
        spec.insert("unknown".into(), 1.into());
    }
    let mut value = json!({"spec": spec});
    if dice.one_in(4) {
        value["status"] = json!({"ready": dice.one_in(2), "conditions": [{"type": dice.pick(&["A", "B"]), "status": dice.pick(&["True", "False"])}]});
    }
    value
}

/// A merge patch.
fn change(dice: &mut Dice, kind: &str) -> Value {
    let mut change = if dice.one_in(3) { json!({}) } else { content(dice, kind) };
    let metadata = metadata(dice);
    if !metadata.is_empty() {
        change["metadata"] = metadata.into();
    }
    if dice.one_in(6) {
        change["spec"] = dice
            .pick(&[Some("replicas"), Some("size"), Some("holderIdentity"), None])
            .map_or(Value::Null, |field| json!({field: null}));
    }
    if dice.one_in(25) {
        change = json!([]);
    }
    change
}

fn operations(dice: &mut Dice, kind: &str) -> Value {
    let count = 1 + dice.roll(2);
    let one = |dice: &mut Dice| {
        let path = match (kind, dice.roll(5)) {
            (_, 0) => "/metadata/labels/x",
            (_, 1) => "/metadata/annotations",
            ("secrets", _) => "/data/k",
            ("deployments", 2) => "/spec/template/spec/containers/0/image",
            ("deployments" | "gadgets", 3) => "/spec/replicas",
            ("gadgets", 2) => "/spec/parts/0",
            ("gadgets", _) => "/spec/size",
            ("leases", _) => "/spec/holderIdentity",
            (_, 4) => "/rules/-",
            _ => "/nothing/here",
        };
        let verb = dice.pick(&["add", "add", "replace", "remove", "test", "copy", "move"]);
        let value = match path {
            "/metadata/annotations" => json!({"note": "patched"}),
            "/spec/replicas" | "/spec/size" => small(dice).into(),
            "/spec/parts/0" => json!({"id": dice.pick(&["p", "z"]), "count": 1}),
            "/rules/-" => json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}),
            "/data/k" => "cGF0Y2hlZA==".into(),
            _ => "patched".into(),
        };
        match verb {
            "remove" => json!({"op": verb, "path": path}),
            "copy" | "move" => {
                let from = dice.pick(&["/metadata/labels/y", "/metadata/annotations/note", "/data/l", "/spec/size"]);
                json!({"op": verb, "from": from, "path": path})
            }
            _ => json!({"op": verb, "path": path, "value": value}),
        }
    };
    (0..count).map(|_| one(dice)).collect::<Vec<_>>().into()
}

fn strategic(dice: &mut Dice, kind: &str) -> Value {
    if kind != "deployments" {
        return change(dice, kind);
    }
    let name = dice.pick(&["c", "d", "e"]);
    let mut one = container(dice, name);
    match dice.roll(5) {
        0 => one["$patch"] = "delete".into(),
        1 => drop(one.as_object_mut().and_then(|one| one.remove("image"))),
        2 => one["env"] = json!([{"name": "A", "$patch": "delete"}, {"name": "C", "value": "3"}]),
        _ => {}
    }
    json!({"spec": {"template": {"spec": {"containers": [one]}}}})
}

fn small(dice: &mut Dice) -> i64 {
    i64::try_from(dice.roll(12)).expect("small") - 1
}
