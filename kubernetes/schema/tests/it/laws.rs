//! Laws of server-side apply, on random configurations and histories.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use schema::{
    Schema,
    managed::{self, ApplyError, Writer},
    patch,
};
use serde_json::{Map, Value, json};

static KIND: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    Arc::new(Schema::custom(
        Some(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": text, "b": text,
            "o": {"type": "object", "properties": {"x": text, "y": text}},
            "m": {"type": "object", "additionalProperties": text},
            "at": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
            "l": {"type": "array", "items": text},
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "k": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                  "items": {"type": "object", "required": ["n"], "properties": {"n": text, "v": text, "w": text}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}})),
        false,
    ))
});

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, api_version: "g.example/v1", subresource: "", time: "2026-01-01T00:00:00Z" }
}

fn word() -> impl Strategy<Value = Value> {
    prop::sample::select(vec!["1", "2"]).prop_map(Value::from)
}

fn some_map(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(keys.to_vec()), word(), 0..3)
        .prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_string(), v)).collect()))
}

fn element() -> impl Strategy<Value = Value> {
    (prop::option::of(word()), prop::option::of(word())).prop_map(|(v, w)| {
        let fields = [("v", v), ("w", w)].into_iter().filter_map(|(k, v)| Some((k.to_string(), v?)));
        Value::Object(fields.collect::<Map<_, _>>())
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let keyed = prop::collection::btree_map(prop::sample::select(vec!["p", "q", "r"]), element(), 0..3);
    let keyed = keyed.prop_map(|map| {
        let list = map.into_iter().map(|(name, mut element)| {
            element["n"] = name.into();
            element
        });
        Value::Array(list.collect())
    });
    let set = prop::collection::btree_set(prop::sample::select(vec!["d", "e", "f"]), 0..3);
    let set = set.prop_map(|set| Value::Array(set.into_iter().map(Value::from).collect()));
    let free = prop::sample::select(vec![json!({"z": 1}), json!({"z": {"y": [1]}}), json!({})]);
    let list = prop::collection::vec(word(), 0..3).prop_map(Value::Array);
    let optional = (
        prop::option::of(word()),
        prop::option::of(some_map(&["x", "y"])),
        prop::option::of(some_map(&["i", "j"])),
        prop::option::of(some_map(&["i", "j"])),
        prop::option::of(list),
        prop::option::of(set),
        prop::option::of(keyed),
        prop::option::of(free),
    );
    optional.prop_map(|(a, o, m, at, l, s, k, free)| {
        let fields = [("a", a), ("o", o), ("m", m), ("at", at), ("l", l), ("s", s), ("k", k), ("free", free)];
        let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
        json!({
            "apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "one"},
            "spec": fields.collect::<Map<_, _>>(),
        })
    })
}

/// An object with a history: some applied, some patched.
fn live() -> impl Strategy<Value = Value> {
    prop::collection::vec((spec(), prop::sample::select(vec!["x", "y", "z"]), any::<bool>()), 1..5).prop_map(|writes| {
        let mut live: Option<Value> = None;
        for (object, manager, by_apply) in writes {
            live = Some(match (&live, by_apply) {
                (Some(before), false) => {
                    let mut patched = patch::merge(before, &object);
                    managed::update(&KIND, Some(before), &mut patched, &writer(manager), &[]);
                    patched
                }
                (before, _) => {
                    managed::apply(&KIND, before.as_ref(), &object, &writer(manager), true, &[]).unwrap().object
                }
            });
        }
        live.unwrap()
    })
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing(live in live(), config in spec()) {
        let once = managed::apply(&KIND, Some(&live), &config, &writer("me"), true, &[]).unwrap().object;
        let twice = managed::apply(&KIND, Some(&once), &config, &writer("me"), false, &[]).unwrap();
        prop_assert!(!twice.changed);
        prop_assert!(managed::same_but_for_times(&once, &twice.object));
    }

    #[test]
    fn force_leaves_no_conflict(live in live(), config in spec()) {
        let outcome = managed::apply(&KIND, Some(&live), &config, &writer("me"), true, &[]);
        prop_assert!(outcome.is_ok());
    }

    #[test]
    fn what_is_applied_is_there(live in live(), config in spec()) {
        let after = managed::apply(&KIND, Some(&live), &config, &writer("me"), true, &[]).unwrap().object;
        for key in ["a", "b", "at", "l"] {
            if let Some(value) = config["spec"].get(key) {
                prop_assert_eq!(&after["spec"][key], value);
            }
        }
        for (key, value) in config["spec"]["m"].as_object().into_iter().flatten() {
            prop_assert_eq!(&after["spec"]["m"][key], value);
        }
    }

    #[test]
    fn without_conflict_no_other_managers_value_changes(live in live(), config in spec()) {
        match managed::apply(&KIND, Some(&live), &config, &writer("me"), false, &[]) {
            Err(ApplyError::Conflict(conflicts)) => prop_assert!(!conflicts.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
            Ok(applied) => {
                // Forcing the same changes nothing more.
                let forced = managed::apply(&KIND, Some(&live), &config, &writer("me"), true, &[]).unwrap();
                prop_assert_eq!(applied.object, forced.object);
            }
        }
    }

    #[test]
    fn applying_nothing_gives_everything_back(config in spec()) {
        let empty = json!({"apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "one"}});
        let mine = managed::apply(&KIND, None, &config, &writer("me"), true, &[]).unwrap().object;
        let after = managed::apply(&KIND, Some(&mine), &empty, &writer("me"), false, &[]).unwrap().object;
        let managers = after["metadata"]["managedFields"].as_array().into_iter().flatten();
        prop_assert!(managers.filter(|m| m["manager"] == "me").count() == 0, "{after}");
        let left = after["spec"].as_object().is_none_or(|spec| spec.values().all(|v| v == &json!([]) || v.is_null()));
        prop_assert!(left, "{after}");
    }

    #[test]
    fn an_update_that_changes_nothing_is_not_tracked(live in live()) {
        let mut same = live.clone();
        managed::update(&KIND, Some(&live), &mut same, &writer("stranger"), &[]);
        prop_assert_eq!(same, live);
    }

    #[test]
    fn no_object_panics(text in r#"\{"metadata":(\{\}|1|\[\]),"spec":(\{"(a|k|s|m|free)":(1|"x"|\[\{\}\]|\[1,1\]|null|\{"n":[1-2]\})\}|1|null)\}"#) {
        let value: Value = serde_json::from_str(&text).unwrap();
        let _ = KIND.validate(&value, Some(&value));
        let mut pruned = value.clone();
        KIND.prune(&mut pruned);
        KIND.default(&mut pruned);
        let _ = managed::apply(&KIND, Some(&value), &value, &writer("me"), true, &[]);
        managed::update(&KIND, Some(&json!({})), &mut pruned, &writer("me"), &[]);
    }
}
