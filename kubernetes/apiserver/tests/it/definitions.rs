//! Custom resources, from definition to removal.

use serde_json::{Value, json};

use crate::wire::Wire;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                 "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                 "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                     "spec": {"type": "object", "required": ["size"], "properties": {
                         "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"},
                     }, "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "must not shrink"}]},
                     "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                 }}}},
                {"name": "v1beta1", "served": true, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    })
}

async fn with_widgets() -> Wire {
    let wire = Wire::start().await;
    let created = wire.post(CRDS, &definition()).await;
    assert_eq!(created.code, 201, "{}", created.text);
    while wire.get(WIDGETS).await.code != 200 {
        tokio::task::yield_now().await;
    }
    wire
}

#[tokio::test]
async fn a_definition_is_accepted_established_and_discovered() {
    let wire = with_widgets().await;
    let stored = wire.get(&format!("{CRDS}/widgets.example.com")).await.body;
    let conditions: Vec<String> = stored["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| format!("{}={}", condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap()))
        .collect();
    assert_eq!(conditions, ["NamesAccepted=True", "Established=True"]);
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    let group = wire.get("/apis/example.com").await.body;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let document = wire.get("/openapi/v3/apis/example.com/v1").await;
    assert!(document.text.contains("com.example.v1.Widget"), "{}", document.text);
    let etag = document.headers["etag"].clone();
    let request = wire.request("GET", "/openapi/v3/apis/example.com/v1", "", "").header("if-none-match", etag);
    let unchanged = wire.send(request).await;
    assert_eq!((unchanged.code, unchanged.text.as_str()), (304, ""));
}

#[tokio::test]
async fn objects_are_defaulted_pruned_validated_and_judged_by_rules() {
    let wire = with_widgets().await;
    let widget = |size: i64| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size, "extra": 1}, "status": {"x": 1}});
    let created = wire.post(WIDGETS, &widget(3)).await;
    assert_eq!(created.body["spec"], json!({"colour": "red", "size": 3}));
    assert!(created.body["status"].is_null() && created.headers.contains_key("warning"));
    let path = format!("{WIDGETS}/w");
    let small = wire.patch(&path, "merge", &json!({"spec": {"size": 0}})).await;
    assert_eq!(small.code, 422);
    assert!(small.message().contains("spec.size in body should be greater than or equal to 1"), "{}", small.message());
    let shrunk = wire.patch(&path, "merge", &json!({"spec": {"size": 2}})).await;
    assert!(shrunk.message().contains("must not shrink"), "{}", shrunk.message());
    let reported = wire.patch(&format!("{path}/status"), "merge", &json!({"status": {"ok": true}})).await.body;
    assert_eq!((&reported["metadata"]["generation"], &reported["status"]), (&json!(1), &json!({"ok": true})));
    let beta = wire.get("/apis/example.com/v1beta1/namespaces/default/widgets/w").await.body;
    assert_eq!(beta["apiVersion"], "example.com/v1beta1");
    let unconditional = wire.put(&path, &widget(4)).await;
    assert_eq!(unconditional.code, 422, "{}", unconditional.text);
    let strategic = wire.patch(&path, "strategic-merge", &json!({})).await;
    assert_eq!(strategic.code, 415);
}

#[tokio::test]
async fn a_definition_goes_with_its_objects() {
    let wire = with_widgets().await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    wire.post(WIDGETS, &widget).await;
    let path = format!("{CRDS}/widgets.example.com");
    wire.delete(&path, &json!({})).await;
    while wire.get(&path).await.code != 404 {
        tokio::task::yield_now().await;
    }
    while wire.get(WIDGETS).await.code != 404 {
        tokio::task::yield_now().await;
    }
    wire.post(CRDS, &definition()).await;
    while wire.get(WIDGETS).await.code != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(wire.get(WIDGETS).await.body["items"], json!([]));
}
