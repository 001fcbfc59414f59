//! Alert rules that can fire: every metric in them is one that a process of ours has, with the labels that are spoken of.

use std::collections::BTreeSet;

use operate::{Facts, Installation};
use serde_json::Value;

fn rules() -> Vec<Value> {
    let facts = Facts { has_prometheus_rules: true, ..Facts::default() };
    let objects = operate::found(&Installation::default(), &facts);
    let rules = objects.into_iter().find(|one| one.object["kind"] == "PrometheusRule").unwrap().object;
    rules["spec"]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// Every word between quotes in the files where the processes name their metrics.
fn named() -> BTreeSet<String> {
    let text = concat!(
        include_str!("../../../../services/controllers/src/metrics.rs"),
        include_str!("../../../../services/operator/src/metrics.rs"),
        include_str!("../../../../services/server/src/metrics.rs"),
        include_str!("../../../../services/daemon/src/metrics.rs"),
    );
    text.split('"').filter(|word| is_metric(word)).map(str::to_owned).collect()
}

fn is_metric(word: &str) -> bool {
    word.contains('_') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The metrics of an expression, if it is one of the few shapes that our rules have: `a > 3`, `a > b`, `sum(a)`.
fn metrics(expression: &str) -> Option<Vec<&str>> {
    if let Some(inner) = expression.strip_prefix("sum(").and_then(|rest| rest.strip_suffix(')')) {
        return is_metric(inner).then(|| vec![inner]);
    }
    let [left, ">", right] = expression.split(' ').collect::<Vec<_>>()[..] else { return None };
    let is_number = right.parse::<f64>().is_ok();
    (is_metric(left) && (is_number || is_metric(right))).then(|| if is_number { vec![left] } else { vec![left, right] })
}

#[test]
fn every_rule_is_about_a_metric_that_a_process_of_ours_has() {
    let named = named();
    assert!(named.contains("mcc_drain_err"), "the names are found: {named:?}");
    let mut seen = 0;
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        let found = metrics(expression).unwrap_or_else(|| panic!("cannot be read: {expression}"));
        for metric in found {
            // Prometheus clients add this ending to a counter by themselves.
            let is_known =
                named.contains(metric) || metric.strip_suffix("_total").is_some_and(|name| named.contains(name));
            assert!(is_known, "{expression}: nobody has {metric}");
            seen += 1;
        }
    }
    assert!(seen >= 9, "{seen}");
}

#[test]
fn every_alert_says_how_bad_it_is_for_how_long_and_what_to_do() {
    for rule in rules().iter().filter(|rule| rule.get("record").is_none()) {
        let name = rule["alert"].as_str().unwrap();
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        if let Some(wait) = rule.get("for").map(|wait| wait.as_str().unwrap()) {
            let (number, unit) = wait.split_at(wait.len() - 1);
            assert!(number.parse::<u32>().is_ok() && "smh".contains(unit), "{name}: {wait}");
        }
        for text in ["summary", "description"] {
            let text = rule["annotations"][text].as_str().unwrap();
            assert!(!text.is_empty(), "{name}");
            for (open, rest) in text.match_indices("{{").map(|(at, open)| (open, &text[at + 2..])) {
                let (word, _) =
                    rest.split_once("}}").unwrap_or_else(|| panic!("{name}: {open} is not closed in {text:?}"));
                let known = ["$value", "$labels.pool", "$labels.node"];
                assert!(known.contains(&word.trim()), "{name}: {word}");
            }
        }
    }
}
