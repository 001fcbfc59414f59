//! Tables, as `kubectl get` prints them: the columns and cells of `schema`, wrapped for the wire.

use serde_json::{Value, json};

use crate::{
    registry::Resource,
    verbs::{convert, now},
};

/// The columns of a resource and the cells of each object.
pub(crate) fn table(resource: &Resource, objects: &[Value]) -> (Vec<Value>, Vec<Vec<Value>>) {
    let now = now();
    if let Some(custom) = &resource.custom {
        let mut columns = vec![column("Name", "string", "name", NAME, 0)];
        columns.extend(resource.columns.iter().map(|own| {
            let description = match own.description.as_str() {
                "" => format!("Custom resource definition column (in JSONPath format): {}", own.path),
                text => text.to_owned(),
            };
            column(&own.name, &own.kind, &own.format, &description, own.priority)
        }));
        let rows = objects.iter().map(|object| schema::table::custom_cells(&custom.cells, object, &now)).collect();
        return (columns, rows);
    }
    let columns = resource.rules.columns();
    let columns = columns.iter().map(|own| column(own.name, own.kind, own.format, "", own.priority.into())).collect();
    // Every version prints what is stored.
    let cells = |object: &Value| resource.rules.cells(&convert::as_stored(resource, object.clone()), &now);
    (columns, objects.iter().map(cells).collect())
}

/// The table of the `scale` subresource, the same for every resource that has one.
pub(crate) fn scale(objects: &[Value]) -> (Vec<Value>, Vec<Vec<Value>>) {
    let columns = [("Name", "string"), ("Desired", "integer"), ("Available", "integer"), ("Age", "string")]
        .map(|(name, kind)| column(name, kind, "", "", 0))
        .to_vec();
    let now = jiff::Timestamp::now();
    let cells = |scale: &Value| {
        let created = scale["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
        let age = created.map_or_else(
            || "<unknown>".to_owned(),
            |created: jiff::Timestamp| schema::table::human(now.as_second() - created.as_second()),
        );
        let number = |part: &str| scale[part]["replicas"].as_i64().unwrap_or(0);
        vec![scale["metadata"]["name"].clone(), number("spec").into(), number("status").into(), age.into()]
    };
    (columns, objects.iter().map(cells).collect())
}

const NAME: &str = "Name must be unique within a namespace.";

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
