//! What a rule may cost at most, judged before any object exists, from the sizes its schema allows.
//!
//! The real server's estimate counts every operation; this one counts loops and the plain parts in them, and never more
//! than the real one would. So it refuses what runs away, and lets pass what the real server lets pass.

use kube_cel::cel::{IdedExpr, common::ast::Expr, common::ast::operators, parser::Parser};
use serde_json::Value;

/// The largest body of a request: no list in it can be longer.
const REQUEST: u64 = 3 * 1024 * 1024;
/// The largest estimate a rule may have, and all rules of a definition together.
pub(crate) const RULE_LIMIT: u64 = 10_000_000;
pub(crate) const TOTAL_LIMIT: u64 = 100_000_000;

/// What a rule costs at most, for a schema that occurs `times` in an object.
pub(crate) fn estimate(expression: &str, schema: &Value, times: u64) -> u64 {
    let Ok(parsed) = Parser::new().enable_optional_syntax(true).parse(expression) else { return 0 };
    let mut estimate = Estimate { variables: vec![("self", Some(schema)), ("oldSelf", Some(schema))] };
    estimate.cost(&parsed).0.saturating_mul(times.max(1))
}

/// The complaint about an estimate over its limit.
pub(crate) fn complaint(what: &str, cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    ))
}

/// How often a list or map may hold an element.
pub(crate) fn elements(schema: &Value) -> u64 {
    let (bound, element) = match schema["type"].as_str() {
        Some("array") => (&schema["maxItems"], &schema["items"]),
        Some("object") if schema["additionalProperties"].is_object() => {
            (&schema["maxProperties"], &schema["additionalProperties"])
        }
        _ => return 1,
    };
    bound.as_u64().unwrap_or_else(|| REQUEST / (least(element) + 1))
}

/// How often a schema fits into one request.
pub(crate) fn most(schema: &Value) -> u64 {
    REQUEST / (least(schema) + 1)
}

/// The fewest bytes a value of this schema takes.
fn least(schema: &Value) -> u64 {
    match schema["type"].as_str() {
        Some("boolean") => 4,
        Some("integer" | "number") => 1,
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            2 + required.map(|name| name.len() as u64 + 3 + least(&schema["properties"][name])).sum::<u64>()
        }
        _ => 2,
    }
}

struct Estimate<'a> {
    variables: Vec<(&'a str, Option<&'a Value>)>,
}

impl<'a> Estimate<'a> {
    /// The cost of an expression, and the schema of its value where it is a part of the object.
    fn cost(&mut self, expression: &'a IdedExpr) -> (u64, Option<&'a Value>) {
        match &expression.expr {
            Expr::Ident(name) => {
                let known = self.variables.iter().rev().find(|(own, _)| own == name);
                (1, known.and_then(|(_, schema)| *schema))
            }
            Expr::Select(select) => {
                let (cost, schema) = self.cost(&select.operand);
                (cost + 1, schema.and_then(|schema| field(schema, &select.field)))
            }
            Expr::Call(call) => {
                let mut sum = 1_u64;
                let mut first = None;
                for part in call.target.as_deref().into_iter().chain(&call.args) {
                    let (cost, schema) = self.cost(part);
                    sum = sum.saturating_add(cost);
                    first = first.or(schema);
                }
                let element = first.filter(|_| call.func_name == operators::INDEX).and_then(element);
                (sum, element)
            }
            Expr::List(list) => {
                let parts = list.elements.iter().map(|part| self.cost(part).0);
                (parts.fold(1, u64::saturating_add), None)
            }
            Expr::Comprehension(turns) => {
                let (range, schema) = self.cost(&turns.iter_range);
                let count = schema.map_or(1, elements);
                let each = schema.filter(|schema| schema["type"] == "array").and_then(element);
                self.variables.push((&turns.iter_var, each));
                self.variables.push((&turns.accu_var, None));
                let turn = self.cost(&turns.loop_cond).0.saturating_add(self.cost(&turns.loop_step).0);
                self.variables.truncate(self.variables.len() - 2);
                // What `filter` leaves is at most what it was given; what `map` makes is as long.
                let left = matches!(turns.accu_init.expr, Expr::List(_)).then_some(schema).flatten();
                (range.saturating_add(count.saturating_mul(turn)), left)
            }
            Expr::Literal(_) | Expr::Unspecified => (0, None),
            Expr::Map(_) | Expr::Struct(_) => (1, None),
        }
    }
}

fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let property = schema["properties"].get(name);
    property.or_else(|| Some(&schema["additionalProperties"]).filter(|values| values.is_object()))
}

fn element(schema: &Value) -> Option<&Value> {
    [&schema["items"], &schema["additionalProperties"]].into_iter().find(|child| child.is_object())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complaint_about(rule: &str, list: Value) -> String {
        let schema = json!({"type": "object", "properties": {"list": list}});
        complaint("estimated rule cost", estimate(rule, &schema, 1), RULE_LIMIT).unwrap_or_default()
    }

    #[test]
    fn loops_in_loops_over_lists_without_end_are_refused() {
        let nested = "self.list.all(x, self.list.exists(y, x == y))";
        let open = json!({"type": "array", "items": {"type": "string"}});
        assert!(complaint_about(nested, open.clone()).contains("by factor of more than 100x (try simplifying"));
        assert_eq!(complaint_about("self.list.all(x, x != '')", open.clone()), "");
        assert_eq!(complaint_about("self.list.exists(x, x == 'a') && size(self.list) < 3", open), "");
        let bounded = json!({"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 64}});
        assert_eq!(complaint_about(nested, bounded), "");
    }

    #[test]
    fn a_rule_counts_as_often_as_its_place_occurs() {
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}}});
        assert!(estimate("self.list.all(x, x > 0)", &schema, 1) < RULE_LIMIT);
        assert!(estimate("self.list.all(x, x > 0)", &schema, 1_000_000) > RULE_LIMIT);
    }
}
