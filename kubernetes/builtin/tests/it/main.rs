//! The crate against what a real server answered.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

#[test]
fn tables_print_as_those_of_a_real_server() {
    let tables: Vec<Value> = serde_json::from_str(include_str!("tables.json")).unwrap();
    let mut differences = Vec::new();
    let mut compared = 0;
    for table in &tables {
        let (group, plural) = (table["group"].as_str().unwrap(), table["plural"].as_str().unwrap());
        let kind = builtin::of(&builtin::collection(group, plural));
        let columns: Vec<Value> =
            kind.columns().iter().map(|c| json!([c.name, c.kind, c.format, c.priority])).collect();
        if Value::Array(columns.clone()) != table["columns"] {
            differences.push(format!("{plural}: real {} ours {columns:?}", table["columns"]));
        }
        for row in table["rows"].as_array().unwrap() {
            let cells = kind.cells(&row["object"], table["now"].as_str().unwrap());
            compared += 1;
            // The answer's date and the moment its ages were taken may lie a second apart.
            let same = |a: &Value, b: &Value| a == b || is_second_apart(a, b);
            let real = row["cells"].as_array().unwrap();
            if real.len() != cells.len() || !real.iter().zip(&cells).all(|(a, b)| same(a, b)) {
                differences.push(format!("{plural}:\n  real {}\n  ours {}", row["cells"], Value::Array(cells)));
            }
        }
    }
    assert!(compared > 50, "only {compared} rows were compared");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

fn is_second_apart(a: &Value, b: &Value) -> bool {
    let seconds = |v: &Value| v.as_str()?.strip_suffix('s')?.parse::<i64>().ok();
    matches!((seconds(a), seconds(b)), (Some(a), Some(b)) if (a - b).abs() <= 1)
}
