//! PodTemplates.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::pods::template,
    kind::Check,
    table::{Row, containers, labels},
    validate::workloads,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Containers, Images, Pod Labels",
    cells,
    default: |value, _| template(value),
    validate: Check::Object(workloads::pod_template),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("/podtemplates")
};

const HOLDER: Holder = Holder { place: &["template"], named: None, looked_at: LookedAt::Counted };

fn cells(row: &Row<'_>) -> Value {
    let template = &row.object["template"];
    let (names, images) = containers(template);
    json!([row.name, names, images, labels(&template["metadata"]["labels"])])
}
