//! EndpointSlices.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{empty_is_null, list_or_none, set},
    kind::Check,
    table::{Row, first_three, or},
    text,
    validate::endpoints,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, counted_metadata: Some("labels"), ..Strategy::PLAIN },
    columns: "Name, AddressType, Ports, Endpoints, Age",
    cells,
    default: |value, _| {
        for port in list_or_none(value, "ports") {
            set(port, "protocol", "TCP");
            set(port, "name", "");
        }
        empty_is_null(value, "ports");
        empty_is_null(value, "endpoints");
    },
    validate: Check::Change(endpoints::slice),
    judged: true,
    ..Kind::plain("discovery.k8s.io/endpointslices")
};

fn cells(row: &Row<'_>) -> Value {
    let object = row.object;
    let ports = object["ports"].as_array().into_iter().flatten().map(|port| match &port["port"] {
        Value::Number(number) => number.to_string(),
        _ => or(text(&port["name"]), "*").to_string(),
    });
    let addresses = object["endpoints"].as_array().into_iter().flatten();
    let addresses = addresses.flat_map(|e| e["addresses"].as_array().into_iter().flatten());
    let addresses: Vec<String> = addresses.map(|a| text(a).to_string()).collect();
    json!([
        row.name,
        text(&object["addressType"]),
        first_three(&ports.collect::<Vec<_>>(), "<unset>"),
        first_three(&addresses, "<unset>"),
        row.age
    ])
}
