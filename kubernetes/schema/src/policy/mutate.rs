//! Mutating admission policies: what each of their expressions makes of an object.

use cel::{
    budget, objects,
    value::{Made, Value as Cel},
};
use serde_json::{Map, Value};

use super::{Review, Run, plain};
use crate::{
    Schema, managed,
    patch::{self, Operated},
};

/// What a mutation makes of an object. Neither is decoded or completed.
#[derive(Debug, PartialEq)]
pub enum Change {
    None,
    /// Something was laid over it.
    Merged(Value),
    /// A patch was applied to it.
    Patched(Value),
}

/// Carries out one mutation of a policy on the object of a review; the kind of an object without a schema is named
/// instead.
///
/// # Errors
/// The expression cannot be evaluated, or what it gives cannot be applied. The policy says what follows.
pub fn mutate(
    mutation: &Value,
    variables: &Value,
    review: &Review<'_>,
    schema: Result<&Schema, String>,
) -> Result<Change, String> {
    let expression = match plain(&mutation["patchType"]) {
        "JSONPatch" => &mutation["jsonPatch"]["expression"],
        _ => &mutation["applyConfiguration"]["expression"],
    };
    budget::begin_object();
    let outcome = Run::new(review, variables).evaluate(expression);
    match outcome {
        Ok(Cel::Made(made)) if !made.is_operation() => merged(&made, review.object, schema).map(Change::Merged),
        Ok(Cel::List(list)) => {
            let operations: Vec<Map<String, Value>> = list.each().map(operation).collect::<Result<_, _>>()?;
            patched(review.object, &operations)
        }
        Ok(other) => Err(format!("unsupported return type from ApplyConfiguration expression: {}", other.type_name())),
        Err(fault) => Err(format!("expression '{}' resulted in error: {fault}", plain(expression))),
    }
}

fn merged(made: &Made, object: &Value, schema: Result<&Schema, String>) -> Result<Value, String> {
    let misplaced = objects::misplaced(made);
    if !misplaced.is_empty() {
        return Err(format!("type mismatch: {}", misplaced.join("\n")));
    }
    let Some((mut applied, odd)) = objects::merged(made) else {
        return Err("invalid return type: *dynamic.ObjectVal".to_owned());
    };
    for field in ["apiVersion", "kind"] {
        applied[field] = object[field].clone();
    }
    let overlaid = match schema {
        Ok(schema) => managed::overlay(schema, object, &applied, &odd),
        Err(kind) => Err(format!("failed to convert patch object to typed object: no corresponding type for {kind}")),
    };
    overlaid.map_err(|why| format!("error applying patch: {why}"))
}

fn operation(value: &Cel) -> Result<Map<String, Value>, String> {
    match value {
        Cel::Made(made) if made.is_operation() => objects::operation(made),
        other => Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: cannot convert {}",
            other.type_name()
        )),
    }
}

/// A test that fails takes all of the patch back.
fn patched(object: &Value, operations: &[Map<String, Value>]) -> Result<Change, String> {
    let mut patched = object.clone();
    for operation in operations {
        let of = |field: &str| operation.get(field).and_then(Value::as_str);
        // Here a null that is asked for is another thing than nothing.
        let asks_for_null = of("op") == Some("test") && operation.get("value").is_some_and(Value::is_null);
        if asks_for_null && of("path").is_some_and(|path| patched.pointer(path).is_none()) {
            return Ok(Change::None);
        }
        match patch::operate(&mut patched, operation) {
            Ok(()) => {}
            Err(Operated::TestFailed(_)) => return Ok(Change::None),
            Err(Operated::Unfit(why)) => return Err(format!("JSON Patch: {why}")),
        }
    }
    Ok(Change::Patched(patched))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::policy::Decision;

    #[track_caller]
    fn check(kind: &str, expression: &str, expected: Expect) {
        let field = if kind == "JSONPatch" { "jsonPatch" } else { "applyConfiguration" };
        let mutation = json!({"patchType": kind, field: {"expression": expression}});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}});
        let none = Value::Null;
        let review = Review {
            object: &object,
            old: &none,
            request: &none,
            namespace: &none,
            params: &none,
            decide: &|_| Decision::default(),
        };
        let schema = Schema::builtin("io.k8s.api.core.v1.ConfigMap").expect("in the tables");
        let variables = json!([{"name": "two", "expression": "'2'"}]);
        let shown = match mutate(&mutation, &variables, &review, Ok(&schema)) {
            Ok(Change::None) => "none".to_owned(),
            Ok(Change::Merged(value) | Change::Patched(value)) => value["data"].to_string(),
            Err(why) => why,
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn an_object_is_laid_over_what_is_there() {
        let merge = |expression: &str, expected: Expect| check("ApplyConfiguration", expression, expected);
        merge("Object{data: {'b': variables.two}}", expect![[r#"{"a":"1","b":"2"}"#]]);
        merge("Object{?data: optional.none()}", expect![[r#"{"a":"1"}"#]]);
        merge(
            "Object{data: Object.wrong{}}",
            expect![
                "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.data\", which matches field name path from root Object type"
            ],
        );
        merge(
            "Object{data: {'a': {'b': 'c'}}}",
            expect![[
                r#"error applying patch: failed to convert patch object to typed object: .data.a: expected string, got &value.valueUnstructured{Value:map[ref.Val]ref.Val{"b":"c"}}"#
            ]],
        );
    }

    #[test]
    fn a_patch_is_applied_as_a_whole_or_not_at_all() {
        let patch = |expression: &str, expected: Expect| check("JSONPatch", expression, expected);
        patch("[JSONPatch{op: 'add', path: '/data/b', value: 2}]", expect![[r#"{"a":"1","b":2}"#]]);
        patch(
            "[JSONPatch{op: 'remove', path: '/data/a'}, JSONPatch{op: 'test', path: '/data/a', value: 'x'}]",
            expect!["none"],
        );
        patch(
            "[JSONPatch{op: 'remove', path: '/data/x'}]",
            expect![
                "JSON Patch: error in remove for path: '/data/x': Unable to remove nonexistent key: x: missing value"
            ],
        );
    }
}
