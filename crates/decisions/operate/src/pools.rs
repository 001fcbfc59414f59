//! The built-in pools and the settings of the cluster's hosts: made when they are missing, then the user's.

use api::{labels, names};
use serde_json::{Value, json};

use crate::facts::{Facts, Platform};
use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};

pub(crate) fn all(facts: &Facts) -> Vec<Desired> {
    let mut pools = vec![pool(names::POOL_MASTER, facts), pool(names::POOL_WORKER, facts)];
    if facts.topology.as_deref() == Some("HighlyAvailableArbiter") {
        pools.push(pool(names::POOL_ARBITER, facts));
    }
    pools.into_iter().map(|pool| Desired::new(Step::MachineConfigPools, Keep::Labels, pool)).collect()
}

fn pool(name: &str, facts: &Facts) -> Value {
    let mut own = json!({labels::MCO_BUILT_IN: "", format!("{}{name}", labels::POOL_PREFIX): ""});
    if name != names::POOL_WORKER {
        own[labels::REQUIRED_FOR_UPGRADE] = json!("");
    }
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": own},
        "spec": {
            "machineConfigSelector": {"matchLabels": {labels::ROLE: name}},
            "nodeSelector": node_selector(name, facts),
        },
    })
}

/// OpenShift labels every node with its role. Elsewhere only the control plane is labelled, so workers are the rest.
fn node_selector(pool: &str, facts: &Facts) -> Value {
    let role = |role: &str| json!({"matchLabels": {format!("{}{role}", labels::NODE_ROLE_PREFIX): ""}});
    let expression =
        |operator: &str| json!({"matchExpressions": [{"key": facts.control_plane_label(), "operator": operator}]});
    match (facts.platform, pool) {
        (Platform::OpenShift, pool) => role(pool),
        (Platform::Plain, names::POOL_MASTER) => expression("Exists"),
        (Platform::Plain, names::POOL_WORKER) => expression("DoesNotExist"),
        (Platform::Plain, pool) => role(pool),
    }
}

/// What differs from one Kubernetes to another; a user's changes stand.
pub(crate) fn settings(installation: &Installation, facts: &Facts) -> Desired {
    let mut spec = json!({});
    if let Some(user) = &installation.admin_user {
        spec["adminUser"] = json!(user);
    }
    if let Some(unit) = installation.runtime_service.clone().or_else(|| facts.runtime_service()) {
        spec["runtimeService"] = json!(unit);
    }
    let object = json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "ClusterSettings",
        "metadata": {"name": names::CLUSTER}, "spec": spec,
    });
    Desired::new(Step::MachineConfiguration, Keep::Once, object)
}

pub(crate) fn machine_configuration() -> Desired {
    let object = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
        "metadata": {"name": names::CLUSTER},
        "spec": {"managementState": "Managed", "logLevel": "Normal", "operatorLogLevel": "Normal"},
    });
    Desired::new(Step::MachineConfiguration, Keep::Once, object)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::facts::NodeFacts;

    fn facts(nodes: &[(&[&str], &str)]) -> Facts {
        let node = |(labels, runtime): &(&[&str], &str)| NodeFacts {
            labels: labels.iter().map(|label| format!("node-role.kubernetes.io/{label}")).collect(),
            runtime: (*runtime).to_owned(),
            ..NodeFacts::default()
        };
        Facts { nodes: nodes.iter().map(node).collect(), ..Facts::default() }
    }

    #[track_caller]
    fn check(facts: &Facts, expected: Expect) {
        let selectors: Vec<String> = all(facts)
            .iter()
            .map(|pool| format!("{}: {}", pool.object["metadata"]["name"], pool.object["spec"]["nodeSelector"]))
            .collect();
        expected.assert_eq(&selectors.join("\n"));
    }

    #[test]
    fn off_openshift_workers_are_the_nodes_that_are_not_control_plane() {
        check(
            &facts(&[(&["control-plane"], "containerd://2.0"), (&[], "containerd://2.0")]),
            expect![[r#"
                "master": {"matchExpressions":[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]}
                "worker": {"matchExpressions":[{"key":"node-role.kubernetes.io/control-plane","operator":"DoesNotExist"}]}"#]],
        );
    }

    #[test]
    fn an_older_cluster_that_only_knows_master_is_met_as_it_is() {
        check(
            &facts(&[(&["master"], ""), (&["worker"], "")]),
            expect![[r#"
                "master": {"matchExpressions":[{"key":"node-role.kubernetes.io/master","operator":"Exists"}]}
                "worker": {"matchExpressions":[{"key":"node-role.kubernetes.io/master","operator":"DoesNotExist"}]}"#]],
        );
    }

    #[test]
    fn on_openshift_pools_select_by_role_and_the_arbiter_has_one() {
        let facts = Facts {
            platform: Platform::OpenShift,
            topology: Some("HighlyAvailableArbiter".into()),
            ..Facts::default()
        };
        check(
            &facts,
            expect![[r#"
                "master": {"matchLabels":{"node-role.kubernetes.io/master":""}}
                "worker": {"matchLabels":{"node-role.kubernetes.io/worker":""}}
                "arbiter": {"matchLabels":{"node-role.kubernetes.io/arbiter":""}}"#]],
        );
    }

    #[test]
    fn the_runtime_is_found_from_the_nodes_and_a_flag_wins() {
        let unit = |installation: &Installation, facts: &Facts| {
            settings(installation, facts).object["spec"]["runtimeService"].clone()
        };
        let containerd = facts(&[(&[], "containerd://1.7.2"), (&[], "containerd://2.0.0"), (&[], "cri-o://1.34.0")]);
        let given = Installation { runtime_service: Some("crio.service".into()), ..Installation::default() };
        assert_eq!(unit(&Installation::default(), &containerd), "containerd.service");
        assert_eq!(unit(&given, &containerd), "crio.service");
        assert_eq!(unit(&Installation::default(), &Facts::default()), Value::Null);
    }
}
