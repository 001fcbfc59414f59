//! Schemas of custom kinds at work: validation, pruning, defaults, rules.

use anyhow::Result;
use serde_json::{Value, json};

use super::definitions::{CRDS, crd, establish, widget};
use super::wire::{Answer, Look, MERGE, Scope, eventually};

/// A kind whose spec has this schema, and the path of its objects.
async fn kind(s: &Scope, spec: Value) -> Result<(String, String)> {
    let (group, plural) = establish(s, crd(s, json!({"spec": spec}))).await?;
    let path = s.path(&format!("{group}/v1"), &plural);
    Ok((group, path))
}

/// What comes of creating an object with this spec under this schema.
async fn create(s: &Scope, properties: Value, spec: Value) -> Result<Answer> {
    let (group, path) = kind(s, json!({"type": "object", "properties": properties})).await?;
    s.post(&path, &widget(&group, spec)).await
}

/// The refusal's message after the words that every one starts with.
fn finding(answer: Answer) -> Result<String> {
    let message = answer.refused(422, "Invalid")?;
    let start = "Widget.";
    if !message.starts_with(start) && !message.starts_with("Widget") {
        anyhow::bail!("{message}");
    }
    Ok(message.split_once("\"a\" is invalid: ").map_or(message.clone(), |(_, rest)| rest.to_owned()))
}

/// What a rule that cannot be evaluated on this spec is said to suffer from.
async fn suffers(s: &Scope, rule: &str, spec: Value) -> Result<String> {
    let integer = json!({"type": "integer"});
    let properties = json!({"n": integer, "m": integer, "s": {"type": "string"}, "any": {"x-kubernetes-int-or-string": true},
        "list": {"type": "array", "maxItems": 9, "items": integer},
        "map": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string"}}});
    let (group, path) =
        kind(s, json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]}))
            .await?;
    let message = finding(s.post(&path, &widget(&group, spec)).await?)?;
    let told = message.strip_prefix("spec: Invalid value: \"object\": ").unwrap_or(&message);
    let told = told.strip_suffix(rule).unwrap_or(told);
    Ok(told.strip_suffix(" evaluating rule: ").unwrap_or(told).to_owned())
}

behaviours! {
    a_rule_names_the_key_it_missed(s) {
        same!(suffers(&s, "self.map['b'] == 'x'", json!({"map": {"a": "x"}})).await?, "no such key: b");
        same!(suffers(&s, "self.map.b == 'x'", json!({"map": {"a": "x"}})).await?, "no such key: b");
    }
    a_rule_names_the_index_it_missed(s) {
        same!(suffers(&s, "self.list[5] == 1", json!({"list": [1]})).await?, "index out of bounds: 5");
        same!(suffers(&s, "self.list[-1] == 1", json!({"list": [1]})).await?, "index out of bounds: -1");
        same!(suffers(&s, "self.s.split(',')[3] == 'a'", json!({"s": "a"})).await?, "index out of bounds: 3");
        same!(suffers(&s, "self.s.substring(5) == 'a'", json!({"s": "abc"})).await?, "index out of range: 5");
    }
    a_rule_that_cannot_calculate_says_so(s) {
        same!(suffers(&s, "1 / self.n == 1", json!({"n": 0})).await?, "division by zero");
        same!(suffers(&s, "1 % self.n == 1", json!({"n": 0})).await?, "modulus by zero");
        same!(suffers(&s, "self.n + 1 > 0", json!({"n": i64::MAX})).await?, "integer overflow");
        same!(suffers(&s, "self.n * 2 > 0", json!({"n": i64::MAX})).await?, "integer overflow");
    }
    a_rule_that_compares_apples_says_so(s) {
        let told = "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: ";
        same!(suffers(&s, "self.any > 5", json!({"any": "5"})).await?, told);
        same!(suffers(&s, "dyn(self.n) > 'a'", json!({"n": 1})).await?, told);
    }
    a_rule_that_cannot_convert_says_so(s) {
        same!(suffers(&s, "int(self.s) == 1", json!({"s": "x"})).await?, "type conversion error from 'string' to 'int'");
        same!(suffers(&s, "double(self.s) == 1.0", json!({"s": "x"})).await?, "type conversion error from 'string' to 'double'");
        same!(suffers(&s, "duration(self.s) > duration('1s')", json!({"s": "x"})).await?, "type conversion error from 'string' to 'google.protobuf.Duration'");
        same!(suffers(&s, "timestamp(self.s) > timestamp('2020-01-01T00:00:00Z')", json!({"s": "x"})).await?, "type conversion error from 'string' to 'google.protobuf.Timestamp'");
    }
    a_refusal_names_kind_group_and_name(s) {
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"n": {"type": "integer"}}})).await?;
        let answer = s.post(&path, &widget(&group, json!({"n": "x"}))).await?;
        same!((&answer.body["details"]["kind"], &answer.body["details"]["group"]), (&json!("Widget"), &json!(group)));
        let message = answer.refused(422, "Invalid")?;
        holds!(message.starts_with(&format!("Widget.{group} \"a\" is invalid: ")), "{message}");
    }
    a_wrong_type_is_refused(s) {
        let answer = create(&s, json!({"n": {"type": "integer"}}), json!({"n": "x"})).await?;
        same!(finding(answer)?, "spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"");
    }
    a_missing_required_field_is_refused(s) {
        let (group, path) = kind(&s, json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})).await?;
        let answer = s.post(&path, &widget(&group, json!({}))).await?;
        same!(answer.body["details"]["causes"][0]["reason"], "FieldValueRequired");
        same!(finding(answer)?, "spec.n: Required value");
    }
    a_value_outside_an_enumeration_is_refused(s) {
        let answer = create(&s, json!({"c": {"type": "string", "enum": ["red", "blue"]}}), json!({"c": "green"})).await?;
        same!(finding(answer)?, "spec.c: Unsupported value: \"green\": supported values: \"red\", \"blue\"");
    }
    a_text_that_breaks_its_pattern_is_refused(s) {
        let answer = create(&s, json!({"c": {"type": "string", "pattern": "^[a-z]+$"}}), json!({"c": "A1"})).await?;
        same!(finding(answer)?, "spec.c: Invalid value: \"A1\": spec.c in body should match '^[a-z]+$'");
    }
    a_pattern_means_what_it_means_in_go(s) {
        let pattern = r#"^(?i)(x-[^][ ()\\<>@,;:"/?.=\x00-\x1F\x7F]+|application)/[a-z&&+]+$"#;
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"c": {"type": "string", "pattern": pattern}}})).await?;
        s.post(&path, &widget(&group, json!({"c": "X-a/b&c"}))).await?.expect(201)?;
        let message = finding(s.post(&path, &widget(&group, json!({"c": "x-[/b"}))).await?)?;
        holds!(message.starts_with("spec.c: Invalid value: \"x-[/b\": spec.c in body should match '^(?i)(x-"), "{message}");
    }
    a_pattern_that_go_refuses_is_refused_in_its_words(s) {
        let definition = crd(&s, json!({"spec": {"type": "object", "properties": {"c": {"type": "string", "pattern": "a**[z-a]"}}}}));
        let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
        let why = "must be a valid regular expression, but isn't: error parsing regexp: invalid nested repetition operator: `**`";
        holds!(message.contains(why), "{message}");
    }
    a_text_that_is_too_long_is_refused(s) {
        let answer = create(&s, json!({"c": {"type": "string", "maxLength": 2}}), json!({"c": "abc"})).await?;
        same!(finding(answer)?, "spec.c: Too long: may not be more than 2 bytes");
    }
    a_number_below_its_minimum_is_refused(s) {
        let answer = create(&s, json!({"n": {"type": "integer", "minimum": 3}}), json!({"n": 2})).await?;
        same!(finding(answer)?, "spec.n: Invalid value: 2: spec.n in body should be greater than or equal to 3");
    }
    a_number_above_its_maximum_is_refused(s) {
        let answer = create(&s, json!({"n": {"type": "integer", "maximum": 3}}), json!({"n": 4})).await?;
        same!(finding(answer)?, "spec.n: Invalid value: 4: spec.n in body should be less than or equal to 3");
    }
    a_list_with_too_many_items_is_refused(s) {
        let answer = create(&s, json!({"l": {"type": "array", "maxItems": 1, "items": {"type": "string"}}}), json!({"l": ["a", "b"]})).await?;
        same!(finding(answer)?, "spec.l: Too many: 2: must have at most 1 item");
    }
    an_item_is_named_by_its_index(s) {
        let answer = create(&s, json!({"l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}}), json!({"l": [{"n": 1}, {"n": "x"}]})).await?;
        same!(finding(answer)?, "spec.l[1].n: Invalid value: \"string\": spec.l[1].n in body must be of type integer: \"string\"");
    }
    several_findings_are_told_together(s) {
        let answer = create(&s, json!({"a": {"type": "integer"}, "b": {"type": "boolean"}}), json!({"a": "x", "b": 1})).await?;
        same!(answer.body["details"]["causes"].as_array().map(Vec::len), Some(2));
        let message = finding(answer)?;
        holds!(message.starts_with('[') && message.contains("spec.a") && message.contains("spec.b"), "{message}");
    }
    duplicate_keys_of_a_list_map_are_refused(s) {
        let schema = json!({"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}});
        let answer = create(&s, schema, json!({"l": [{"k": "a"}, {"k": "a"}]})).await?;
        same!(finding(answer)?, "spec.l[1]: Duplicate value: {\"k\":\"a\"}");
    }
    duplicates_in_a_set_are_refused(s) {
        let answer = create(&s, json!({"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}), json!({"l": ["a", "a"]})).await?;
        same!(finding(answer)?, "spec.l[1]: Duplicate value: \"a\"");
    }
    an_integer_or_text_takes_both(s) {
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"v": {"x-kubernetes-int-or-string": true}}})).await?;
        same!(s.post(&path, &widget(&group, json!({"v": 1}))).await?.expect(201)?["spec"]["v"], 1);
        same!(s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"v": "10%"}})).await?.expect(200)?["spec"]["v"], "10%");
        let answer = s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"v": true}})).await?;
        same!(answer.code, 422);
    }
    a_null_is_dropped_unless_it_is_allowed(s) {
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}})).await?;
        let created = s.post(&path, &widget(&group, json!({"a": null}))).await?.expect(201)?;
        same!(created["spec"].get("a"), Some(&Value::Null));
        let answer = s.post(&path, &json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "b"}, "spec": {"b": null}})).await?;
        let created = answer.expect(201)?;
        same!(created["spec"].get("b"), None);
    }
    a_format_is_checked(s) {
        let answer = create(&s, json!({"t": {"type": "string", "format": "date-time"}}), json!({"t": "soon"})).await?;
        same!(finding(answer)?, "spec.t: Invalid value: \"soon\": spec.t in body must be of type date-time: \"soon\"");
    }
    unknown_fields_are_pruned_with_a_warning(s) {
        let answer = create(&s, json!({"n": {"type": "integer"}}), json!({"n": 1, "x": 2})).await?;
        same!(answer.header("warning"), "299 - \"unknown field \\\"spec.x\\\"\"");
        same!(answer.expect(201)?["spec"], json!({"n": 1}));
    }
    strict_validation_refuses_unknown_fields_of_custom_objects(s) {
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"n": {"type": "integer"}}})).await?;
        let message = s.post(&format!("{path}?fieldValidation=Strict"), &widget(&group, json!({"x": 2}))).await?.refused(400, "BadRequest")?;
        same!(message, format!("Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.x\""));
    }
    unknown_fields_are_kept_where_the_schema_says_so(s) {
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})).await?;
        let created = s.post(&path, &widget(&group, json!({"free": {"x": 1}, "y": 2}))).await?.expect(201)?;
        same!(created["spec"], json!({"free": {"x": 1}}));
    }
    defaults_are_filled_in(s) {
        let (group, path) = kind(&s, json!({"type": "object", "default": {}, "properties": {
            "n": {"type": "integer", "default": 3}, "deep": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "y"}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}}}})).await?;
        let created = s.post(&path, &widget(&group, json!({"l": [{}]}))).await?.expect(201)?;
        same!(created["spec"], json!({"n": 3, "deep": {"x": "y"}, "l": [{"p": "TCP"}]}));
        let created = s.post(&path, &json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "b"}})).await?.expect(201)?;
        same!(created["spec"]["n"], 3);
    }
    a_null_takes_the_default(s) {
        let (group, path) = kind(&s, json!({"type": "object", "properties": {"n": {"type": "integer", "default": 3}}})).await?;
        let created = s.post(&path, &widget(&group, json!({"n": null}))).await?.expect(201)?;
        same!(created["spec"]["n"], 3);
    }
    a_rule_is_enforced_with_its_message(s) {
        let schema = json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min must not exceed max"}]});
        let (group, path) = kind(&s, schema).await?;
        s.post(&path, &widget(&group, json!({"min": 1, "max": 2}))).await?.expect(201)?;
        let answer = s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"min": 3}})).await?;
        same!(finding(answer)?, "spec: Invalid value: min must not exceed max");
    }
    a_rule_without_a_message_shows_itself(s) {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 2"}]}}});
        let (group, path) = kind(&s, schema).await?;
        let answer = s.post(&path, &widget(&group, json!({"n": 1}))).await?;
        same!(finding(answer)?, "spec.n: Invalid value: 1: failed rule: self > 2");
    }
    a_rule_may_compare_with_the_past(s) {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "n is immutable"}]}}});
        let (group, path) = kind(&s, schema).await?;
        s.post(&path, &widget(&group, json!({"n": 1}))).await?.expect(201)?;
        let answer = s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"n": 2}})).await?;
        same!(finding(answer)?, "spec.n: Invalid value: 2: n is immutable");
    }
    a_rule_may_build_its_message(s) {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n < 5", "messageExpression": "'n is too large'", "fieldPath": ".n", "reason": "FieldValueForbidden"}]});
        let (group, path) = kind(&s, schema).await?;
        let answer = s.post(&path, &widget(&group, json!({"n": 7}))).await?;
        same!(answer.body["details"]["causes"][0]["reason"], "FieldValueForbidden");
        same!(finding(answer)?, "spec.n: Forbidden: n is too large");
    }
    a_stored_fault_may_stay_while_others_are_fixed(s) {
        let definition = crd(&s, json!({"spec": {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "string"}}}}));
        let (group, plural) = establish(&s, definition.clone()).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({"n": 1}))).await?.expect(201)?;
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let mut tighter = definition["spec"]["versions"].clone();
        tighter[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["n"]["minimum"] = json!(5);
        s.patch(&format!("{CRDS}/{name}"), MERGE, &json!({"spec": {"versions": tighter}})).await?.expect(200)?;
        let dry = format!("{path}?dryRun=All");
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "probe"}, "spec": {"n": 1}});
        eventually("the tighter schema", || async {
            let answer = s.post(&dry, &body).await?;
            Ok(if answer.code == 422 { Look::There(()) } else { Look::NotYet(format!("{answer:?}")) })
        })
        .await?;
        s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"m": "x"}})).await?.expect(200)?;
        same!(s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"n": 2}})).await?.code, 422);
    }
}
