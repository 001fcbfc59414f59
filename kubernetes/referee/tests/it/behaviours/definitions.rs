//! Custom kinds: how a definition comes to life, what its versions, subresources and columns do.

use anyhow::Result;
use serde_json::{Value, json};

use super::wire::{MERGE, Scope, TABLE, version};

pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of kind Widget in a group of its own, with these properties beside `spec` of any content.
pub(super) fn crd(s: &Scope, properties: Value) -> Value {
    let group = format!("{}.example.com", s.unique("g"));
    let mut schema = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    for (name, property) in properties.as_object().into_iter().flatten() {
        schema[name] = property.clone();
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": schema}}}]}})
}

/// Creates the definition and waits until objects of it can be written; returns its group and plural.
pub(super) async fn establish(s: &Scope, crd: Value) -> Result<(String, String)> {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, plural, name) = (text("/spec/group"), text("/spec/names/plural"), text("/metadata/name"));
    s.post(CRDS, &crd).await?.expect(201)?;
    s.until(&format!("{CRDS}/{name}"), "Established", |answer| is_true(&answer.body, "Established")).await?;
    let version = text("/spec/versions/0/name");
    s.until(&format!("/apis/{group}/{version}/{plural}"), "the endpoint", |answer| answer.code == 200).await?;
    Ok((group, plural))
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|found| found["type"] == condition).any(|found| found["status"] == "True")
}

pub(super) fn widget(group: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

/// What is said about a definition with this rule, which no server takes.
async fn refused_rule(s: &Scope, rule: Value) -> Result<String> {
    let properties = json!({
        "n": {"type": "integer"}, "text": {"type": "string"}, "texts": {"type": "array", "items": {"type": "string"}},
    });
    let spec = json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]});
    s.post(CRDS, &crd(s, json!({"spec": spec}))).await?.refused(422, "Invalid")
}

behaviours! {
    a_definition_is_accepted_and_established(s) {
        let definition = crd(&s, json!({}));
        establish(&s, definition.clone()).await?;
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let object = s.get(&format!("{CRDS}/{name}")).await?.expect(200)?;
        holds!(is_true(&object, "NamesAccepted"), "{}", object["status"]);
        same!(object["status"]["acceptedNames"]["kind"], "Widget");
        same!(object["status"]["storedVersions"], json!(["v1"]));
        same!(object["spec"]["conversion"]["strategy"], "None");
    }
    a_definition_must_be_named_after_its_resource(s) {
        let mut definition = crd(&s, json!({}));
        definition["metadata"]["name"] = json!("wrong.example.com");
        let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
        holds!(message.contains("metadata.name: Invalid value: \"wrong.example.com\": must be spec.names.plural+\".\"+spec.group"), "{message}");
    }
    a_definition_needs_a_schema(s) {
        let mut definition = crd(&s, json!({}));
        definition["spec"]["versions"][0].as_object_mut().map(|version| version.remove("schema"));
        let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
        holds!(message.contains("spec.versions[0].schema.openAPIV3Schema: Required value"), "{message}");
    }
    a_schema_must_be_structural(s) {
        let definition = crd(&s, json!({"status": {"properties": {"x": {"type": "string"}}}}));
        let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
        holds!(message.contains("properties[status].type: Required value: must not be empty for specified object fields"), "{message}");
    }
    a_definition_needs_exactly_one_storage_version(s) {
        let mut definition = crd(&s, json!({}));
        definition["spec"]["versions"][0]["storage"] = json!(false);
        let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
        holds!(message.contains("must have exactly one version marked as storage version"), "{message}");
    }
    a_rule_about_a_field_that_is_not_there_is_refused(s) {
        let message = refused_rule(&s, json!({"rule": "self.n > 0 && self.nope == 1"})).await?;
        holds!(message.contains("compilation failed: ERROR: <input>:1:19: undefined field 'nope'\n | self.n > 0 && self.nope == 1\n | ..................^"), "{message}");
    }
    a_rule_that_compares_different_types_is_refused(s) {
        let message = refused_rule(&s, json!({"rule": "self.n == self.text"})).await?;
        holds!(message.contains("compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'"), "{message}");
    }
    a_rule_that_calls_what_nobody_knows_is_refused(s) {
        let message = refused_rule(&s, json!({"rule": "self.text.shout() == other"})).await?;
        holds!(message.contains("ERROR: <input>:1:16: undeclared reference to 'shout' (in container '')"), "{message}");
        holds!(message.contains("ERROR: <input>:1:22: undeclared reference to 'other' (in container '')"), "{message}");
    }
    a_rule_must_be_true_or_false(s) {
        let message = refused_rule(&s, json!({"rule": "self.n"})).await?;
        holds!(message.ends_with("cel expression must evaluate to a bool"), "{message}");
    }
    the_message_of_a_rule_must_be_a_text(s) {
        let message = refused_rule(&s, json!({"rule": "self.n > 0", "messageExpression": "self.n"})).await?;
        holds!(message.contains("x-kubernetes-validations[0].messageExpression: Invalid value: ") && message.ends_with("messageExpression must evaluate to a string"), "{message}");
    }
    the_message_of_a_rule_must_fit_the_schema(s) {
        let message = refused_rule(&s, json!({"rule": "self.n > 0", "messageExpression": "'no ' + self.nope"})).await?;
        holds!(message.contains("messageExpression compilation failed: ERROR: <input>:1:13: undefined field 'nope'"), "{message}");
    }
    a_rule_that_may_cost_too_much_is_refused(s) {
        let message = refused_rule(&s, json!({"rule": "self.texts.all(t, t.matches('^[a-z]+$'))"})).await?;
        holds!(message.contains("x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule"), "{message}");
    }
    a_rule_just_over_its_budget_is_told_by_how_much(s) {
        let message = refused_rule(&s, json!({"rule": "self.text.matches('^[a-z]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z]([-a-z0-9]*[a-z0-9])?)*(\\\\.[a-z]([-a-z0-9]*[a-z0-9])?)*x?$') && self.text.contains(self.text)"})).await?;
        holds!(message.contains("estimated rule cost exceeds budget by factor of "), "{message}");
    }
    a_field_named_as_a_word_of_the_language_is_found(s) {
        let schema = json!({"type": "object", "properties": {"namespace": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "self.namespace == 'a'", "message": "wrong namespace"}, {"rule": "self.__namespace__ == 'a'"}]});
        let (group, plural) = establish(&s, crd(&s, json!({"spec": schema}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({"namespace": "a"}))).await?.expect(201)?;
        let message = s.post(&path, &widget(&group, json!({"namespace": "b"}))).await?.refused(422, "Invalid")?;
        holds!(message.contains("wrong namespace") && message.contains("failed rule: self.__namespace__ == 'a'"), "{message}");
    }
    a_rule_that_does_not_compile_is_refused(s) {
        let definition = crd(&s, json!({"spec": {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n >"}]}}));
        let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
        holds!(message.contains("x-kubernetes-validations[0].rule: Invalid value: ") && message.contains("compilation failed"), "{message}");
    }
    custom_objects_are_written_and_read(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let created = s.post(&path, &widget(&group, json!({"free": [1, {"form": true}]}))).await?.expect(201)?;
        same!(created["spec"], json!({"free": [1, {"form": true}]}));
        same!((&created["metadata"]["generation"], &created["kind"]), (&json!(1), &json!("Widget")));
        let list = s.get(&path).await?.expect(200)?;
        same!((&list["kind"], &list["items"][0]["kind"]), (&json!("WidgetList"), &json!("Widget")));
    }
    a_custom_object_in_the_wrong_version_is_refused(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let mut body = widget(&group, json!({}));
        body["apiVersion"] = json!(format!("{group}/v2"));
        let message = s.post(&s.path(&format!("{group}/v1"), &plural), &body).await?.refused(400, "BadRequest")?;
        holds!(message.contains("does not match"), "{message}");
    }
    a_custom_generation_counts_everything_but_metadata(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({"a": 1}))).await?.expect(201)?;
        let labelled = s.patch(&format!("{path}/a"), MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await?.expect(200)?;
        same!(labelled["metadata"]["generation"], 1);
        let changed = s.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"a": 2}})).await?.expect(200)?;
        same!(changed["metadata"]["generation"], 2);
    }
    a_custom_status_has_its_own_endpoint(s) {
        let mut definition = crd(&s, json!({"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}));
        definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        let (group, plural) = establish(&s, definition).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let mut body = widget(&group, json!({"a": 1}));
        body["status"] = json!({"x": 1});
        let created = s.post(&path, &body).await?.expect(201)?;
        same!(created["status"], Value::Null);
        let patched = s.patch(&format!("{path}/a/status"), MERGE, &json!({"status": {"x": 2}, "spec": {"a": 2}})).await?.expect(200)?;
        same!((&patched["status"]["x"], &patched["spec"]["a"], &patched["metadata"]["generation"]), (&json!(2), &json!(1), &json!(1)));
        let patched = s.patch(&format!("{path}/a"), MERGE, &json!({"status": {"x": 3}})).await?.expect(200)?;
        same!(patched["status"]["x"], 2);
    }
    without_the_subresource_there_is_no_status_endpoint(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        same!(s.get(&format!("{path}/a/status")).await?.code, 404);
    }
    custom_objects_scale(s) {
        let mut definition = crd(&s, json!({"status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}}));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
        definition["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}});
        let (group, plural) = establish(&s, definition).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({"replicas": 2}))).await?.expect(201)?;
        s.patch(&format!("{path}/a/status"), MERGE, &json!({"status": {"replicas": 1, "selector": "x=y"}})).await?.expect(200)?;
        let scale = s.get(&format!("{path}/a/scale")).await?.expect(200)?;
        same!((&scale["apiVersion"], &scale["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
        same!((&scale["spec"]["replicas"], &scale["status"]["replicas"], &scale["status"]["selector"]), (&json!(2), &json!(1), &json!("x=y")));
        s.patch(&format!("{path}/a/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await?.expect(200)?;
        let object = s.get(&format!("{path}/a")).await?.expect(200)?;
        same!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(5), &json!(2)));
    }
    printer_columns_make_the_table(s) {
        let mut definition = crd(&s, json!({}));
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Secret", "type": "string", "jsonPath": ".spec.secret", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
        let (group, plural) = establish(&s, definition).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({"size": 7}))).await?.expect(201)?;
        let table = s.get_as(&path, TABLE).await?.expect(200)?;
        let columns: Vec<_> = table["columnDefinitions"].as_array().into_iter().flatten().map(|column| column["name"].clone()).collect();
        same!(columns, [json!("Name"), json!("Size"), json!("Ready"), json!("Secret"), json!("Age")]);
        same!(table["columnDefinitions"][3]["priority"], 1);
        same!((&table["rows"][0]["cells"][0], &table["rows"][0]["cells"][1], &table["rows"][0]["cells"][2]), (&json!("a"), &json!(7), &Value::Null));
    }
    without_columns_a_table_has_name_and_age(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        let table = s.get_as(&path, TABLE).await?.expect(200)?;
        let columns: Vec<_> = table["columnDefinitions"].as_array().into_iter().flatten().map(|column| column["name"].clone()).collect();
        same!(columns, [json!("Name"), json!("Age")]);
    }
    a_version_that_is_not_served_is_not_found(s) {
        let mut definition = crd(&s, json!({}));
        let mut second = definition["spec"]["versions"][0].clone();
        second["name"] = json!("v1beta1");
        second["storage"] = json!(false);
        second["served"] = json!(false);
        definition["spec"]["versions"].as_array_mut().unwrap().push(second);
        let (group, plural) = establish(&s, definition).await?;
        same!(s.get(&format!("/apis/{group}/v1beta1/{plural}")).await?.code, 404);
    }
    every_served_version_shows_the_same_object(s) {
        let mut definition = crd(&s, json!({}));
        let mut second = definition["spec"]["versions"][0].clone();
        second["name"] = json!("v1beta1");
        second["storage"] = json!(false);
        definition["spec"]["versions"].as_array_mut().unwrap().push(second);
        let (group, plural) = establish(&s, definition).await?;
        s.post(&s.path(&format!("{group}/v1"), &plural), &widget(&group, json!({"a": 1}))).await?.expect(201)?;
        let other = s.until(&s.path(&format!("{group}/v1beta1"), &format!("{plural}/a")), "the other version", |answer| answer.code == 200).await?.body;
        same!((&other["apiVersion"], &other["spec"]["a"]), (&json!(format!("{group}/v1beta1")), &json!(1)));
    }
    a_cluster_wide_kind_has_no_namespaces(s) {
        let mut definition = crd(&s, json!({}));
        definition["spec"]["scope"] = json!("Cluster");
        let (group, plural) = establish(&s, definition).await?;
        let created = s.post(&format!("/apis/{group}/v1/{plural}"), &widget(&group, json!({}))).await?.expect(201)?;
        same!(created["metadata"]["namespace"], Value::Null);
        same!(s.get(&s.path(&format!("{group}/v1"), &format!("{plural}/a"))).await?.code, 404);
    }
    objects_go_with_their_definition(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        let definition = format!("{CRDS}/{plural}.{group}");
        s.delete(&definition).await?.expect(200)?;
        s.until(&definition, "the definition to go", |answer| answer.code == 404).await?;
        s.until(&path, "the endpoint to go", |answer| answer.code == 404).await?;
    }
    a_definition_that_comes_back_starts_empty(s) {
        let definition = crd(&s, json!({}));
        let (group, plural) = establish(&s, definition.clone()).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        let name = format!("{CRDS}/{plural}.{group}");
        s.delete(&name).await?.expect(200)?;
        s.until(&name, "the definition to go", |answer| answer.code == 404).await?;
        establish(&s, definition).await?;
        same!(s.get(&path).await?.expect(200)?["items"], json!([]));
    }
    watches_end_with_their_definition(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        let start = version(&s.get(&path).await?.expect(200)?);
        let mut all = s.watch(&format!("{path}?watch=true&resourceVersion={start}")).await?;
        let mut one = s.watch(&format!("{path}?watch=true&resourceVersion={start}&fieldSelector=metadata.name=a")).await?;
        s.delete(&format!("{CRDS}/{plural}.{group}")).await?.expect(200)?;
        for watch in [&mut all, &mut one] {
            watch.expect("DELETED").await?;
            same!(watch.next().await?, None);
        }
    }
    watches_end_when_their_definition_changes(s) {
        let definition = crd(&s, json!({}));
        let (group, plural) = establish(&s, definition).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let start = version(&s.get(&path).await?.expect(200)?);
        let mut watch = s.watch(&format!("{path}?watch=true&resourceVersion={start}")).await?;
        let name = format!("{CRDS}/{plural}.{group}");
        s.patch(&name, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await?.expect(200)?;
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        watch.expect("ADDED").await?;
        s.patch(&name, MERGE, &json!({"spec": {"names": {"shortNames": ["wdg"]}}})).await?.expect(200)?;
        same!(watch.next().await?, None);
    }
    nothing_new_comes_while_a_definition_goes(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let mut held = widget(&group, json!({}));
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        s.post(&path, &held).await?.expect(201)?;
        let name = format!("{CRDS}/{plural}.{group}");
        let marked = s.delete(&name).await?.expect(200)?;
        same!(marked["metadata"]["generation"], 1);
        let told = |answer: &super::wire::Answer| answer.body["status"]["conditions"].as_array().into_iter().flatten().any(|found| {
            found["type"] == "Terminating" && found["reason"] == "InstanceDeletionInProgress" && found["message"] == "CustomResource deletion is in progress"
        });
        s.until(&name, "the definition to say that it waits", told).await?;
        let mut late = widget(&group, json!({}));
        late["metadata"]["name"] = json!("late");
        let message = s.post(&path, &late).await?.refused(403, "Forbidden")?;
        same!(message, format!("{plural}.{group} \"late\" is forbidden: create not allowed while custom resource definition is terminating"));
        s.patch(&format!("{path}/a"), MERGE, &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
        s.until(&name, "the definition to go", |answer| answer.code == 404).await?;
    }
    selectable_fields_can_be_selected(s) {
        let mut definition = crd(&s, json!({"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}));
        definition["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
        let (group, plural) = establish(&s, definition).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({"color": "red"}))).await?.expect(201)?;
        let count = |list: Value| list["items"].as_array().map(Vec::len);
        same!(count(s.get(&format!("{path}?fieldSelector=spec.color=red")).await?.expect(200)?), Some(1));
        same!(count(s.get(&format!("{path}?fieldSelector=spec.color=blue")).await?.expect(200)?), Some(0));
        same!(s.get(&format!("{path}?fieldSelector=spec.size=1")).await?.code, 400);
    }
    a_strategic_patch_of_a_custom_object_is_refused(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        s.patch(&format!("{path}/a"), super::wire::STRATEGIC, &json!({})).await?.refused(415, "UnsupportedMediaType")?;
    }
    a_custom_object_cannot_be_replaced_without_a_version(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let created = s.post(&path, &widget(&group, json!({}))).await?.expect(201)?;
        let message = s.put(&format!("{path}/a"), &widget(&group, json!({"a": 1}))).await?.refused(422, "Invalid")?;
        holds!(message.ends_with("metadata.resourceVersion: Invalid value: 0: must be specified for an update") || message.contains("metadata.resourceVersion: Invalid value:"), "{message}");
        let mut body = widget(&group, json!({"a": 1}));
        body["metadata"]["resourceVersion"] = json!(version(&created));
        s.put(&format!("{path}/a"), &body).await?.expect(200)?;
    }
}
