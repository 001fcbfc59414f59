//! Alert rules that can fire: every metric in them is one that a process of ours has, with the labels that are spoken of.

use std::collections::BTreeSet;

use operate::{Facts, Installation};
use serde_json::{Value, json};

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
        include_str!("../../../../services/machines/src/metrics.rs"),
        include_str!("../../../../services/machines/src/metrics/fleet.rs"),
    );
    text.split('"').filter(|word| is_metric(word)).map(str::to_owned).collect()
}

fn is_metric(word: &str) -> bool {
    word.contains('_') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Metrics of programs that are not ours: kube-state-metrics.
const FOREIGN: [&str; 1] = ["kube_node_info"];

/// The metrics of an expression: the names in it that are no functions, but for what stands between quotes.
fn metrics(expression: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let unquoted = expression.split('"').step_by(2);
    let words = unquoted.flat_map(|text| {
        text.split(move |letter| !is_part(letter)).filter(move |word| !text.contains(&format!("{word}(")))
    });
    words.filter(|word| is_metric(word)).collect()
}

#[test]
fn metrics_are_told_from_functions_and_labels() {
    let expression = "sum by (a_label) (avg_over_time(some_metric{phase=\"a_value\"}[15m])) > other_metric";
    assert_eq!(
        metrics(expression),
        ["a_label", "some_metric", "other_metric"],
        "a label is taken for a metric, and is found out"
    );
}

#[test]
fn every_rule_is_about_a_metric_that_a_process_of_ours_has() {
    let named = named();
    assert!(named.contains("mcc_drain_err"), "the names are found: {named:?}");
    let mut seen = 0;
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        let found = metrics(expression);
        assert!(!found.is_empty(), "{expression}: about nothing");
        for metric in found.into_iter().filter(|metric| !FOREIGN.contains(metric)) {
            // Prometheus clients add this ending to a counter by themselves.
            let is_known =
                named.contains(metric) || metric.strip_suffix("_total").is_some_and(|name| named.contains(name));
            assert!(is_known, "{expression}: nobody has {metric}");
            seen += 1;
        }
    }
    assert!(seen >= 14, "{seen}");
}

#[test]
fn every_panel_is_about_metrics_that_a_process_of_ours_has() {
    let named = named();
    let expressions = operate::board::expressions(&operate::board::board());
    assert!(expressions.len() > 15, "{expressions:?}");
    for expression in expressions {
        // Labels to sum by stand in brackets of their own.
        let without_labels = without_grouping(&expression);
        let found = metrics(&without_labels);
        assert!(!found.is_empty(), "{expression}: about nothing");
        for metric in found {
            let is_known =
                named.contains(metric) || metric.strip_suffix("_total").is_some_and(|name| named.contains(name));
            assert!(is_known, "{expression}: nobody has {metric}");
        }
    }
}

fn without_grouping(expression: &str) -> String {
    let mut rest = expression;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once(" by (") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text + rest
}

/// Upstream's, which runbooks and silences go by.
#[test]
fn the_alerts_about_machines_have_upstream_s_names_and_times() {
    let expected = [
        ("MachineWithoutValidNode", "60m"),
        ("MachineWithNoRunningPhase", "60m"),
        ("MachineNotYetDeleted", "360m"),
        ("MachineAPIOperatorMetricsCollectionFailing", "5m"),
        ("MachineHealthCheckUnterminatedShortCircuit", "30m"),
    ];
    for (name, wait) in expected {
        let rule =
            rules().into_iter().find(|rule| rule["alert"] == name).unwrap_or_else(|| panic!("there is no {name}"));
        assert_eq!((&rule["for"], &rule["labels"]), (&json!(wait), &json!({"severity": "warning"})), "{name}");
    }
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
                let known =
                    ["$value", "$labels.pool", "$labels.node", "$labels.name", "$labels.namespace", "$labels.kind"];
                assert!(known.contains(&word.trim()), "{name}: {word}");
            }
        }
    }
}
