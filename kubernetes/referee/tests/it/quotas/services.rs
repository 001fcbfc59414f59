//! Quotas of services: their number, the ports of nodes, the balancers.

use serde_json::{Value, json};

use super::{Scenario, Step, core, delete, patch, post, quota};

pub(super) fn scenarios() -> Vec<Scenario> {
    let services = core("services");
    let service = |name: &str, kind: &str, ports: &[i64], extra: Value| {
        let ports: Vec<Value> = ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
        let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": kind, "ports": ports}});
        extra.as_object().unwrap().iter().for_each(|(key, value)| service["spec"][key] = value.clone());
        service
    };
    let hard =
        json!({"services": "3", "services.nodeports": "3", "services.loadbalancers": "1", "count/services": "4"});
    let used = |count: &str, ports: &str, balancers: &str| json!({"services": count, "count/services": count, "services.nodeports": ports, "services.loadbalancers": balancers});
    let plain = || json!({});
    let mut put = service("put", "NodePort", &[80], plain());
    put["metadata"]["labels"] = json!({"made": "by-put"});
    let steps = vec![
        post(&core("resourcequotas"), quota("services", hard)),
        Step::Settled("services", used("0", "0", "0")),
        post(&services, service("plain", "ClusterIP", &[80, 81], plain())),
        Step::Settled("services", used("1", "0", "0")),
        post(&services, service("wide", "NodePort", &[80, 81, 82, 83], plain())),
        post(&services, service("narrow", "NodePort", &[80, 81], plain())),
        Step::Settled("services", used("2", "2", "0")),
        post(&services, service("balanced", "LoadBalancer", &[80, 81], plain())),
        post(
            &services,
            service("balanced", "LoadBalancer", &[80, 81], json!({"allocateLoadBalancerNodePorts": false})),
        ),
        Step::Settled("services", used("3", "2", "1")),
        post(&services, service("fourth", "ClusterIP", &[80], plain())),
        patch(&format!("{services}/plain"), json!({"spec": {"type": "LoadBalancer"}})),
        patch(&format!("{services}/plain"), json!({"spec": {"type": "NodePort"}})),
        patch(&format!("{services}/plain"), json!({"metadata": {"labels": {"a": "b"}}})),
        patch(
            &format!("{services}/narrow"),
            json!({"spec": {"type": "ClusterIP", "ports": [{"name": "p80", "port": 80}]}}),
        ),
        Step::Settled("services", used("3", "0", "1")),
        patch(&format!("{services}/plain"), json!({"spec": {"type": "NodePort"}})),
        Step::Settled("services", used("3", "2", "1")),
        delete(&format!("{services}/balanced")),
        Step::Settled("services", used("2", "2", "0")),
        Step::Ask(reqwest::Method::PUT, format!("{services}/put"), super::JSON, put),
        Step::Settled("services", used("3", "3", "0")),
    ];
    vec![Scenario { name: "quota-services", steps }]
}
