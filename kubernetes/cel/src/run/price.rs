//! What a call costs by the size of what it is given, so that nothing grows beyond what a rule may spend.
//!
//! Values are shared and not copied: a list of two lists of two lists has few parts and a size without end, and whoever
//! writes or compares it goes through all of it.

use super::super::{
    budget,
    value::{Kind, List, Value},
};

/// How much of a size is worth one unit, as in the real server's prices of reading texts.
const EACH: u64 = 10;

/// What it costs to make an object; the real server's figure.
pub(super) const OBJECT: u64 = 40;

/// What a call costs. It is known before anything is made.
pub(super) fn of(function: &str, args: &[Value]) -> u64 {
    // Beyond this nobody can pay anyhow, and it need not be counted to the end.
    let most = budget::left().saturating_mul(EACH).saturating_add(EACH);
    let whole = |values: &[Value]| values.iter().fold(0, |sum, value| weigh(value, sum, most)) / EACH;
    match (function, args) {
        // These look at one part of what they are given, or wrap it.
        ("_[_]" | "_[?_]" | "size" | "type" | "dyn" | "hasValue" | "value", _) => 0,
        ("optional.of" | "optional.none", _) => 0,
        // A loop adds to its own map in place; its turns are paid for.
        ("cel.@mapInsert", _) => 0,
        ("lists.range", [Value::Int(count)]) => u64::try_from(*count).unwrap_or(0),
        ("replace", [Value::Text(text), Value::Text(from), Value::Text(to), ..]) => {
            let places = text.matches(&**from).count() as u64;
            whole(args).saturating_add(places.saturating_mul(to.len() as u64) / EACH)
        }
        // Each of one list is compared with each of another.
        ("distinct", [Value::List(list)]) => whole(args).saturating_add(product(list, list) / 2),
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [Value::List(one), Value::List(two)]) => {
            whole(args).saturating_add(product(one, two))
        }
        ("_+_" | "_==_" | "_!=_", [Value::List(one), Value::List(two)]) if !matches!(one.kind, Kind::Ordered) => {
            whole(args).saturating_add(product(one, two))
        }
        _ => whole(args),
    }
}

fn product(one: &List, two: &List) -> u64 {
    (one.items.len() as u64).saturating_mul(two.items.len() as u64) / EACH
}

/// Adds the size of a value to a sum that is not counted beyond `most`.
fn weigh(value: &Value, sum: u64, most: u64) -> u64 {
    if sum >= most {
        return sum;
    }
    let sum = sum + 1;
    match value {
        Value::Text(text) => sum + text.len() as u64,
        Value::Bytes(bytes) => sum + bytes.len() as u64,
        Value::List(list) => list.items.iter().fold(sum, |sum, item| weigh(item, sum, most)),
        Value::Map(map) => map.values().fold(sum + map.len() as u64, |sum, value| weigh(value, sum, most)),
        Value::Optional(Some(inner)) => weigh(inner, sum, most),
        Value::Made(made) => made.fields.values().fold(sum, |sum, value| weigh(value, sum, most)),
        _ => sum,
    }
}
