//! Alerts about machines and health checks.
//!
//! They carry no label `namespace` of their own: it would replace that of the object, and two machines of one name would be
//! one alert, which Prometheus refuses to evaluate.

use serde_json::{Value, json};

/// The machines that no node stands for. Where nothing reports nodes, nobody knows, and a machine without a node shows by its
/// phase alone.
const WITHOUT_NODE: &str = "sum by (name, namespace) \
    (mapi_machine_created_timestamp_seconds unless on(node) kube_node_info unless on() absent(kube_node_info)) > 0";
/// Summed without the phase, so that the time goes on when a machine changes from one phase to another.
const NOT_RUNNING: &str =
    "sum by (name, namespace) (mapi_machine_created_timestamp_seconds{phase!~\"Running|Deleting\"}) > 0";
const NOT_DELETED: &str = "sum by (name, namespace) \
    (avg_over_time(mapi_machine_created_timestamp_seconds{phase=\"Deleting\"}[15m])) > 0";

pub(super) fn rules() -> Vec<Value> {
    let alert = |name: &str, expression: &str, wait: &str, summary: &str, text: &str| {
        json!({
            "alert": name,
            "expr": expression,
            "for": wait,
            "labels": {"severity": "warning"},
            "annotations": {"summary": summary, "description": text},
        })
    };
    vec![
        alert(
            "MachineWithoutValidNode",
            WITHOUT_NODE,
            "60m",
            "A machine has no node",
            "Machine {{ $labels.namespace }}/{{ $labels.name }} has had no node for an hour. `machinist why machine {{ $labels.name }}` says where it stopped.",
        ),
        alert(
            "MachineWithNoRunningPhase",
            NOT_RUNNING,
            "60m",
            "A machine does not run",
            "Machine {{ $labels.namespace }}/{{ $labels.name }} has been in no phase Running for an hour. `machinist why machine {{ $labels.name }}` names its phase and what it waits for.",
        ),
        alert(
            "MachineNotYetDeleted",
            NOT_DELETED,
            "360m",
            "A machine is not deleted",
            "Machine {{ $labels.namespace }}/{{ $labels.name }} has been in deletion for six hours. `machinist why machine {{ $labels.name }}` names the pod, hook or refusal that holds it.",
        ),
        alert(
            "MachineAPIOperatorMetricsCollectionFailing",
            "mapi_mao_collector_up == 0",
            "5m",
            "The machine controllers cannot read machines",
            "The machine controllers cannot read what {{ $labels.kind }} counts, so nothing of that kind is reconciled. Their log names the error.",
        ),
        alert(
            "MachineHealthCheckUnterminatedShortCircuit",
            "mapi_machinehealthcheck_short_circuit == 1",
            "30m",
            "A health check holds back",
            "MachineHealthCheck {{ $labels.namespace }}/{{ $labels.name }} replaces nobody, because more machines are unhealthy than its maxUnhealthy allows. Look at what they have in common.",
        ),
    ]
}
