//! Tables, as `kubectl get` prints them.

use serde_json::{Value, json};

use crate::{object::text, registry::Resource};

/// The columns of a resource and the cells of each object.
pub(crate) fn table(resource: &Resource, objects: &[Value]) -> (Vec<Value>, Vec<Vec<Value>>) {
    let mut columns = vec![column("Name", "string", "name", 0)];
    if resource.custom.is_some() {
        columns.extend(resource.columns.iter().map(|own| {
            let mut value = column(&own.name, &own.kind, &own.format, own.priority);
            value["description"] = own.description.as_str().into();
            value
        }));
    }
    if resource.columns.is_empty() {
        columns.push(column("Age", "date", "", 0));
    }
    let rows = objects.iter().map(|object| cells(resource, object)).collect();
    (columns, rows)
}

fn column(name: &str, kind: &str, format: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

fn cells(resource: &Resource, object: &Value) -> Vec<Value> {
    let metadata = &object["metadata"];
    let mut cells = vec![metadata["name"].clone()];
    for own in &resource.columns {
        let value = crate::fields::at(object, own.path.trim_start_matches('.'));
        cells.push(value.into());
    }
    if resource.columns.is_empty() {
        cells.push(text(&metadata["creationTimestamp"]).into());
    }
    cells
}
