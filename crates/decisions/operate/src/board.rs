//! A Grafana dashboard of the fleet: one JSON document to import, about the metrics that the processes have.
//!
//! A panel is a title, a unit and queries; where it stands is worked out, so that panels can be added anywhere.

use serde_json::{Value, json};

/// Grafana's grid is 24 columns wide; three panels stand beside each other.
const WIDTH: usize = 8;
const HEIGHT: usize = 8;

struct Row {
    title: &'static str,
    panels: Vec<Panel>,
}

struct Panel {
    title: &'static str,
    unit: &'static str,
    /// Expressions with the legend of their lines.
    queries: Vec<(&'static str, &'static str)>,
}

/// The dashboard as Grafana imports it.
#[must_use]
pub fn board() -> Value {
    let mut panels = Vec::new();
    let mut top = 0;
    for row in [pools(), nodes(), machines(), processes()] {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false,
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}, "panels": [],
        }));
        top += 1;
        let lines = row.panels.len().div_ceil(24 / WIDTH);
        for (place, panel) in row.panels.into_iter().enumerate() {
            let (x, y) = (place % (24 / WIDTH) * WIDTH, top + place / (24 / WIDTH) * HEIGHT);
            panels.push(drawn(panels.len() + 1, &panel, x, y));
        }
        top += lines * HEIGHT;
    }
    json!({
        "uid": "machinist", "title": "Machinist", "tags": ["machinist"], "schemaVersion": 39, "version": 1,
        "editable": true, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            {
                "name": "pool", "label": "Pool", "type": "query", "datasource": source(),
                "query": {"query": "label_values(mco_machine_count, pool)", "refId": "pool"},
                "refresh": 2, "multi": true, "includeAll": true, "current": {"text": "All", "value": "$__all"},
            },
        ]},
        "panels": panels,
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn drawn(id: usize, panel: &Panel, x: usize, y: usize) -> Value {
    let target = |(place, (query, legend)): (usize, &(&str, &str))| {
        let letter = char::from(b'A' + u8::try_from(place).unwrap_or(25));
        json!({"refId": letter.to_string(), "datasource": source(), "expr": query, "legendFormat": legend})
    };
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "datasource": source(),
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": panel.queries.iter().enumerate().map(target).collect::<Vec<_>>(),
    })
}

fn panel(title: &'static str, unit: &'static str, queries: &[(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, queries: queries.to_vec() }
}

fn pools() -> Row {
    let panels = vec![
        panel(
            "Nodes that have what their pool wants",
            "percentunit",
            &[(
                "sum by (pool) (mco_updated_machine_count{pool=~\"$pool\"}) / \
                 (sum by (pool) (mco_machine_count{pool=~\"$pool\"}) > 0)",
                "{{pool}}",
            )],
        ),
        panel(
            "Nodes in a change, and how many may be",
            "none",
            &[
                ("sum by (pool) (machinist_pool_budget_used{pool=~\"$pool\"})", "{{pool}} now"),
                ("sum by (pool) (machinist_pool_budget{pool=~\"$pool\"})", "{{pool}} at most"),
            ],
        ),
        panel(
            "Unavailable and degraded nodes",
            "none",
            &[
                ("sum by (pool) (mco_unavailable_machine_count{pool=~\"$pool\"})", "{{pool}} unavailable"),
                ("sum by (pool) (mco_degraded_machine_count{pool=~\"$pool\"})", "{{pool}} degraded"),
            ],
        ),
    ];
    Row { title: "Pools", panels }
}

fn nodes() -> Row {
    let panels = vec![
        panel(
            "Updates and changes taken back, per hour",
            "none",
            &[
                ("sum(increase(machinistd_updates_total[1h]))", "updates"),
                ("sum(increase(machinistd_reverts_total[1h]))", "taken back"),
            ],
        ),
        panel(
            "Nodes that need somebody",
            "none",
            &[
                ("count(mcc_drain_err > 0) or vector(0)", "drains that fail for an hour"),
                ("count(mcd_config_drift > 0) or vector(0)", "drift"),
                ("count(mcd_kubelet_state > 2) or vector(0)", "kubelets that are not healthy"),
                ("count(mcd_reboots_failed_total > 0) or vector(0)", "reboots that failed"),
                ("count(mcd_pivot_errors_total > 0) or vector(0)", "OS updates that fail"),
            ],
        ),
        panel(
            "Operating systems",
            "none",
            &[("count by (os, version) (mcd_host_os_and_version)", "{{os}} {{version}}")],
        ),
    ];
    Row { title: "Nodes", panels }
}

fn machines() -> Row {
    let panels = vec![
        panel(
            "Machines by phase",
            "none",
            &[("count by (phase) (mapi_machine_created_timestamp_seconds)", "{{phase}}")],
        ),
        panel(
            "Sets: machines wanted, ready and available",
            "none",
            &[
                ("sum(mapi_machine_set_status_replicas)", "in status"),
                ("sum(mapi_machine_set_status_replicas_ready)", "ready"),
                ("sum(mapi_machine_set_status_replicas_available)", "available"),
            ],
        ),
        panel(
            "Refusals of the provider and held health checks",
            "none",
            &[
                ("sum(mapi_instance_create_failed)", "not created"),
                ("sum(mapi_instance_delete_failed)", "not deleted"),
                ("sum(mapi_machinehealthcheck_short_circuit)", "health checks that hold back"),
            ],
        ),
    ];
    Row { title: "Machines", panels }
}

fn processes() -> Row {
    let panels = vec![
        panel(
            "Writes to the API per second",
            "none",
            &[
                ("sum by (kind) (rate(machinist_writes_total[5m]))", "{{kind}}"),
                ("sum by (kind) (rate(machinist_machines_writes_total[5m]))", "{{kind}} (machines)"),
            ],
        ),
        panel(
            "Troubles of the operator, and objects that it put back per hour",
            "none",
            &[
                ("sum(machinist_operator_troubles)", "troubles"),
                ("sum by (kind) (increase(machinist_operator_restored_total[1h]))", "{{kind}} put back"),
            ],
        ),
        panel(
            "Time until certificates end",
            "s",
            &[("min by (certificate) (machinist_operator_certificate_expiry_seconds) - time()", "{{certificate}}")],
        ),
    ];
    Row { title: "Processes", panels }
}

/// The expressions of a dashboard, with its variables filled in, for judges that know Prometheus only.
#[must_use]
pub fn expressions(board: &Value) -> Vec<String> {
    let panels = board["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.filter_map(|target| Some(target["expr"].as_str()?.replace("$pool", ".*"))).collect()
}
