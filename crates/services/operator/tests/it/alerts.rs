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
    let groups = groups()["groups"].as_array().unwrap().clone();
    let mut rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    let rule = rules.find(|one| one["alert"] == alert).unwrap();
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
    let series = [
        ("mcc_drain_err{node=\"worker-1\"}", "0 0 1x20"),
        ("mcd_reboots_failed_total{node=\"worker-2\"}", "0 1x20"),
        ("machinist_pool_budget{pool=\"worker\"}", "1x20"),
        ("machinist_pool_budget_used{pool=\"worker\"}", "1 2x20"),
    ];
    let (drained, rebooted, pool) =
        (json!({"node": "worker-1"}), json!({"node": "worker-2"}), json!({"pool": "worker"}));
    let cases = json!([
        expected(1, "MCCDrainError", drained.clone(), false),
        expected(2, "MCCDrainError", drained, true),
        expected(5, "MCDRebootError", rebooted.clone(), false),
        expected(7, "MCDRebootError", rebooted, true),
        expected(3, "MachinistBudgetExceeded", pool, true),
    ]);
    judge(folder.path(), &series, &cases);
}

#[test]
fn a_machine_without_a_node_one_that_does_not_run_and_one_that_does_not_go_raise_their_alerts() {
    if !needs::program("promtool", "install Debian's prometheus") {
        return;
    }
    let machine = |name: &str, node: &str, phase: &str| {
        format!(
            "mapi_machine_created_timestamp_seconds{{name=\"{name}\",namespace=\"ns\",node=\"{node}\",phase=\"{phase}\"}}"
        )
    };
    let series = [
        ("kube_node_info{node=\"there\"}".to_owned(), "1x400"),
        (machine("good", "there", "Running"), "1700000000x400"),
        (machine("lost", "gone", "Running"), "1700000000x400"),
        // It changes its phase within the hour.
        (machine("stuck", "there", "Provisioning"), "1700000000x30 stale"),
        (machine("stuck", "there", "Provisioned"), "_x30 1700000000x400"),
        (machine("held", "there", "Deleting"), "1700000000x400"),
        ("mapi_mao_collector_up{kind=\"mapi_machine_items\"}".to_owned(), "1 0x10"),
        ("mapi_machinehealthcheck_short_circuit{name=\"check\",namespace=\"ns\"}".to_owned(), "1x400"),
    ];
    let whose = |name: &str| json!({"name": name, "namespace": "ns"});
    let kind = json!({"kind": "mapi_machine_items"});
    let cases = json!([
        expected(59, "MachineWithoutValidNode", whose("lost"), false),
        expected(61, "MachineWithoutValidNode", whose("lost"), true),
        expected(59, "MachineWithNoRunningPhase", whose("stuck"), false),
        expected(61, "MachineWithNoRunningPhase", whose("stuck"), true),
        expected(359, "MachineNotYetDeleted", whose("held"), false),
        expected(361, "MachineNotYetDeleted", whose("held"), true),
        expected(7, "MachineAPIOperatorMetricsCollectionFailing", kind, true),
        expected(31, "MachineHealthCheckUnterminatedShortCircuit", whose("check"), true),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let series = series.each_ref().map(|(series, values)| (series.as_str(), *values));
    judge(folder.path(), &series, &cases);
}

/// Without kube-state-metrics nobody knows nodes, and that is no reason to ring for every machine.
#[test]
fn machines_are_not_without_nodes_where_nothing_reports_nodes() {
    if !needs::program("promtool", "install Debian's prometheus") {
        return;
    }
    let series = "mapi_machine_created_timestamp_seconds{name=\"m\",namespace=\"ns\",node=\"n\",phase=\"Running\"}";
    let folder = tempfile::tempdir().unwrap();
    let cases = json!([expected(90, "MachineWithoutValidNode", json!({"name": "m"}), false)]);
    judge(folder.path(), &[(series, "1700000000x100")], &cases);
}

/// The tool reads no dashboards, so each of their expressions stands in a rule.
#[test]
fn every_expression_of_the_dashboard_is_one_that_prometheus_reads() {
    if !needs::program("promtool", "install Debian's prometheus") {
        return;
    }
    let expressions = operate::board::expressions(&operate::board::board());
    let rule = |(place, expression): (usize, &String)| json!({"record": format!("panel_{place}"), "expr": expression});
    let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("rules.yaml"),
        json!({"groups": [{"name": "board", "rules": rules}]}).to_string(),
    )
    .unwrap();
    let said = promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    assert!(said.contains(&format!("SUCCESS: {} rules found", expressions.len())), "{said}");
}

/// Lets Prometheus's own tool read the rules and run them over these series.
fn judge(folder: &std::path::Path, series: &[(&str, &str)], cases: &Value) {
    // JSON is YAML too.
    std::fs::write(folder.join("rules.yaml"), groups().to_string()).unwrap();
    let said = promtool(folder, &["check", "rules", "rules.yaml"]);
    assert!(said.contains("SUCCESS"), "{said}");
    let series: Vec<Value> =
        series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
    let test = json!({
        "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": cases}],
    });
    std::fs::write(folder.join("test.yaml"), test.to_string()).unwrap();
    let said = promtool(folder, &["test", "rules", "test.yaml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}
