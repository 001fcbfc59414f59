//! FlowSchemas.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{empty_is_null, list_or_none, set_zero},
    flow::SCHEMAS,
    kind::Check,
    table::{NONE, Row, number, or},
    text,
    validate::flow,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, status_only: true, ..Strategy::PLAIN },
    columns: "Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL",
    cells,
    default: |value, _| {
        set_zero(&mut value["spec"], "matchingPrecedence", 1000);
        for rule in list_or_none(&mut value["spec"], "rules") {
            list_or_none(rule, "resourceRules").iter_mut().for_each(|own| empty_is_null(own, "namespaces"));
        }
    },
    create: |value, _| value["status"] = json!({}),
    validate: Check::Object(flow::schema),
    judged: true,
    ..Kind::plain(SCHEMAS)
};

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    let conditions = row.status["conditions"].as_array().into_iter().flatten();
    let dangling = conditions.into_iter().find(|condition| condition["type"] == "Dangling");
    let dangling = dangling.map_or("?", |condition| text(&condition["status"]));
    let level = text(&spec["priorityLevelConfiguration"]["name"]);
    let method = or(text(&spec["distinguisherMethod"]["type"]), NONE);
    json!([row.name, level, number(&spec["matchingPrecedence"]), method, row.age, dangling])
}
