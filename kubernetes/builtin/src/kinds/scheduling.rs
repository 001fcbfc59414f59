//! PriorityClasses.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    kind::Check,
    table::{Row, number},
    text,
    validate::cluster,
};

pub(super) static KIND: Kind = Kind {
    // The value of a class never changes, and the rest does not count.
    strategy: Strategy { generation: Generation::Fixed, ..Strategy::PLAIN },
    columns: "Name, #Value, ?Global-Default, Age, PreemptionPolicy",
    cells,
    default: |value, _| {
        if let Some(object) = value.as_object_mut() {
            object.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
        }
    },
    validate: Check::Change(cluster::priority_class),
    judged: true,
    ..Kind::plain("scheduling.k8s.io/priorityclasses")
};

fn cells(row: &Row<'_>) -> Value {
    let object = row.object;
    let default = object["globalDefault"] == true;
    json!([row.name, number(&object["value"]), default, row.age, text(&object["preemptionPolicy"])])
}
