//! What the operator may do: its account is enough for its work, and it can change no workload but its own.

use std::collections::BTreeSet;

use api::config::ClusterOperator;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, PostParams};
use operator::Settings;
use serde_json::json;
use testkit::objects::node;
use testkit::{ControlPlane, Kind, control_plane, needs, wait_for};

use crate::stage::{NAMESPACE, settings};

const ACCOUNT: &str = "system:serviceaccount:openshift-machine-config-operator:machine-config-operator";

/// The verbs that an account has on a resource in a namespace, as `kubectl auth can-i --list` tells.
fn verbs(control_plane: &ControlPlane, namespace: &str, resource: &str) -> BTreeSet<String> {
    let listed = control_plane.kubectl(&["auth", "can-i", "--list", "--as", ACCOUNT, "-n", namespace]);
    let rows = listed.lines().filter(|row| row.split_whitespace().next() == Some(resource));
    let verbs =
        rows.filter_map(|row| row.rsplit_once('[')).flat_map(|(_, verbs)| verbs.trim_end_matches(']').split(' '));
    verbs.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_operators_account_is_enough_and_reaches_no_workload_of_others() {
    for kind in Kind::all() {
        if !needs::kubectl() {
            return;
        }
        let Some(control_plane) = control_plane(kind).await else { continue };
        let settings = Settings { installs: false, ..settings() };
        let objects = operate::installed(&settings.installation).into_iter().map(|one| one.object);
        for object in objects {
            let one = json!({"apiVersion": "v1", "kind": "List", "items": [object]});
            control_plane.apply(&one.to_string());
        }
        let admin = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        let nodes: Api<Node> = Api::all(admin.clone());
        nodes.create(&PostParams::default(), &node("control-plane-1", &["control-plane"])).await.unwrap();
        let kubeconfig = control_plane.user_kubeconfig(ACCOUNT, None);
        let client = cluster::connect(Some(&kubeconfig)).await.unwrap();
        let operator = tokio::spawn(operator::run(client, settings, std::future::pending()));
        let operators: Api<ClusterOperator> = Api::all(admin.clone());
        wait_for(&operators, api::names::CLUSTER_OPERATOR, "everything to be made", |object| {
            let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
            let is = |type_: &str, status: &str| {
                conditions.into_iter().flatten().any(|one| one.type_ == type_ && one.status == status)
            };
            is("Available", "True") && is("Degraded", "False")
        })
        .await;
        let daemons: Api<DaemonSet> = Api::namespaced(admin.clone(), NAMESPACE);
        daemons.delete("machine-config-daemon", &DeleteParams::default()).await.unwrap();
        wait_for(&daemons, "machine-config-daemon", "the DaemonSet to come back", |one| {
            one.is_some_and(|one| one.metadata.deletion_timestamp.is_none())
        })
        .await;
        operator.abort();

        for resource in
            ["deployments.apps", "daemonsets.apps", "serviceaccounts", "services", "networkpolicies.networking.k8s.io"]
        {
            let at_home = verbs(&control_plane, NAMESPACE, resource);
            assert!(at_home.contains("create") && at_home.contains("delete"), "{resource}: {at_home:?}");
            for namespace in ["default", "kube-system", api::names::MACHINE_API_NAMESPACE] {
                let elsewhere = verbs(&control_plane, namespace, resource);
                for verb in ["create", "update", "patch", "delete", "*"] {
                    assert!(!elsewhere.contains(verb), "{resource} in {namespace}: {elsewhere:?}");
                }
            }
        }
    }
}
