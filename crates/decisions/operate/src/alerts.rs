//! Alert rules for a cluster that runs the Prometheus operator, under upstream's names.

mod machines;

use serde_json::{Value, json};

use crate::objects::{Desired, Keep, Step};

pub(crate) fn rules(namespace: &str) -> Desired {
    let alert = |name: &str, expression: &str, wait: Option<&str>, severity: &str, summary: &str, text: &str| {
        let mut rule = json!({
            "alert": name,
            "expr": expression,
            "labels": {"severity": severity, "namespace": namespace},
            "annotations": {"summary": summary, "description": text},
        });
        if let Some(wait) = wait {
            rule["for"] = json!(wait);
        }
        rule
    };
    let rules: Vec<Value> = vec![
        alert(
            "MCCDrainError",
            "mcc_drain_err > 0",
            None,
            "warning",
            "A node cannot be drained",
            "Draining {{ $labels.node }} has failed for an hour. `machinist why node {{ $labels.node }}` names the pod and its budget.",
        ),
        alert(
            "MCCPoolAlert",
            "mcc_pool_alert > 0",
            None,
            "warning",
            "A control-plane node is claimed by a custom pool",
            "Node {{ $labels.node }} has the label of a custom pool and stays in the control plane's. Take the label away.",
        ),
        alert(
            "MCDRebootError",
            "mcd_reboots_failed_total > 0",
            Some("5m"),
            "critical",
            "A node cannot reboot",
            "The reboot of a node failed, so its update waits. See the log of machine-config-daemon there.",
        ),
        alert(
            "MCDPivotError",
            "mcd_pivot_errors_total > 0",
            Some("2m"),
            "warning",
            "An OS update fails",
            "A node cannot change its OS image. See the log of machine-config-daemon there.",
        ),
        alert(
            "KubeletHealthState",
            "mcd_kubelet_state > 2",
            None,
            "warning",
            "A kubelet is not healthy",
            "The kubelet of a node has failed three health checks in a row.",
        ),
        alert(
            "MachinistConfigDrift",
            "mcd_config_drift > 0",
            Some("5m"),
            "warning",
            "A host differs from its config",
            "Files of a node are not what its config says. `machinistd diff` on the host shows where.",
        ),
        alert(
            "MachinistPoolDegraded",
            "mco_degraded_machine_count > 0",
            Some("15m"),
            "warning",
            "A pool has degraded nodes",
            "Pool {{ $labels.pool }} has {{ $value }} degraded nodes. `machinist why pool {{ $labels.pool }}` says why.",
        ),
        alert(
            "MachinistBudgetExceeded",
            "machinist_pool_budget_used > machinist_pool_budget",
            Some("1m"),
            "critical",
            "More nodes are disrupted than allowed",
            "Pool {{ $labels.pool }} has more nodes in an update than its maxUnavailable allows.",
        ),
        json!({"record": "os_image_url_override:sum", "expr": "sum(os_image_url_override)"}),
    ];
    let object = json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": "machine-config-controller", "namespace": namespace, "labels": {"k8s-app": "machine-config-controller"}},
        "spec": {"groups": [{"name": "machine-config", "rules": rules}, {"name": "machine-api", "rules": machines::rules()}]},
    });
    Desired::new(Step::RenderConfig, Keep::Whole, object)
}
