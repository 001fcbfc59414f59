//! Ingresses.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::list_or_none,
    kind::Check,
    table::{NONE, Row, or},
    text,
    validate::network,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    columns: "Name, Class, Hosts, Address, Ports, Age",
    cells,
    default: |value, _| default(&mut value["spec"]),
    create: |value, _| value["status"] = json!({"loadBalancer": {}}),
    validate: Check::Change(network::ingress),
    judged: true,
    ..Kind::plain("networking.k8s.io/ingresses")
};

/// Objects that backends refer to always say of which group they are.
fn default(spec: &mut Value) {
    fn backend(parent: &mut Value, field: &str) {
        let resource = parent.get_mut(field).and_then(|backend| backend.get_mut("resource"));
        if let Some(resource) = resource.and_then(Value::as_object_mut) {
            resource.entry("apiGroup").or_insert(Value::Null);
        }
    }
    backend(spec, "defaultBackend");
    for rule in list_or_none(spec, "rules") {
        let Some(http) = rule.get_mut("http") else { continue };
        list_or_none(http, "paths").iter_mut().for_each(|path| backend(path, "backend"));
    }
}

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    let hosts: Vec<&str> =
        spec["rules"].as_array().into_iter().flatten().map(|r| text(&r["host"])).filter(|h| !h.is_empty()).collect();
    let addresses = row.status["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = addresses.map(|i| or(text(&i["ip"]), text(&i["hostname"]))).collect();
    let ports = if spec["tls"].as_array().is_some_and(|t| !t.is_empty()) { "80, 443" } else { "80" };
    let class = or(text(&spec["ingressClassName"]), NONE);
    json!([row.name, class, or(&hosts.join(","), "*"), addresses.join(","), ports, row.age])
}
