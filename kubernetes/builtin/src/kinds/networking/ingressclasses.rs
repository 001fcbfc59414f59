//! IngressClasses.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::set,
    kind::Check,
    table::{NONE, Row, marked},
    text,
    validate::classes,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    columns: "Name, Controller, Parameters, Age",
    cells,
    default: |value, _| {
        if value["spec"]["parameters"].is_object() {
            set(&mut value["spec"]["parameters"], "scope", "Cluster");
        }
    },
    validate: Check::Change(classes::ingress),
    judged: true,
    ..Kind::plain("networking.k8s.io/ingressclasses")
};

fn cells(row: &Row<'_>) -> Value {
    let parameters = &row.spec["parameters"];
    let shown = match (text(&parameters["kind"]), text(&parameters["apiGroup"]), text(&parameters["name"])) {
        _ if parameters.is_null() => NONE.to_string(),
        (kind, "", name) => format!("{kind}/{name}"),
        (kind, group, name) => format!("{kind}.{group}/{name}"),
    };
    let name = marked(row.object, "ingressclass.kubernetes.io/is-default-class");
    json!([name, text(&row.spec["controller"]), shown, row.age])
}
