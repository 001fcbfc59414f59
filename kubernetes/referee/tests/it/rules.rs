//! The types and costs of rules against the real server's own compiler, as a Go program.
//!
//! Each line of `rules/expressions.txt` is judged by both about one schema: the texts of refusals and the estimated costs
//! must be equal.

use serde_json::{Value, json};

use super::{expressions::without_numbers, oracle::Oracle};

const EXPRESSIONS: &str = include_str!("rules/expressions.txt");
const SCHEMA: &str = include_str!("rules/schema.json");

#[test]
fn rules_are_refused_and_estimated_as_by_the_real_server() {
    let Some(mut oracle) = Oracle::start() else { return };
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let deep = deep();
    let written = EXPRESSIONS.lines().filter(|line| !line.is_empty());
    let rules: Vec<&str> = written.chain(deep.iter().map(String::as_str)).collect();
    let theirs = oracle.ask(&json!({ "schema": schema, "rules": rules }));
    let mut differences = Vec::new();
    for (rule, theirs) in rules.iter().zip(theirs) {
        let theirs = match (theirs["error"].as_str(), theirs["cost"].as_u64()) {
            (Some(error), _) => Err(without_numbers(error)),
            (None, cost) => Ok(cost.unwrap_or_default()),
        };
        let ours = schema::crd::rule_cost(&schema, rule).map_err(|error| without_numbers(&error));
        if ours != theirs {
            let rule: String = rule.chars().take(200).collect();
            differences.push(format!("{rule}\nreal: {theirs:?}\nours: {ours:?}"));
        }
    }
    assert!(rules.len() > 200, "only {} rules were compared", rules.len());
    assert!(
        differences.is_empty(),
        "{} of {} rules are judged differently:\n{}",
        differences.len(),
        rules.len(),
        differences.join("\n\n")
    );
}

/// Rules at the limits of what may be deep, and far beyond them, where no stack is large enough.
fn deep() -> Vec<String> {
    let mut rules = Vec::new();
    for times in [100, 249, 250, 251, 10_000] {
        for (open, inner, close, last) in [
            ("(", "true", ")", ""),
            ("[", "", "]", " == []"),
            ("-(", "1", ")", " < 5"),
            ("[1].all(x, ", "true", ")", ""),
            ("true ? true : ", "true", "", ""),
            ("1 + ", "1", "", " > 0"),
            ("", "dyn(self)", ".a", " == 1"),
            ("", "dyn(self)", "[0]", " == 1"),
            ("", "'a'", ".trim()", " == 'a'"),
            ("true && ", "true", "", ""),
            ("'(' + ", "'('", "", " == ''"),
        ] {
            rules.push(format!("{}{inner}{}{last}", open.repeat(times), close.repeat(times)));
        }
    }
    rules
}
