//! Strategic merge patches: lists merge by key where the schema says so, and directives steer the rest.

use serde_json::{Map, Value};

use super::PatchError;
use crate::node::{Id, Node, Schema};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Applies a strategic merge patch to an object of a built-in kind.
///
/// # Errors
/// The patch is no object, or uses a directive in a way that has no meaning.
pub fn strategic(schema: &Schema, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let (Value::Object(original), Value::Object(patch)) = (object, patch) else {
        return Err(bad("invalid JSON document"));
    };
    let merged = merge_maps(schema, Some(schema.root), original.clone(), patch)?;
    Ok(Value::Object(merged))
}

fn bad(text: &str) -> PatchError {
    PatchError::BadRequest(text.to_string())
}

type Object = Map<String, Value>;

fn merge_maps(schema: &Schema, id: Option<Id>, mut original: Object, patch: &Object) -> Result<Object, PatchError> {
    match patch.get(DIRECTIVE) {
        Some(Value::String(directive)) => match directive.as_str() {
            "replace" => {
                let kept = patch.iter().filter(|(key, _)| key.as_str() != DIRECTIVE);
                return Ok(kept.map(|(k, v)| (k.clone(), v.clone())).collect());
            }
            "delete" => return Ok(Object::new()),
            "merge" => {}
            other => return Err(bad(&format!("Unknown patch type found: {other}"))),
        },
        Some(_) => return Err(bad("invalid JSON document")),
        None => {}
    }
    let node = id.map(|id| schema.node(id));
    retain_keys(&mut original, patch)?;
    for (key, change) in patch {
        if key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(SET_ORDER) {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(&mut original, field, change)?;
            continue;
        }
        let child = node.and_then(|node| schema.field(node, key));
        match change {
            Value::Null => {
                original.remove(key);
            }
            Value::Object(change) => {
                let replaced = child.and_then(|id| schema.node(id).patch.as_deref()).is_some_and(|p| p.replace);
                let before = match original.remove(key) {
                    Some(Value::Object(before)) if !replaced => before,
                    _ => Object::new(),
                };
                let merged = merge_maps(schema, child, before, change)?;
                original.insert(key.clone(), Value::Object(merged));
            }
            Value::Array(change) => {
                let order = patch.get(&format!("{SET_ORDER}{key}"));
                let list = merge_lists(schema, child, original.remove(key), change, order)?;
                original.insert(key.clone(), Value::Array(list));
            }
            scalar => {
                original.insert(key.clone(), scalar.clone());
            }
        }
    }
    for (key, order) in patch {
        let Some(field) = key.strip_prefix(SET_ORDER) else {
            continue;
        };
        if patch.contains_key(field) {
            continue;
        }
        // An order without a change still sorts what is there.
        if let (Some(Value::Array(list)), Some(order)) = (original.get_mut(field), order.as_array()) {
            let child = node.and_then(|node| schema.field(node, field)).map(|id| schema.node(id));
            sort_by_order(list, order, &[], child.and_then(merge_key));
        }
    }
    Ok(original)
}

fn retain_keys(original: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(bad("invalid patch format of retainKeys"));
    };
    let kept = |key: &String| keys.iter().any(|k| k == key);
    for key in patch.keys().filter(|k| !k.starts_with('$')) {
        if !kept(key) && !patch[key].is_null() {
            return Err(PatchError::Unprocessable("patch content doesn't match retainKeys".to_string()));
        }
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

fn delete_from_list(original: &mut Object, field: &str, gone: &Value) -> Result<(), PatchError> {
    let Value::Array(gone) = gone else {
        return Err(bad("invalid patch format of primitive list"));
    };
    if let Some(Value::Array(list)) = original.get_mut(field) {
        list.retain(|value| !gone.contains(value));
    }
    Ok(())
}

/// The key by which a list's elements merge, if they do.
fn merge_key(node: &Node) -> Option<&str> {
    node.patch.as_ref().filter(|p| p.merge)?.key.as_deref()
}

fn merge_lists(
    schema: &Schema,
    id: Option<Id>,
    original: Option<Value>,
    patch: &[Value],
    order: Option<&Value>,
) -> Result<Vec<Value>, PatchError> {
    let node = id.map(|id| schema.node(id));
    let merges = node.is_some_and(|n| n.patch.as_ref().is_some_and(|p| p.merge));
    let before = match original {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let (Some(node), true) = (node, merges) else {
        return Ok(patch.iter().map(without_directives).collect());
    };
    // Without an order of its own, the patch's elements come in the patch's order.
    let order = order.and_then(Value::as_array).map_or(patch, Vec::as_slice);
    let server_order = before.clone();
    let key = merge_key(node);
    let mut list = match key {
        Some(key) => merge_keyed(schema, node, key, before, patch)?,
        None => {
            let mut list = before;
            for value in patch {
                if !list.contains(value) {
                    list.push(value.clone());
                }
            }
            list
        }
    };
    sort_by_order(&mut list, order, &server_order, key);
    Ok(list)
}

fn merge_keyed(
    schema: &Schema,
    node: &Node,
    key: &str,
    mut list: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, PatchError> {
    if patch.iter().any(|element| element.get(DIRECTIVE).is_some_and(|d| d == "replace")) {
        let kept = patch.iter().filter(|element| element.get(DIRECTIVE).is_none());
        return Ok(kept.map(without_directives).collect());
    }
    for element in patch {
        let Value::Object(change) = element else {
            return Err(bad("invalid JSON document"));
        };
        let Some(wanted) = change.get(key) else {
            let shown = crate::error::go_plain(element);
            let text = format!("map: {shown} does not contain declared merge key: {key}");
            return Err(PatchError::Internal(text));
        };
        let position = list.iter().position(|candidate| candidate.get(key) == Some(wanted));
        if change.get(DIRECTIVE).is_some_and(|d| d == "delete") {
            list.retain(|candidate| candidate.get(key) != Some(wanted));
            continue;
        }
        match position {
            Some(at) => {
                let before = match list[at].take() {
                    Value::Object(map) => map,
                    _ => Object::new(),
                };
                list[at] = Value::Object(merge_maps(schema, node.items, before, change)?);
            }
            // A new element is taken as it is: whatever else it says, also to the lists in it, is taken for fields.
            None => list.push(element.clone()),
        }
    }
    Ok(list)
}

/// Sorts by the wanted order; elements it does not name keep their place relative to the server's order.
fn sort_by_order(list: &mut Vec<Value>, order: &[Value], server_order: &[Value], key: Option<&str>) {
    let identity = |value: &Value| match key {
        Some(key) => value.get(key).cloned().unwrap_or(Value::Null),
        None => value.clone(),
    };
    let position_in = |order: &[Value], value: &Value| {
        let wanted = identity(value);
        order.iter().position(|candidate| identity(candidate) == wanted)
    };
    let (mut named, unnamed): (Vec<Value>, Vec<Value>) =
        list.drain(..).partition(|value| position_in(order, value).is_some());
    named.sort_by_key(|value| position_in(order, value));
    // Both runs are merged by where the server has the elements, as the real server does.
    let server = |value: &Value| position_in(server_order, value);
    let mut named = named.into_iter().peekable();
    let mut unnamed = unnamed.into_iter().peekable();
    while let (Some(left), Some(right)) = (named.peek(), unnamed.peek()) {
        let server_first = match (server(left), server(right)) {
            (Some(left), Some(right)) => right < left,
            _ => false,
        };
        list.extend(if server_first { unnamed.next() } else { named.next() });
    }
    list.extend(named);
    list.extend(unnamed);
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| {
                    !(key.as_str() == DIRECTIVE
                        || key.as_str() == RETAIN_KEYS
                        || key.starts_with(SET_ORDER)
                        || key.starts_with(DELETE_FROM_LIST)
                        || value.is_null())
                })
                .map(|(key, value)| (key.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_directives).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn schema(definition: &str) -> Arc<Schema> {
        Schema::builtin(definition).expect("in the tables")
    }

    #[track_caller]
    fn check(definition: &str, object: Value, patch: Value, expected: Value) {
        assert_eq!(strategic(&schema(definition), &object, &patch), Ok(expected));
    }

    const NODE: &str = "io.k8s.api.core.v1.Node";
    const POD: &str = "io.k8s.api.core.v1.Pod";
    const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

    #[test]
    fn conditions_merge_by_type_and_taints_are_replaced() {
        check(
            NODE,
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "Disk", "status": "False"}]},
                   "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "New", "status": "True"}]},
                   "spec": {"taints": [{"key": "b", "effect": "NoExecute"}], "unschedulable": true}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}, {"type": "New", "status": "True"}, {"type": "Disk", "status": "False"}]},
                   "spec": {"taints": [{"key": "b", "effect": "NoExecute"}], "unschedulable": true}}),
        );
    }

    #[test]
    fn elements_are_deleted_and_reordered_by_directive() {
        check(
            POD,
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                            "containers": [{"name": "b", "$patch": "delete"}, {"name": "a", "image": "3"}]}}),
            json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "3"}]}}),
        );
    }

    #[test]
    fn maps_are_replaced_and_deleted_by_directive() {
        check(
            POD,
            json!({"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}, "annotations": {"b": null, "d": "4"}}}),
            json!({"metadata": {"labels": {"c": "3"}, "annotations": {"d": "4"}}}),
        );
    }

    #[test]
    fn retained_keys_drop_the_others() {
        check(
            DEPLOYMENT,
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        );
    }

    #[test]
    fn finalizers_merge_and_leave_as_single_values() {
        check(
            POD,
            json!({"metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"], "finalizers": ["c/c"]}}),
            json!({"metadata": {"finalizers": ["c/c", "b/b"]}}),
        );
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let error = strategic(&schema(POD), &json!({}), &json!({"spec": {"containers": [{"image": "x"}]}}));
        assert_eq!(
            error,
            Err(PatchError::Internal("map: map[image:x] does not contain declared merge key: name".to_string()))
        );
        assert!(strategic(&schema(POD), &json!({}), &json!([])).is_err());
    }
}
