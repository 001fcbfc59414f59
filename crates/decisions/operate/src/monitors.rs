//! ServiceMonitors: they let a Prometheus operator find the metrics of every process that has a Service.
//!
//! They are made where their kind is installed, and go when it does. All of them stand in the namespace of the operator,
//! which may write nowhere else; those of the Machine API point to the Services in its namespace.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::machine_api;
use crate::objects::{Desired, Keep, Step};
use crate::workloads::{CONTROLLER, DAEMON, OPERATOR, Place};

/// As often as most clusters scrape; nothing that is counted changes faster than a node does.
const INTERVAL: &str = "30s";

pub(crate) fn all(installation: &Installation) -> Vec<Desired> {
    let home = installation.namespace.as_str();
    let machines = installation.machine_namespace.as_str();
    let plain = [
        Place::new(OPERATOR, home),
        Place::new(CONTROLLER, home),
        Place::new(machine_api::OPERATOR, machines),
        machine_api::place(machines),
    ];
    let plain = plain.iter().map(|place| monitor(home, place, json!({"port": "metrics", "interval": INTERVAL})));
    plain.chain([daemons(home)]).map(|object| Desired::new(Step::RenderConfig, Keep::Whole, object)).collect()
}

/// Daemons are on the network of their hosts, so they serve by TLS and ask the API who may read. The certificate is the
/// kubelet's or one of their own; which authority signs it differs from cluster to cluster, so it is not checked.
fn daemons(home: &str) -> Value {
    let endpoint = json!({
        "port": "metrics",
        "interval": INTERVAL,
        "scheme": "https",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {"insecureSkipVerify": true},
    });
    monitor(home, &Place::new(DAEMON, home), endpoint)
}

fn monitor(home: &str, place: &Place, endpoint: Value) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": place.name, "namespace": home, "labels": place.labels},
        "spec": {
            "selector": {"matchLabels": place.labels},
            "namespaceSelector": {"matchNames": [place.namespace]},
            "endpoints": [endpoint],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::installed;

    /// What would be scraped through a monitor: the Services that it selects.
    fn services<'a>(monitor: &Value, all: &'a [Value]) -> Vec<&'a str> {
        let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels");
        let is_selected = |service: &&Value| {
            service["kind"] == "Service"
                && service["metadata"]["namespace"] == monitor["spec"]["namespaceSelector"]["matchNames"][0]
                && wanted.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value)
        };
        all.iter().filter(is_selected).filter_map(|service| service["metadata"]["name"].as_str()).collect()
    }

    #[test]
    fn every_service_with_metrics_is_selected_by_exactly_one_monitor() {
        let installation = Installation::default();
        let controllers =
            machine_api::Controllers { provider: "memory".to_owned(), ..machine_api::Controllers::default() };
        let all: Vec<Value> = installed(&installation)
            .into_iter()
            .chain(machine_api::installed(&installation))
            .chain(machine_api::kept(&installation.machine_namespace, &controllers, None))
            .map(|one| one.object)
            .collect();
        let has_metrics = |service: &&Value| {
            service["kind"] == "Service"
                && service["spec"]["ports"]
                    .as_array()
                    .is_some_and(|ports| ports.iter().any(|port| port["name"] == "metrics"))
        };
        let mut wanted: Vec<&str> =
            all.iter().filter(has_metrics).filter_map(|service| service["metadata"]["name"].as_str()).collect();
        let monitors = super::all(&installation);
        let mut found: Vec<&str> = monitors.iter().flat_map(|one| services(&one.object, &all)).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, wanted);
        assert_eq!(found.len(), 5, "{found:?}");
    }

    #[test]
    fn only_daemons_are_asked_with_a_token() {
        for one in all(&Installation::default()) {
            let is_daemon = one.object["metadata"]["name"] == DAEMON;
            assert_eq!(one.object["spec"]["endpoints"][0]["scheme"] == "https", is_daemon, "{}", one.id());
            assert_eq!(one.object["spec"]["endpoints"][0].get("bearerTokenFile").is_some(), is_daemon, "{}", one.id());
        }
    }
}
