//! The alert rules, read and run by Prometheus's own tool.

use std::process::Command;

use operate::{Facts, Installation};
use serde_json::{Value, json};
use testkit::needs;

/// The groups of rules that the operator writes where the Prometheus operator is.
fn groups() -> Value {
    let facts = Facts { has_prometheus_rules: true, ..Facts::default() };
    let objects = operate::found(&Installation::default(), &facts);
    let rules = objects.into_iter().find(|one| one.object["kind"] == "PrometheusRule").unwrap().object;
    json!({"groups": rules["spec"]["groups"]})
}

/// What `promtool` says; it must be content.
fn promtool(folder: &std::path::Path, arguments: &[&str]) -> String {
    let output = Command::new("promtool").args(arguments).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

/// At which minute an alert is looked for, its name, and the labels and annotations it then has.
fn expected(minute: u32, alert: &str, labels: Value, found: bool) -> Value {
    let rule = groups()["groups"][0]["rules"].as_array().unwrap().iter().find(|one| one["alert"] == alert).cloned();
    let rule = rule.unwrap();
    let mut all = labels;
    for (key, value) in rule["labels"].as_object().unwrap() {
        all[key] = value.clone();
    }
    let mut annotations = rule["annotations"].clone();
    for annotation in annotations.as_object_mut().unwrap().values_mut() {
        let mut text = annotation.as_str().unwrap().to_owned();
        for (key, value) in all.as_object().unwrap() {
            text = text.replace(&format!("{{{{ $labels.{key} }}}}"), value.as_str().unwrap());
        }
        *annotation = json!(text);
    }
    let alerts = if found { json!([{"exp_labels": all, "exp_annotations": annotations}]) } else { json!([]) };
    json!({"eval_time": format!("{minute}m"), "alertname": alert, "exp_alerts": alerts})
}

#[test]
fn the_rules_are_valid_and_a_blocked_drain_a_failed_reboot_and_a_spent_budget_raise_their_alerts() {
    if !needs::program("promtool", "install Debian's prometheus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML too.
    std::fs::write(folder.path().join("rules.yaml"), groups().to_string()).unwrap();
    let said = promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    assert!(said.contains("SUCCESS"), "{said}");

    let series = [
        ("mcc_drain_err{node=\"worker-1\"}", "0 0 1x20"),
        ("mcd_reboots_failed_total{node=\"worker-2\"}", "0 1x20"),
        ("machinist_pool_budget{pool=\"worker\"}", "1x20"),
        ("machinist_pool_budget_used{pool=\"worker\"}", "1 2x20"),
    ];
    let series: Vec<Value> = series.map(|(series, values)| json!({"series": series, "values": values})).into();
    let (drained, rebooted, pool) =
        (json!({"node": "worker-1"}), json!({"node": "worker-2"}), json!({"pool": "worker"}));
    let cases = json!([
        expected(1, "MCCDrainError", drained.clone(), false),
        expected(2, "MCCDrainError", drained, true),
        expected(5, "MCDRebootError", rebooted.clone(), false),
        expected(7, "MCDRebootError", rebooted, true),
        expected(3, "MachinistBudgetExceeded", pool, true),
    ]);
    let test = json!({
        "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": cases}],
    });
    std::fs::write(folder.path().join("test.yaml"), test.to_string()).unwrap();
    let said = promtool(folder.path(), &["test", "rules", "test.yaml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}
