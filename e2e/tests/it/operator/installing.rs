//! `machinist install`, twice, and `machinist uninstall`.

use std::process::Command;

use api::machineconfiguration::MachineConfig;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use testkit::binaries::binary;
use testkit::objects::file_config;
use testkit::{Kind, needs, wait_for, wait_for_all};

use super::stage::{NAMESPACE, Stage, settings};

/// The API's address for machines, which a bare API server does not publish.
pub(crate) const URL: &str = "--apiserver-url=https://api-int.example.com:6443";

/// Runs `machinist` and returns its output.
pub(crate) fn machinist(arguments: &[&str]) -> String {
    let output = Command::new(binary("machinist")).args(arguments).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "machinist {arguments:?}: {stderr}");
    stdout.into_owned()
}

/// Whether kubectl found nothing to change. It sends the selector of a PodDisruptionBudget each time, because the API says that
/// patches replace it, and calls that a change.
fn is_unchanged(line: &str) -> bool {
    line.ends_with(" unchanged") || line.starts_with("poddisruptionbudget.policy/") && line.ends_with(" configured")
}

#[tokio::test]
async fn installing_twice_changes_nothing_and_uninstalling_leaves_only_what_the_user_made() {
    if !needs::kubectl() {
        return;
    }
    let Some(stage) = Stage::start(Kind::Real).await else { return };
    let manifests = machinist(&["install", URL]);
    let first = stage.control_plane.apply(&manifests);
    assert!(first.lines().all(|line| line.ends_with(" created")), "{first}");
    let second = stage.control_plane.apply(&manifests);
    assert!(second.lines().all(is_unchanged), "{second}");

    // A running operator must not make the next `apply` see a difference.
    let operator = stage.operate(operator::Settings { installs: false, ..settings() });
    stage.available().await;
    let third = stage.control_plane.apply(&manifests);
    let changed: Vec<&str> = third.lines().filter(|line| !is_unchanged(line)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    operator.abort();

    let configs: Api<MachineConfig> = Api::all(stage.client.clone());
    configs.create(&PostParams::default(), &file_config("50-mine", "worker", "/etc/mine", "x")).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "openshift-machine-api");
    let mine = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-credentials"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(mine).unwrap()).await.unwrap();
    let kubeconfig = stage.control_plane.kubeconfig();
    let told = machinist(&["uninstall", "--yes", "--kubeconfig", kubeconfig.to_str().unwrap(), URL]);
    assert!(
        told.contains(
            "keep CustomResourceDefinition machineconfigs.machineconfiguration.openshift.io: 1 made by you: 50-mine"
        ),
        "{told}"
    );
    what_is_left(&stage).await;
}

async fn what_is_left(stage: &Stage) {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    wait_for(&namespaces, NAMESPACE, "our namespace to go", |namespace| namespace.is_none()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    // OpenShift's kinds that we only read are kept, because other components of the cluster may need them.
    let is_read_only = |name: &str| name.ends_with(".config.openshift.io") || name.starts_with("imagecontentsource");
    let ours = |all: &[CustomResourceDefinition]| -> Vec<String> {
        all.iter().map(ResourceExt::name_any).filter(|name| !is_read_only(name)).collect()
    };
    let expected = ["machineconfigs.machineconfiguration.openshift.io"];
    wait_for_all(&definitions, "the definitions to go", |all| ours(all) == expected).await;
    let configs: Api<MachineConfig> = Api::all(stage.client.clone());
    let names: Vec<String> =
        configs.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["50-mine"]);
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "openshift-machine-api");
    let names: Vec<String> =
        secrets.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["cloud-credentials"], "a user's secret keeps its namespace");
    let ours = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings";
    let found = stage.control_plane.kubectl(&["get", ours, "-l", "app.kubernetes.io/part-of=machinist", "-o", "name"]);
    assert_eq!(found, "");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        assert!(!node.annotations().keys().any(|key| key.starts_with("machineconfiguration.openshift.io/")));
    }
}
